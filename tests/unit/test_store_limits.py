"""DynamoDB's limits: of a partition in a second, and of a transaction in bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest
from botocore.exceptions import ClientError

from paddock import invocation
from paddock.adapters.dynamodb.backoff import RESERVE_SECONDS, Backoff
from paddock.adapters.dynamodb.repository import DynamoDbRepository
from paddock.errors import StoreThrottled
from paddock.model.node import NodeStatus
from paddock.model.operation import OperationState
from paddock.model.quotas import Quotas
from paddock.ports.repository import Put
from tests.fakes.api import ask, serve
from tests.fakes.clock import SECOND, PassingClock
from tests.fakes.dynamodb import FakeDynamoDb
from tests.fakes.world import CLUSTER, World, nodearray

if TYPE_CHECKING:
    from collections.abc import Callable

PARTITION = f"CLUSTER#{CLUSTER}"
# Nodes as large as nothing keeps a later version from making them: thirty fill a transaction.
LARGE = {"text": "x" * 130_000}
API_SECONDS, TASK_SECONDS = 28.0, 120.0


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr("paddock.model.definition.MAX_CONFIGURATION_BYTES", 200_000)
    return Store(configuration=LARGE)


class Budget:
    """The time of an invocation that began when ``begin`` was called last."""

    def __init__(self, clock: PassingClock) -> None:
        self._clock = clock
        self.begin(API_SECONDS)

    def begin(self, seconds: float) -> None:
        self._until = self._clock.seconds() + seconds

    def left(self) -> float:
        return self._until - self._clock.seconds()


class Store:
    """A world over the DynamoDB in memory, whose pauses take time."""

    def __init__(self, **array: Any) -> None:
        self.clock = PassingClock()
        self.budget = Budget(self.clock)
        self.dynamodb = FakeDynamoDb()
        self.world = World(clock=self.clock)
        backoff = Backoff(self.clock, self.budget.left)
        self.repository = DynamoDbRepository(cast("Any", self.dynamodb), "table", backoff)
        self.world.repository = cast("Any", self.repository)
        self.world.put({"nodearrays": [nodearray(**array)]})

    def heat(self, units: int, *, reads: bool = False) -> None:
        """Let somebody else use up so much of the cluster's partition at once."""
        name, partition = ("read", 3_000) if reads else ("write", 1_000)
        self.dynamodb._partitions.levels[f"{name} {PARTITION}"] = [partition - units, self.clock.seconds()]


def test_a_throttled_transaction_is_tried_again_until_it_is_done() -> None:
    store = Store()
    store.dynamodb.limit(store.clock.seconds)
    store.heat(3_000)
    began = store.clock.seconds()
    operation, [added] = store.world.create(3)
    assert added.count == 3
    assert 2 <= store.clock.seconds() - began <= API_SECONDS - RESERVE_SECONDS
    assert len(store.repository.nodes_made_by(operation)) == 3


def test_throttled_calls_are_not_tried_in_a_tight_loop() -> None:
    store = Store()
    store.dynamodb.limit(store.clock.seconds)
    store.heat(16_000)
    store.world.create(3)
    assert store.dynamodb.throttled["TransactWriteItems"] < 100


@pytest.mark.parametrize(
    "read",
    [
        lambda store: store.ledger(CLUSTER),
        lambda store: store.nodes(CLUSTER),
        lambda store: store.nodes_by_id(CLUSTER, ["a"]),
    ],
    ids=["get", "query", "batch"],
)
def test_a_throttled_read_is_tried_again_too(read: Callable[[Any], Any]) -> None:
    store = Store()
    expected = read(store.repository)
    store.dynamodb.limit(store.clock.seconds)
    store.heat(6_000, reads=True)
    assert read(store.repository) == expected
    assert sum(store.dynamodb.throttled.values()) > 0


def test_all_nodes_are_read_where_a_batch_is_read_by_halves() -> None:
    store = Store()
    operation, _ = store.world.create(100)
    ids = operation.ids()
    store.dynamodb.limit(store.clock.seconds)
    store.heat(2_950, reads=True)
    assert len(store.repository.nodes_by_id(CLUSTER, ids)) == 100
    assert store.clock.paused_seconds > 0


@pytest.mark.parametrize("seconds", [API_SECONDS, TASK_SECONDS])
def test_who_has_no_time_left_is_told_and_nothing_was_done(seconds: float) -> None:
    store = Store()
    store.dynamodb.limit(store.clock.seconds)
    store.heat(10_000_000)
    store.budget.begin(seconds)
    with pytest.raises(StoreThrottled):
        store.world.create(3)
    assert 0 < store.budget.left() < RESERVE_SECONDS
    store.dynamodb._now = None
    assert store.world.nodes() == []
    ledger = store.repository.ledger(CLUSTER)
    assert ledger is not None
    assert ledger.buckets == {}


