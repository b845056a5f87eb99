"""A run of the reconciler in parts: all of them, each by itself, and none lost on the way."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from paddock.adapters.sqs import SqsWorkQueue, parse_work_item
from paddock.model.identity import ClusterName, OperationId, VirtualClusterId
from paddock.model.node import NodeStatus
from paddock.model.virtual_cluster import VirtualCluster
from paddock.ports.work_queue import WorkItem
from paddock.reconcile.enqueue import enqueue
from paddock.reconcile.run import Report, reconcile
from tests.fakes import invariants
from tests.fakes.work_queue import FakeWorkQueue
from tests.fakes.world import CLUSTER, World, nodearray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.instance import Instance


def sent(world: World) -> list[WorkItem]:
    queue = FakeWorkQueue()
    count = enqueue(world.repository, world.compute, queue)
    taken = queue.take()
    assert len(taken) == count
    return taken


def test_each_running_operation_and_each_cluster_is_a_part() -> None:
    world = World()
    world.put({"nodearrays": [nodearray()]}, name="second")
    ended, _ = world.create(1)
    world.drive(ended)
    running, _ = world.create(1)
    assert sent(world) == [
        WorkItem(operation_id=running.id),
        WorkItem(cluster=CLUSTER),
        WorkItem(cluster=ClusterName("second")),
    ]


def test_each_virtual_cluster_is_a_part_whether_it_lacks_nodes_or_not() -> None:
    world = World()
    world.ready(2)
    world.claim("complete", x4c8g=2)
    world.claim("gone")
    world.release("gone")
    operation = world.operation(world.want("unmet", x4c8g=1).operation_id)
    assert sent(world) == [
        WorkItem(operation_id=operation.id),
        WorkItem(virtual_cluster=VirtualClusterId("complete")),
        WorkItem(virtual_cluster=VirtualClusterId("unmet")),
        WorkItem(cluster=CLUSTER),
    ]


def test_a_run_reads_each_virtual_cluster_as_often_whatever_the_number_of_clusters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.ready(6)
    for number in range(3):
        world.claim(f"v{number}", x4c8g=2)
    read: list[str] = []
    by_key, by_query = world.repository._get, world.repository._query

    def counted_get(kind: Any, key: Any) -> Any:
        found = by_key(kind, key)
        if isinstance(found, VirtualCluster):
            read.append(found.id)
        return found

    def counted_query(kind: Any, *given: Any, **named: Any) -> Any:
        found = by_query(kind, *given, **named)
        if kind is VirtualCluster:
            read.extend(one.id for one in found)
        return found

    monkeypatch.setattr(world.repository, "_get", counted_get)
    monkeypatch.setattr(world.repository, "_query", counted_query)
    assert world.reconcile() == Report()
    alone = sorted(read)
    read.clear()
    for number in range(5):
        world.put({"nodearrays": [nodearray()]}, name=f"other{number}")
    assert world.reconcile() == Report()
    assert sorted(read) == alone


def test_while_ec2_is_away_all_that_is_known_is_sent() -> None:
    world = World()
    operation, _ = world.create(1)
    world.ec2.fail_next("DescribeInstances", "RequestLimitExceeded")
    assert sent(world) == [WorkItem(operation_id=operation.id), WorkItem(cluster=CLUSTER)]


def test_a_cluster_that_cannot_be_read_holds_up_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    operation, _ = world.create(1)

    def broken() -> None:
        raise ValueError("a record of a later version")

    monkeypatch.setattr(world.repository, "clusters", broken)
    assert sent(world) == [WorkItem(operation_id=operation.id), WorkItem(cluster=CLUSTER)]


def test_records_that_cannot_be_read_are_a_failure_of_their_part(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.ready(1)

    def broken(_: str) -> None:
        raise ValueError("a record of a later version")

    for name in ("nodes", "ledger"):
        with monkeypatch.context() as patch:
            patch.setattr(world.repository, name, broken)
            assert world.reconcile().failed >= 1


def test_a_thousand_clusters_are_sent_ten_a_call() -> None:
    queue = Queue()
    items = [WorkItem(cluster=ClusterName(f"cluster {number}")) for number in range(995)]
    items += [WorkItem(operation_id=OperationId(f"operation-{number}")) for number in range(7)]
    SqsWorkQueue(queue, "queue").send(items)  # type: ignore[arg-type]
    assert [len(call) for call in queue.calls] == [10] * 100 + [2]
    assert [parse_work_item(one["MessageBody"]) for call in queue.calls for one in call] == items
    assert all(len({one["Id"] for one in call}) == len(call) for call in queue.calls)


def test_what_the_queue_refuses_is_told_and_the_others_are_sent() -> None:
    queue = Queue(refused=3)
    with pytest.raises(RuntimeError, match="3 work items"):
        SqsWorkQueue(queue, "queue").send([WorkItem(cluster=str(number)) for number in range(25)])  # type: ignore[arg-type]
    assert sum(map(len, queue.calls)) == 25


class Queue:
    """SQS, as far as the adapter uses it; it refuses some of the first call."""

    def __init__(self, refused: int = 0) -> None:
        self.calls: list[list[dict[str, Any]]] = []
        self._refused = refused

    def send_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> Any:  # noqa: ARG002, N803
        self.calls.append(Entries)
        refused = Entries[: self._refused] if len(self.calls) == 1 else []
        return {"Successful": [], "Failed": [{"Id": one["Id"], "Code": "InternalError"} for one in refused]}


def test_a_broken_step_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    [node] = world.ready(1)
    world.ec2.end(node.instance_id)
    world.clock.advance(10)

    def broken(*_: object) -> bool:
        raise ValueError("no such kind of record")

    monkeypatch.setattr("paddock.reconcile.run.mend", broken)
    monkeypatch.setattr("paddock.reconcile.run.end_orphans", broken)
    assert world.reconcile() == Report(failed=2, noticed=1)
    assert [one.status for one in world.nodes()] == [NodeStatus.FAILED]


def test_a_broken_cluster_stops_no_other() -> None:
    world = World()
    world.put({"nodearrays": [nodearray()]}, name="second")
    [node] = world.ready(1)
    world.ec2.end(node.instance_id)
    world.clock.advance(10)
    listed = world.compute.launched_in

    def broken(cluster: ClusterName) -> Sequence[Instance]:
        if cluster == "second":
            raise ValueError("no such state")
        return listed(cluster)

    world.compute.launched_in = broken  # type: ignore[method-assign]
    assert world.reconcile() == Report(failed=1, noticed=1)


def test_overlapping_runs_do_no_harm() -> None:
    world = World(nodearray(maxCount=40))
    nodes = world.ready(30)
    for node in nodes[::3]:
        world.ec2.end(node.instance_id)
    world.clock.advance(10)
    ports = world.store, world.compute, world.workflows

    def run(item: WorkItem) -> Report:
        return reconcile(*ports, item)

    with ThreadPoolExecutor(8) as pool:
        reports = list(pool.map(run, [WorkItem(cluster=CLUSTER)] * 8))
    assert sum(report.failed for report in reports) == 0
    assert sum(node.status is NodeStatus.FAILED for node in world.nodes()) == 10
    assert len(world.repository.usage_intervals(CLUSTER, 0)) == 10
    assert invariants.at_rest(world) == []
