"""A commit gives each record its next revision; what does not fit into one transaction is done in several."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import pytest

from paddock.errors import Busy
from paddock.model.cluster import Cluster
from paddock.model.identity import (
    NodeId,
    RequestId,
    VirtualClusterId,
    new_operation_id,
    next_revision,
    node_id,
)
from paddock.model.ledger import Ledger
from paddock.model.node_lifecycle import failed, unclaimed
from paddock.model.operation import UsedRequestId
from paddock.model.pace import Pace
from paddock.model.quotas import Quotas
from paddock.model.usage import UsageInterval
from paddock.model.virtual_cluster import VirtualCluster, VirtualClusterChange, change_between
from paddock.ports.repository import MAX_TRANSACTION_BYTES, Check, Delete, Put, Record, WriteConflictError
from paddock.requests.bodies import ClusterWrite
from paddock.store.store import ATTEMPTS, Store
from tests.fakes.clock import START, ManualClock
from tests.fakes.repository import FakeRepository
from tests.fakes.world import CLUSTER, World, nodearray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.node import Node
    from paddock.model.operation import Operation
    from paddock.ports.repository import Write


class Told(FakeRepository):
    """Tells what its transactions wrote."""

    def __init__(self) -> None:
        super().__init__()
        self.transactions: list[tuple[Write, ...]] = []

    def commit(self, *writes: Write) -> None:
        super().commit(*writes)
        self.transactions.append(writes)


@pytest.fixture
def repository() -> Told:
    return Told()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(repository: Told, clock: ManualClock) -> Store:
    return Store(repository, clock)


def operation() -> Operation:
    return World(nodearray()).create(2)[0]


def nodes(count: int, **attributes: Any) -> list[Node]:
    [first, *_] = replace(operation(), revision=0).planned_nodes()
    prefix = first.created_by
    return [replace(first, id=node_id(prefix, index + 1), attributes=attributes) for index in range(count)]


@pytest.fixture
def record(kind: type[Record]) -> Record:
    """One of the kind, as use cases make it."""
    body = ClusterWrite.model_validate({"nodearrays": [nodearray()]})
    [node] = nodes(1)
    made: list[Record] = [
        Cluster(name=CLUSTER, definition=body.definition()),
        Ledger(cluster=CLUSTER),
        node,
        replace(operation(), revision=0),
        Pace(),
        Quotas(asked_at=1),
        UsedRequestId(request_id=RequestId("r"), cluster=CLUSTER, operation_id=new_operation_id(START)),
        UsageInterval(
            cluster=CLUSTER,
            node_id=node.id,
            name=node.name,
            node_array="ondemand",
            machine_type="c7i-xlarge",
            cores=4,
            price_per_hour=None,
            interruptible=False,
            start=1,
            end=2,
        ),
        VirtualCluster(id=VirtualClusterId("vc"), cluster=CLUSTER),
    ]
    return next(one for one in made if type(one) is kind)


# A change has its virtual cluster's revision.
KINDS = [kind for kind in get_args(Record) if kind is not VirtualClusterChange]
EACH = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


@EACH
def test_a_new_record_gets_a_revision(store: Store, clock: ManualClock, record: Record) -> None:
    before = clock.now()
    stored = store.commit(Put(record, was=None)).stored(record)
    assert stored == replace(record, revision=stored.revision)
    assert next_revision(before) <= stored.revision <= next_revision(clock.now())


@EACH
@pytest.mark.parametrize("ahead_seconds", [0, 3_600], ids=["in time", "clock behind"])
def test_a_record_gets_a_revision_above_the_one_that_it_replaces(
    store: Store, record: Record, ahead_seconds: int
) -> None:
    """Whatever revision it is given with, as it was read; also where another function's clock is ahead."""
    first = store.commit(Put(record, was=None)).stored(record)
    ahead = Store(store._repository, ManualClock())
    ahead._clock.advance(ahead_seconds)  # type: ignore[attr-defined]
    second = ahead.commit(Put(first, was=first)).stored(first)
    third = store.commit(Put(second, was=second)).stored(second)
    assert first.revision < second.revision < third.revision
    with pytest.raises(WriteConflictError):
        store.commit(Put(second, was=second))


def test_a_change_has_the_revision_that_its_virtual_cluster_gets(store: Store) -> None:
    one = VirtualCluster(id=VirtualClusterId("vc"), cluster=CLUSTER)
    made = change_between(None, one, "Created", 1)
    written = store.commit(Put(made, was=None), Put(one, was=None))
    first = written.stored(one)
    changed = change_between(first, first, "Updated", 2)
    second = store.commit(Put(first, was=first), Put(changed, was=None)).stored(first)
    [latest, earliest] = store.read.virtual_cluster_changes(VirtualClusterId("vc"), 9)
    assert (earliest.previous, earliest.revision) == (0, first.revision)
    assert (latest.previous, latest.revision) == (first.revision, second.revision)


def test_what_is_stored_is_what_the_commit_returns(store: Store) -> None:
    made = nodes(3)
    written = store.commit(*(Put(node, was=None) for node in made))
    assert [written.stored(node) for node in made] == store.read.nodes(CLUSTER)
    with pytest.raises(LookupError):
        written.stored(unclaimed(made[0], 1))