def test_a_client_is_asked_to_come_back_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    serve(store.world, monkeypatch)
    body = {"sets": [{"count": 2, "nodearray": "ondemand"}]}
    store.dynamodb.limit(store.clock.seconds)
    store.heat(5_000)
    assert ask("POST", "/clusters/{cluster}/nodes/create", {"cluster": CLUSTER}, None, body)[0] == 202
    store.heat(10_000_000)
    store.budget.begin(API_SECONDS)
    status, answer = ask("POST", "/clusters/{cluster}/nodes/create", {"cluster": CLUSTER}, None, body)
    assert (status, answer["Detail"]) == (503, "StoreThrottled")


@pytest.mark.parametrize("task", ["launch", "poll", "finish"])
def test_a_throttled_task_waits_and_goes_on(task: str) -> None:
    store = Store()
    operation, _ = store.world.create(3)
    if task == "poll":
        # Before, it would have no node to read.
        store.world.task("launch", operation.id)
    store.dynamodb.limit(store.clock.seconds)
    store.heat(10_000_000, reads=True)
    store.budget.begin(TASK_SECONDS)
    following, seconds = store.world.task(task, operation.id)
    assert (following.value, seconds > 0) == ("wait", True)
    store.dynamodb._now = None
    assert store.world.drive(operation, "poll").state is OperationState.SUCCEEDED


@pytest.mark.parametrize(("units", "expected"), [(800, 97), (1_000, 0)])
def test_nodes_that_a_throttled_terminate_has_not_marked_are_ended_all_the_same(
    units: int, expected: int
) -> None:
    store = Store()
    nodes = store.world.ready(150)
    store.dynamodb.limit(store.clock.seconds)
    store.heat(units)
    store.budget.begin(0)
    operation, _ = store.world.terminate(ids=[node.id for node in nodes])
    marked = [node for node in store.world.nodes() if node.status is NodeStatus.TERMINATING]
    assert len(marked) == expected
    store.heat(10_000_000)
    assert store.world.task("terminate", operation.id)[0].value == "wait"
    store.dynamodb._now = None
    ended = store.world.drive(operation, "poll")
    assert (ended.state, ended.succeeded) == (OperationState.SUCCEEDED, 150)
    assert store.world.existing() == set()


def test_a_transaction_whose_answer_was_lost_is_found_done_and_not_lost() -> None:
    """It may be throttled at first when it is asked for again: under another token it would meet itself."""
    store = Store()
    quotas = Quotas(revision=1, asked_at=1)
    transact = store.dynamodb.transact_write_items
    answers = ["TransactionInProgressException", "ThrottlingException"]

    def lose(**asked: Any) -> Any:
        answer = transact(**asked)
        if answers:
            error: Any = {"Error": {"Code": answers.pop(0), "Message": ""}}
            raise ClientError(error, "TransactWriteItems")
        return answer

    store.dynamodb.transact_write_items = lose  # type: ignore[method-assign]
    store.repository.commit(Put(quotas, was=None))
    assert store.repository.quotas() == quotas
    assert answers == []


def test_the_time_that_is_left_is_lambdas_word(monkeypatch: pytest.MonkeyPatch) -> None:
    class Context:
        def get_remaining_time_in_millis(self) -> int:
            return 27_500

    monkeypatch.setattr(invocation, "_running", [])
    assert invocation.seconds_left() == 0
    invocation.begin(Context())
    assert invocation.seconds_left() == 27.5


# Bytes.


def test_nodes_of_any_size_are_made_claimed_given_back_and_ended(large: Store) -> None:
    """Each way of writing many nodes at once, none of which fits into one transaction."""
    store = large
    world = store.world
    nodes = world.ready(80)
    assert {node.status for node in nodes} == {NodeStatus.READY}
    held = world.claim("vc", x4c8g=80)
    assert len(held.node_instances) == 80
    held = world.claim("vc", held.revision, x4c8g=1)
    assert len(held.node_instances) == 1
    world.release("vc")
    assert {node.virtual_cluster for node in world.nodes()} == {""}
    operation, _ = world.terminate(ids=[node.id for node in nodes])
    assert world.drive(operation).state is OperationState.SUCCEEDED
    assert world.nodes() == []


def test_a_transaction_that_is_too_large_is_refused_by_the_double(large: Store) -> None:
    store = large
    operation, _ = store.world.create(1)
    other, _ = store.world.create(40)
    nodes = [replace(one, revision=1) for one in (*operation.planned_nodes(), *other.planned_nodes())]
    with pytest.raises(ClientError, match="ValidationException"):
        store.repository.commit(*(Put(one, was=None) for one in nodes))


def test_time_that_passes_is_counted_once() -> None:
    clock = PassingClock()
    before = clock.now()
    clock.pause(9)
    assert (clock.now() - before) / SECOND == pytest.approx(clock.paused_seconds, abs=1e-6)
