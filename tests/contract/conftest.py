"""The emulator's DynamoDB alone, for the suite that runs against the fake and against it."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING
from uuid import uuid4

import boto3
import pytest
from botocore.config import Config

from tests.emulator.processes import HOST, Child, free_port
from tests.emulator.template import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import KeySchemaElementTypeDef

# One connection for each thread of the concurrency tests.
CONNECTIONS = 20


@pytest.fixture(scope="module")
def dynamodb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DynamoDBClient]:
    """A client of an empty DynamoDB, which ends with the module that asked for it."""
    port, directory = free_port(), tmp_path_factory.mktemp("dynamodb")
    environment = {
        "PATH": os.environ["PATH"],
        "GATEWAY_PORT": str(port),
        "BIND_HOST": HOST,
        "IOT_MTLS_ENABLED": "0",
        "SERVICES": "dynamodb",
        "STATE_DIR": str(directory / "state"),
        "TMPDIR": str(directory),
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    child = Child("dynamodb", [sys.executable, "-m", "ministack"], environment, directory / "log", ROOT)
    try:
        child.wait_until_listening(port)
        session = boto3.Session("test", "test", region_name="us-east-1")
        yield session.client(
            "dynamodb", endpoint_url=f"http://{HOST}:{port}", config=Config(max_pool_connections=CONNECTIONS)
        )
    finally:
        # It keeps nothing, so there is no state to wait for.
        child.stop(signal.SIGTERM, timeout_seconds=5)


@pytest.fixture
def table(dynamodb: DynamoDBClient) -> str:
    """The name of a table of the test's own, with the keys and the index of the template's."""
    name = f"paddock-{uuid4()}"
    keys: list[KeySchemaElementTypeDef] = [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ]
    running: list[KeySchemaElementTypeDef] = [
        {"AttributeName": "running", "KeyType": "HASH"},
        {"AttributeName": "pk", "KeyType": "RANGE"},
    ]
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
    )
    return name
