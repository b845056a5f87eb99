"""What DynamoDB does with the calls that the repository makes, of each DynamoDB that tests use.

Amazon's DynamoDB Local says what is right. Where the emulator is kinder, ``LENIENT`` says so: those faults
of ours it does not show, and the other two must.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError

from tests.emulator.tables import new_table
from tests.fakes.dynamodb import FakeDynamoDb

NEW = "attribute_not_exists(pk)"


class Store:
    """A client and its table, and short ways to call it as the adapter does."""

    def __init__(self, client: Any, table: str) -> None:
        self.client = client
        self.table = table
        self.token = str(uuid4())

    def put(self, **attributes: Any) -> dict[str, Any]:
        """The write of a new item with the key ``p``, ``s``, or another."""
        item = {"pk": {"S": "p"}, "sk": {"S": "s"}, "revision": {"N": "1"}, **attributes}
        return {"Put": {"TableName": self.table, "Item": item, "ConditionExpression": NEW}}

    def delete(self, pk: str = "p", sk: str = "s", revision: int = 1) -> dict[str, Any]:
        """The removal of an item at a revision."""
        return {
            "Delete": {
                "TableName": self.table,
                "Key": {"pk": {"S": pk}, "sk": {"S": sk}},
                "ConditionExpression": "revision = :was",
                "ExpressionAttributeValues": {":was": {"N": str(revision)}},
            }
        }

    def write(self, *writes: dict[str, Any], **more: Any) -> Any:
        """One transaction."""
        more.setdefault("ClientRequestToken", str(uuid4()))
        return self.client.transact_write_items(TransactItems=list(writes), **more)

    def get(self, pk: str = "p", sk: str = "s") -> Any:
        """One item, or none."""
        key = {"pk": {"S": pk}, "sk": {"S": sk}}
        found = self.client.get_item(TableName=self.table, Key=key, ConsistentRead=True)
        return found.get("Item")

    def batch(self, *keys: tuple[str, str]) -> Any:
        """Several items in one call."""
        wanted = [{"pk": {"S": pk}, "sk": {"S": sk}} for pk, sk in keys]
        return self.client.batch_get_item(RequestItems={self.table: {"Keys": wanted, "ConsistentRead": True}})

    def query(self, condition: str, *, start: tuple[str, str] | None = None, **values: str) -> list[Any]:
        """All pages of a query."""
        query: dict[str, Any] = {
            "TableName": self.table,
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": {f":{name}": {"S": value} for name, value in values.items()},
            "ConsistentRead": True,
        }
        if start:
            query["ExclusiveStartKey"] = {"pk": {"S": start[0]}, "sk": {"S": start[1]}}
        pages = [self.client.query(**query)]
        while following := pages[-1].get("LastEvaluatedKey"):
            pages.append(self.client.query(**{**query, "ExclusiveStartKey": following}))
        return pages


@pytest.fixture(params=["memory", "dynamodb", "oracle"])
def store(request: pytest.FixtureRequest) -> Store:
    if request.param == "memory":
        return Store(FakeDynamoDb(), "table")
    client = request.getfixturevalue(request.param)
    return Store(client, new_table(client))


SK = "pk = :pk AND begins_with(sk, :sk)"
AFTER = "pk = :pk AND sk > :sk"

REFUSED: dict[str, Any] = {
    "an empty partition key": lambda one: one.write(one.put(pk={"S": ""})),
    "an empty sort key": lambda one: one.write(one.put(sk={"S": ""})),
    "a partition key of more than 2,048 bytes": lambda one: one.write(one.put(pk={"S": "é" * 1_025})),
    "a sort key of more than 1,024 bytes": lambda one: one.write(one.put(sk={"S": "é" * 513})),
    "an empty key of an index": lambda one: one.write(one.put(running={"S": ""})),
    "an item without sort key": lambda one: one.write(
        {"Put": {**one.put()["Put"], "Item": {"pk": {"S": "p"}}}}
    ),
    "a key of another type": lambda one: one.write(one.put(sk={"N": "1"})),
    "a number of 39 digits": lambda one: one.write(one.put(revision={"N": "1" * 39})),
    "an item of more than 400 KB": lambda one: one.write(one.put(document={"S": "x" * 409_600})),
    "one item twice in a transaction": lambda one: one.write(one.put(), one.delete()),
    "101 writes": lambda one: one.write(*(one.put(sk={"S": f"{number}"}) for number in range(101))),
    "a read of an empty key": lambda one: one.get(sk=""),
    "a read of a key of more than 1,024 bytes": lambda one: one.get(sk="x" * 1_025),
    "a batch with one key twice": lambda one: one.batch(("p", "s"), ("p", "s")),
    "a batch of 101 keys": lambda one: one.batch(*(("p", f"{number}") for number in range(101))),
    "a batch with a key of more than 1,024 bytes": lambda one: one.batch(("p", "x" * 1_025)),
    "a query of an empty partition": lambda one: one.query("pk = :pk", pk=""),
    "a query from a sort key of more than 1,024 bytes on": lambda one: one.query(
        AFTER, pk="p", sk="x" * 1_025
    ),
    "a query of more than 1,024 bytes of a sort key": lambda one: one.query(SK, pk="p", sk="x" * 1_025),
    "a query from an empty sort key on": lambda one: one.query(AFTER, pk="p", sk=""),
    "a query that goes on in another partition": lambda one: one.query("pk = :pk", start=("q", "s"), pk="p"),
    "a query that goes on outside of its range": lambda one: one.query(SK, start=("p", "a"), pk="p", sk="s"),
}


LENIENT = {
    "an item without sort key",
    "a query from a sort key of more than 1,024 bytes on",
    "a query of more than 1,024 bytes of a sort key",
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_dynamodb_refuses(request: pytest.FixtureRequest, store: Store, what: str) -> None:
    if what in LENIENT and request.node.callspec.params["store"] == "dynamodb":
        REFUSED[what](store)
        return
    with pytest.raises(ClientError) as refusal:
        REFUSED[what](store)
    answer: Any = refusal.value.response
    reasons = [one["Code"] for one in answer.get("CancellationReasons", ())]
    assert answer["Error"]["Code"] == "ValidationException" or reasons == ["ValidationError"]


def test_long_keys_numbers_and_items_are_stored(store: Store) -> None:
    pk, sk = "x" * 1_000, "x" * 1_000
    # DynamoDB Local counts some bytes more than it says that DynamoDB does: so not quite the longest.
    document = {"S": "x" * 395_000}
    store.write(store.put(pk={"S": pk}, sk={"S": sk}, revision={"N": "9" * 38}, document=document))
    assert store.get(pk, sk)["revision"] == {"N": "9" * 38}
    assert [len(page["Items"]) for page in store.query(SK, pk=pk, sk=sk) if page["Items"]] == [1]


def test_a_transaction_with_a_token_is_done_once(store: Store) -> None:
    store.write(store.put(), ClientRequestToken=store.token)
    store.write(store.delete())
    # Its answer was lost, so it is sent again, but it has been done.
    store.write(store.put(), ClientRequestToken=store.token)
    assert store.get() is None


def test_a_token_with_another_transaction_is_refused(store: Store) -> None:
    store.write(store.put(), ClientRequestToken=store.token)
    with pytest.raises(ClientError) as refusal:
        store.write(store.put(sk={"S": "other"}), ClientRequestToken=store.token)
    assert refusal.value.response["Error"]["Code"] == "IdempotentParameterMismatchException"
    assert store.get(sk="other") is None


def test_a_token_of_a_transaction_that_was_cancelled_may_come_again(store: Store) -> None:
    with pytest.raises(ClientError):
        store.write(store.delete(), ClientRequestToken=store.token)
    store.write(store.put())
    store.write(store.delete(), ClientRequestToken=store.token)
    assert store.get() is None


def test_a_batch_ends_at_16_mb_and_says_what_is_left(request: pytest.FixtureRequest, store: Store) -> None:
    keys = [("p", f"{number:03}") for number in range(50)]
    for pk, sk in keys:
        store.write(store.put(pk={"S": pk}, sk={"S": sk}, document={"S": "x" * 400_000}))
    answer = store.batch(*keys)
    if request.node.callspec.params["store"] == "dynamodb":
        # It answers with all of them, as DynamoDB never does.
        assert len(answer["Responses"][store.table]) == len(keys)
        return
    found = {item["sk"]["S"] for item in answer["Responses"][store.table]}
    left = {key["sk"]["S"] for key in answer["UnprocessedKeys"][store.table]["Keys"]}
    assert len(found) in (41, 42)
    assert found | left == {sk for _, sk in keys}
    assert not found & left


def test_a_page_of_a_query_ends_once_it_has_1_mb(store: Store) -> None:
    for number in range(7):
        store.write(store.put(sk={"S": f"{number}"}, document={"S": "x" * 300_000}))
    sizes = [len(page["Items"]) for page in store.query("pk = :pk", pk="p") if page["Items"]]
    # The one that goes beyond is in the page or begins the next.
    assert sizes in ([4, 3], [3, 3, 1])
