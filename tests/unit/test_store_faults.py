"""What becomes of DynamoDB's faults: the client is told to come back, and nothing is taken for a bug."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
)

from paddock.adapters.dynamodb.repository import DynamoDbRepository
from paddock.errors import StoreThrottled, StoreUnavailable
from paddock.model.identity import ClusterName, NodeId
from paddock.model.quotas import Quotas
from paddock.ports.repository import Put, WriteConflictError
from paddock.store.operations import record_missing_nodes
from paddock.store.store import Store
from tests.fakes.dynamodb import FakeDynamoDb
from tests.fakes.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mypy_boto3_dynamodb import DynamoDBClient

    from paddock.ports.repository import Repository

    Failing = Callable[[Exception | tuple[int, Any]], Repository]

URL = "http://127.0.0.1:1"
CALLS: dict[str, Callable[[Repository], Any]] = {
    "read": lambda store: store.cluster(ClusterName("demo")),
    "query": lambda store: store.nodes(ClusterName("demo")),
    "batch": lambda store: store.nodes_by_id(ClusterName("demo"), [NodeId("a")]),
    "commit": lambda store: store.commit(Put(Quotas(revision=1, asked_at=1), was=None)),
}
SILENT: list[Exception] = [
    ConnectionClosedError(endpoint_url=URL),
    ConnectTimeoutError(endpoint_url=URL),
    EndpointConnectionError(endpoint_url=URL),
    ReadTimeoutError(endpoint_url=URL),
]


@pytest.fixture(scope="module")
def client() -> DynamoDBClient:
    return boto3.client(
        "dynamodb",
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106 - nobody checks it
        config=Config(retries={"mode": "standard", "total_max_attempts": 1}),
    )


@pytest.fixture
def failing(client: DynamoDBClient) -> Iterator[Failing]:
    """Makes a repository over botocore's own client, whose every call ends in this on the wire."""
    faults: list[Exception | tuple[int, Any]] = []

    def answer(**_: Any) -> Any:
        [fault] = faults
        if isinstance(fault, Exception):
            raise fault
        status, body = fault
        raw: Any = type("Raw", (), {"stream": lambda _: iter([json.dumps(body).encode()])})()
        return AWSResponse(URL, status, HTTPHeaders(), raw)

    def repository(fault: Exception | tuple[int, Any]) -> Repository:
        faults.append(fault)
        return DynamoDbRepository(client, "table")

    client.meta.events.register("before-send.dynamodb", answer)
    yield repository
    client.meta.events.unregister("before-send.dynamodb", answer)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("fault", SILENT, ids=lambda fault: type(fault).__name__)
def test_a_call_without_an_answer_is_no_bug(
    failing: Failing, call: Callable[[Repository], Any], fault: Exception
) -> None:
    with pytest.raises(StoreUnavailable):
        call(failing(fault))


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(
    ("status", "code"), [(500, "InternalServerError"), (503, "ServiceUnavailable"), (500, "InternalFailure")]
)
def test_a_table_that_fails_is_no_bug(
    failing: Failing, call: Callable[[Repository], Any], status: int, code: str
) -> None:
    with pytest.raises(StoreUnavailable):
        call(failing((status, {"__type": f"com.amazonaws.dynamodb#{code}"})))


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("code", ["ThrottlingException", "ProvisionedThroughputExceededException"])
def test_a_table_that_is_asked_too_much_says_so(
    failing: Failing, call: Callable[[Repository], Any], code: str
) -> None:
    with pytest.raises(StoreThrottled):
        call(failing((400, {"__type": code})))


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        (["ThrottlingError"], StoreThrottled),
        (["ProvisionedThroughputExceeded"], StoreThrottled),
        (["ConditionalCheckFailed"], WriteConflictError),
        (["ValidationError"], ClientError),
    ],
)
def test_a_cancelled_transaction_says_why(
    failing: Failing, reasons: list[str], expected: type[Exception]
) -> None:
    body = {
        "__type": "TransactionCanceledException",
        "CancellationReasons": [{"Code": code} for code in reasons],
    }
    with pytest.raises(expected):
        CALLS["commit"](failing((400, body)))


def test_a_transaction_that_may_yet_be_done_is_no_lost_race(failing: Failing) -> None:
    with pytest.raises(StoreThrottled):
        CALLS["commit"](failing((400, {"__type": "TransactionInProgressException"})))


def test_a_fault_of_ours_is_told_as_it_is(failing: Failing) -> None:
    with pytest.raises(ClientError):
        CALLS["read"](failing((400, {"__type": "ValidationException"})))


def test_a_record_that_met_another_transaction_is_not_taken_for_written() -> None:
    """DynamoDB may refuse a write for another one that is refused in its turn."""
    world = World()
    create, _ = world.create(3)
    store = FakeDynamoDb()
    repository = DynamoDbRepository(cast("Any", store), "table")
    repository.commit(Put(create, was=None))
    write = store.transact_write_items

    def meets_another(*, TransactItems: list[Any], **_: Any) -> Any:  # noqa: N803
        store.transact_write_items = write  # type: ignore[method-assign]
        reasons = [
            {"Code": "TransactionConflict" if place == 2 else "None"} for place in range(len(TransactItems))
        ]
        error: Any = {"Error": {"Code": "TransactionCanceledException"}, "CancellationReasons": reasons}
        raise ClientError(error, "TransactWriteItems")

    store.transact_write_items = meets_another  # type: ignore[method-assign]
    record_missing_nodes(Store(repository, world.clock), create)
    assert len(repository.nodes_made_by(create)) == 3
