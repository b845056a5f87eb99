"""EC2's events: what the schedule would find, within seconds; and the two minutes before an interruption."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from paddock.errors import ComputeThrottled, StoreThrottled
from paddock.model.identity import ClusterName, InstanceId
from paddock.model.node import NodeStatus
from paddock.model.operation import Action, OperationState
from paddock.model.time import SECOND_NS
from paddock.reconcile.events import NOTICE_NS
from schedule.instance_events import handler
from tests.fakes import invariants
from tests.fakes.api import Context, serve
from tests.fakes.world import World, nodearray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.identity import OperationId
    from paddock.model.node import Node
    from paddock.model.operation import Operation
    from paddock.ports.repository import Write

SPOT = nodearray("spot", interruptible=True)
ENDED = 10


def test_the_node_of_an_instance_that_ended_has_failed_at_once() -> None:
    world = World()
    lost, kept = world.ready(2)
    world.ec2.end(lost.instance_id)
    world.clock.advance(ENDED)
    assert world.hear(lost.instance_id) == 1
    assert [node.status for node in world.nodes()] == [NodeStatus.FAILED, NodeStatus.READY]
    assert world.nodes()[1] == kept
    assert world.hear(lost.instance_id) == 0
    assert invariants.at_rest(world) == []


def test_what_ec2_shows_counts_and_not_what_the_event_says() -> None:
    world = World()
    [node] = world.ready(1)
    assert world.hear(node.instance_id) == 0
    assert world.nodes() == [node]


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_node_is_found_also_where_another_operation_launched_its_instance(
    forgotten: bool,
) -> None:
    world = World()
    [node] = world.ready(1)
    operation, _ = world.manage(Action.REIMAGE, ids=[node.id])
    ended = world.drive(operation)
    if forgotten:
        world.forget(ended)
    [node] = world.nodes()
    world.ec2.end(node.instance_id)
    world.clock.advance(ENDED)
    assert world.hear(node.instance_id) == 1
    assert [one.status for one in world.nodes()] == [NodeStatus.FAILED]


def test_instances_of_others_and_unknown_ones_change_nothing() -> None:
    world = World()
    [node] = world.ready(1)
    tags = [{"Key": "paddock:deployment", "Value": "another"}]
    world.ec2.call("CreateTags", {"Resources": [node.instance_id], "Tags": tags})
    assert world.hear(InstanceId("i-0123456789abcdef0"), interrupted=[node.instance_id]) == 0
    assert world.nodes() == [node]


def test_thousands_of_events_are_one_look() -> None:
    world = World()
    nodes = world.ready(1_000)
    for node in nodes:
        world.ec2.end(node.instance_id)
    world.clock.advance(ENDED)
    world.ec2.calls.clear()
    assert world.hear(*(node.instance_id for node in nodes)) == 1_000
    assert world.ec2.calls == {"DescribeInstances": 1}
    assert invariants.at_rest(world) == []


def test_throttled_the_events_come_again() -> None:
    world = World()
    [node] = world.ready(1)
    world.ec2.end(node.instance_id)
    world.clock.advance(ENDED)
    world.ec2.fail_next("DescribeInstances", "RequestLimitExceeded")
    with pytest.raises(ComputeThrottled):
        world.hear(node.instance_id)
    assert world.hear(node.instance_id) == 1


def test_a_node_that_will_be_interrupted_is_ended_by_one_operation() -> None:
    world = World(SPOT)
    leaving, staying = world.ready(2, array="spot", nodeAttributes={"KeepAlive": True})
    for _ in range(3):
        world.hear(interrupted=[leaving.instance_id])
        assert world.nodes()[0].status is NodeStatus.TERMINATING
    [operation] = [one for one in invariants.operations(world) if one.action is Action.TERMINATE]
    assert operation.forced
    world.drive_all()
    assert world.operation(operation.id).state is OperationState.SUCCEEDED
    assert world.nodes() == [staying]
    assert world.hear(interrupted=[leaving.instance_id]) == 0
    assert invariants.at_rest(world) == []


def test_work_on_a_node_that_will_be_interrupted_keeps_its_two_minutes() -> None:
    world = World(SPOT)
    leaving, staying = world.ready(2, array="spot")
    world.hear(interrupted=[leaving.instance_id])
    [operation] = [one for one in invariants.operations(world) if one.action is Action.TERMINATE]
    for _ in range(2):
        world.step("terminate", operation.id)
        assert len(world.alive()) == 2
        world.clock.advance(NOTICE_NS / SECOND_NS / 2)
    world.step("terminate", operation.id)
    world.clock.advance(ENDED)
    assert world.alive() == {staying.instance_id}


def test_whoever_ends_a_node_that_will_be_interrupted_does_not_wait() -> None:
    world = World(SPOT)
    [leaving] = world.ready(1, array="spot")
    world.hear(interrupted=[leaving.instance_id])
    operation, [result] = world.terminate(ids=[leaving.id])
    assert result.error == ""
    world.step("terminate", operation.id)
    world.clock.advance(ENDED)
    assert world.alive() == set()
    world.drive_all()
    assert world.nodes() == []
    assert invariants.at_rest(world) == []


def test_a_node_that_is_ending_already_is_not_ended_once_more_with_others() -> None:
    world = World(SPOT)
    first, second = world.ready(2, array="spot")
    world.hear(interrupted=[first.instance_id])
    assert world.hear(interrupted=[first.instance_id, second.instance_id]) == 1
    endings = [one for one in invariants.operations(world) if one.action is Action.TERMINATE]
    assert sorted(one.ids() for one in endings) == [[first.id], [second.id]]


def test_an_event_that_comes_again_before_the_node_was_marked_is_harmless() -> None:
    world = World(SPOT)
    [node] = world.ready(1, array="spot")
    commit, written = world.repository.commit, []

    def once(*writes: Write) -> None:
        written.append(writes)
        if len(written) > 1:
            raise StoreThrottled("not now")
        commit(*writes)

    world.repository.commit = once  # type: ignore[method-assign]
    with pytest.raises(StoreThrottled):
        world.hear(interrupted=[node.instance_id])
    world.repository.commit = commit  # type: ignore[method-assign]
    assert world.nodes() == [node]
    world.hear(interrupted=[node.instance_id])
    world.clock.advance(60)
    assert world.reconcile().resumed == 1
    world.drive_all()
    assert world.nodes() == []
    assert invariants.at_rest(world) == []


def test_an_interruption_of_a_node_that_is_still_prepared_leaves_nothing() -> None:
    world = World(SPOT)
    world.ec2.configure(boot_seconds=100)
    operation, _ = world.create(1, array="spot")
    world.step("launch", operation.id)
    [node] = world.nodes()
    assert world.hear(interrupted=[node.instance_id]) == 1
    world.drive_all()
    assert world.nodes() == []
    assert not world.alive()
    assert invariants.at_rest(world) == []


def test_of_operations_that_are_forgotten_the_cluster_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    for _ in range(5):
        operation, _ = world.create(1)
        world.forget(world.drive(operation))
    instances = [node.instance_id for node in world.nodes()]
    for instance in instances:
        world.ec2.end(instance)
    world.clock.advance(ENDED)
    reads: list[str] = []
    nodes = world.repository.nodes

    def counted(cluster: ClusterName, limit: int | None = None, after: str = "") -> Sequence[Node]:
        reads.extend([cluster] if limit is None else [])
        return nodes(cluster, limit, after)

    monkeypatch.setattr(world.repository, "nodes", counted)
    assert world.hear(*instances) == 5
    assert len(reads) == 1


def test_where_the_workflow_cannot_be_started_the_reconciler_does() -> None:
    world = World(SPOT)
    [node] = world.ready(1, array="spot")
    world.workflows.unavailable = True
    world.hear(interrupted=[node.instance_id])
    world.workflows.unavailable = False
    world.clock.advance(60)
    assert world.reconcile().resumed == 1
    world.drive_all()
    assert world.nodes() == []


def test_what_cannot_be_looked_after_comes_again_and_stops_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    [lost], [broken] = world.ready(1), world.ready(1)
    world.ec2.end(lost.instance_id)
    world.ec2.end(broken.instance_id)
    world.clock.advance(ENDED)
    serve(world, monkeypatch)
    read = world.repository.operation

    def fail(operation_id: OperationId) -> Operation | None:
        if operation_id == broken.created_by:
            raise ValueError("a record that cannot be read")
        return read(operation_id)

    monkeypatch.setattr(world.repository, "operation", fail)
    detail_type = "EC2 Instance State-change Notification"
    records = [
        {
            "messageId": f"message-{number}",
            "body": json.dumps({"detail-type": detail_type, "detail": {"instance-id": node.instance_id}}),
        }
        for number, node in enumerate((broken, lost))
    ]
    answer = handler({"Records": records}, Context())  # type: ignore[arg-type]
    assert answer == {"batchItemFailures": [{"itemIdentifier": "message-0"}]}
    assert [node.status for node in world.nodes()] == [NodeStatus.FAILED, NodeStatus.READY]


def test_a_batch_heals_each_cluster_once_however_many_operations_launched_its_instances(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    gone = [world.ready(1)[0].instance_id for _ in range(5)]
    for instance_id in gone:
        world.ec2.end(instance_id)
    world.clock.advance(ENDED)
    asked, unsatisfied = Counter[str](), world.repository.unsatisfied_virtual_clusters

    def count() -> Sequence[str]:
        asked["unmet"] += 1
        return unsatisfied()

    monkeypatch.setattr(world.repository, "unsatisfied_virtual_clusters", count)
    assert world.hear(*gone) == len(gone)
    assert asked["unmet"] == 1
