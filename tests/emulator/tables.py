"""Tables like the template's, in a store that nothing was deployed to."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import KeySchemaElementTypeDef, StreamSpecificationTypeDef


def new_table(dynamodb: DynamoDBClient, *, with_stream: bool = False) -> str:
    """Make a table with the keys and the index of the template's; answers its name.

    With ``with_stream``, each change of an item is told, with the item before and after it.
    """
    name = f"paddock-{uuid4()}"
    keys: list[KeySchemaElementTypeDef] = [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ]
    running: list[KeySchemaElementTypeDef] = [
        {"AttributeName": "running", "KeyType": "HASH"},
        {"AttributeName": "pk", "KeyType": "RANGE"},
    ]
    stream: StreamSpecificationTypeDef = {"StreamEnabled": with_stream}
    if with_stream:
        stream["StreamViewType"] = "NEW_AND_OLD_IMAGES"
    dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": attribute, "AttributeType": "S"} for attribute in ("pk", "sk", "running")
        ],
        KeySchema=keys,
        GlobalSecondaryIndexes=[
            {"IndexName": "running", "KeySchema": running, "Projection": {"ProjectionType": "KEYS_ONLY"}}
        ],
        StreamSpecification=stream,
    )
    return name