def test_a_conflict_names_the_writes_as_they_were_given(store: Store) -> None:
    one, other = nodes(2)
    made = store.commit(Put(one, was=None)).stored(one)
    lost = failed(made, "lost")
    stored = store.commit(Put(lost, was=made)).stored(lost)
    store.commit(Put(stored, was=stored))
    stale, fine = Put(unclaimed(stored, 1), was=stored), Put(other, was=None)
    for writes in ((stale, fine), (Check(stored), fine), (Delete(stored), fine)):
        with pytest.raises(WriteConflictError) as conflict:
            store.commit(*writes)
        assert conflict.value.writes == (writes[0],)


def test_an_attempt_is_made_until_nothing_changed_in_between(store: Store) -> None:
    left = [WriteConflictError([]), WriteConflictError([])]

    def attempt() -> int:
        if left:
            raise left.pop()
        return 7

    assert store.retry_on_conflict(attempt) == 7
    tried = []

    def never() -> None:
        tried.append(1)
        raise WriteConflictError([])

    with pytest.raises(Busy):
        store.retry_on_conflict(never)
    assert len(tried) == ATTEMPTS


# Many writes.


def sizes(repository: Told) -> list[int]:
    return [len(writes) for writes in repository.transactions]


LARGE = {"note": "x" * 130_000}


def test_writes_are_put_into_as_few_transactions_as_hold_them(store: Store, repository: Told) -> None:
    writes = [Put(node, was=None) for node in nodes(200, **LARGE)]
    written = store.commit_each(writes)
    assert [written.stored(write.record) for write in writes] == store.read.nodes(CLUSTER)
    assert max(sizes(repository)) * 130_000 <= MAX_TRANSACTION_BYTES
    assert len(sizes(repository)) == 8


@pytest.mark.parametrize(("most", "expected"), [(100, [100, 100, 50]), (80, [80, 80, 80, 10])])
def test_a_transaction_has_at_most_so_many_writes(
    store: Store, repository: Told, most: int, expected: list[int]
) -> None:
    repository.max_writes = most
    store.commit_each([Put(node, was=None) for node in nodes(250)])
    assert sizes(repository) == expected


def test_writes_whose_records_have_changed_are_left_out_and_told(store: Store) -> None:
    made = nodes(5)
    store.commit(*(Put(node, was=None) for node in made[:2]))
    writes = [Put(node, was=None) for node in made]
    written = store.commit_each(writes)
    assert list(written.conflicts) == writes[:2]
    assert store.read.nodes(CLUSTER)[2:] == [written.stored(node) for node in made[2:]]


def test_a_guard_is_in_each_transaction_and_stops_them_where_it_fails(store: Store, repository: Told) -> None:
    repository.max_writes = 5
    given = replace(operation(), revision=0)
    running = store.commit(Put(given, was=None)).stored(given)
    guard = Check(running)
    writes = [Put(node, was=None) for node in nodes(12)]
    left = [8]

    def until_the_operation_changes() -> bool:
        left[0] -= 4
        if not left[0]:
            store.commit(Put(running, was=running))
        return True

    with pytest.raises(WriteConflictError) as conflict:
        store.commit_each(writes, until_the_operation_changes, guard)
    assert conflict.value.writes == (guard,)
    assert len(store.read.nodes(CLUSTER)) == 4


def test_no_further_transaction_is_begun_than_may_be(store: Store, repository: Told) -> None:
    repository.max_writes = 5
    may = [True, True, False, False]
    store.commit_each([Put(node, was=None) for node in nodes(20)], lambda: may.pop(0))
    assert sizes(repository) == [5, 5]


def touch(store: Store) -> Any:
    """A decision that writes these nodes, with the ledger."""

    def decide(ids: Sequence[NodeId]) -> list[Write]:
        ledger = store.read.ledger(CLUSTER)
        assert ledger is not None
        found = store.read.nodes_by_id(CLUSTER, ids)
        return [Put(ledger, was=ledger), *(Put(node, was=node) for node in found)] if found else []

    return decide


@pytest.mark.parametrize(
    ("attributes", "most", "expected"), [({}, 12, [11] * 4), ({}, 23, [22, 20]), (LARGE, 100, [21, 21])]
)
def test_decisions_are_written_in_as_few_transactions_as_hold_them(
    store: Store, repository: Told, attributes: dict[str, Any], most: int, expected: list[int]
) -> None:
    made = nodes(40, **attributes)
    store.commit(Put(Ledger(cluster=CLUSTER), was=None))
    store.commit_each([Put(node, was=None) for node in made])
    before = store.read.nodes(CLUSTER)
    repository.transactions.clear()
    repository.max_writes = most
    ids = [node.id for node in made]
    store.in_transactions(ids, touch(store), writes_per_id=1, writes_beside=2)
    assert sizes(repository) == expected
    after = store.read.nodes(CLUSTER)
    assert all(node.revision > was.revision for node, was in zip(after, before, strict=True))


def test_a_decision_is_made_again_when_another_writer_was_faster(store: Store, repository: Told) -> None:
    [one] = nodes(1)
    store.commit(Put(Ledger(cluster=CLUSTER), was=None), Put(one, was=None))
    decide, interfering = touch(store), [True]

    def late(ids: Sequence[str]) -> list[Write]:
        writes: list[Write] = decide(ids)
        if interfering:
            interfering.clear()
            store.commit(*decide(ids))
        return writes

    store.in_transactions([one.id], late, writes_per_id=1, writes_beside=1)
    assert sizes(repository) == [2, 2, 2]


def test_nothing_decided_is_nothing_written(store: Store, repository: Told) -> None:
    store.commit(Put(Ledger(cluster=CLUSTER), was=None))
    unknown = [node.id for node in nodes(3)]
    store.in_transactions(unknown, touch(store), writes_per_id=1, writes_beside=1)
    assert sizes(repository) == [1]
