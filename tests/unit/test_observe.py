"""What happens to instances behind Paddock's back: noticed, written down, and never imagined."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock.model.identity import InstanceId, node_id
from paddock.model.node import Node, NodeStatus, TargetState
from paddock.model.node_observation import STOPPED_GRACE_NS, UNSEEN_GRACE_NS
from paddock.model.operation import DEADLINE_NS, Action, OperationState
from paddock.model.time import SECOND_NS
from paddock.ports.compute import LaunchRequest
from paddock.ports.repository import Put
from paddock.reconcile.observe import observe
from paddock.reconcile.run import Report
from tests.fakes import invariants
from tests.fakes.actors import Actor, crash_before
from tests.fakes.ec2 import ANSWER_LOST
from tests.fakes.world import CLUSTER, World, nodearray

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from paddock.model.instance import Instance
    from paddock.ports.compute import LaunchResult

GRACE = UNSEEN_GRACE_NS / SECOND_NS
STOPPED_GRACE = STOPPED_GRACE_NS / SECOND_NS
ENDED = 10


def only(world: World) -> Node:
    [node] = world.nodes()
    return node


def active(world: World) -> int:
    ledger = world.repository.ledger(CLUSTER)
    assert ledger is not None
    return sum(use.active for use in ledger.buckets.values())


def stop(world: World, node: Node) -> None:
    """Stop the node's instance in the console."""
    world.clock.advance(STOPPED_GRACE)
    world.ec2.call("StopInstances", {"InstanceIds": [node.instance_id]})
    world.clock.advance(ENDED)


def test_nodes_whose_instances_run_are_left_as_they_are() -> None:
    world = World()
    before = world.ready(3)
    world.clock.advance(3600)
    assert world.reconcile() == Report()
    assert world.nodes() == before


def test_a_node_whose_instance_was_ended_has_failed_and_counts_no_more() -> None:
    world = World(nodearray(maxCount=2))
    lost, kept = world.ready(2)
    world.ec2.end(lost.instance_id, "Server.SpotInstanceTermination: Spot instance termination")
    world.clock.advance(ENDED)
    assert world.reconcile() == Report(noticed=1)
    after = {node.id: node for node in world.nodes()}
    assert after[lost.id].status is NodeStatus.FAILED
    assert "Server.SpotInstanceTermination" in after[lost.id].status_message
    assert after[kept.id] == kept
    assert active(world) == 1
    assert [one.node_id for one in world.repository.usage_intervals(CLUSTER, 0)] == [lost.id]
    assert world.reconcile() == Report()
    assert world.create(1)[1][0].count == 1
    world.drive_all()
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("action", [Action.TERMINATE, Action.START])
def test_a_node_that_failed_so_is_ended_or_started_like_any_other(action: Action) -> None:
    world = World()
    [node] = world.ready(1)
    world.ec2.end(node.instance_id)
    world.clock.advance(ENDED)
    world.reconcile()
    operation, _ = world.manage(action, ids=[node.id])
    assert world.drive(operation).state is OperationState.SUCCEEDED
    assert [one.status for one in world.nodes()] == ([] if action is Action.TERMINATE else [NodeStatus.READY])
    assert invariants.at_rest(world) == []


def test_an_instance_that_is_not_seen_is_not_gone_until_it_was_missed_for_long() -> None:
    world = World()
    [node] = world.ready(1)
    world.ec2.lose(node.instance_id)
    for _ in range(5):
        assert world.reconcile() == Report()
        assert only(world).status is NodeStatus.READY
        world.clock.advance(GRACE / 5)
    assert world.reconcile() == Report(noticed=1)
    assert only(world).status is NodeStatus.FAILED
    assert "not seen" in only(world).status_message
    assert active(world) == 0
    assert invariants.at_rest(world) == []


def test_an_instance_that_is_seen_again_counts_as_never_missed() -> None:
    world = World()
    [node] = world.ready(1)
    there = world.ec2.snapshot()
    world.ec2.lose(node.instance_id)
    world.reconcile()
    assert only(world).unseen_since
    world.ec2.restore(there)
    world.clock.advance(GRACE - 1)
    world.reconcile()
    assert not only(world).unseen_since
    world.ec2.lose(node.instance_id)
    world.clock.advance(GRACE)
    world.reconcile()
    assert only(world).status is NodeStatus.READY


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "InternalError", ANSWER_LOST])
def test_an_error_is_not_an_empty_answer(code: str) -> None:
    world = World()
    before = world.ready(2)
    # All clusters, and this one.
    world.ec2.fail_next("DescribeInstances", code, times=2)
    assert world.reconcile() == Report(failed=1)
    assert world.nodes() == before


def test_an_error_about_the_missing_ones_is_not_an_empty_answer_either() -> None:
    world = World()
    [node] = world.ready(1)
    world.ec2.lose(node.instance_id)
    describe = world.compute.describe

    def lost(instance_ids: Collection[InstanceId]) -> Mapping[InstanceId, Instance]:
        world.ec2.fail_next("DescribeInstances", ANSWER_LOST)
        return describe(instance_ids)

    world.compute.describe = lost  # type: ignore[method-assign]
    assert world.reconcile() == Report(failed=1)
    assert not only(world).unseen_since


def test_an_instance_that_lost_its_tags_is_still_its_node_s() -> None:
    world = World()
    [node] = world.ready(1)
    tags = [{"Key": "paddock:cluster", "Value": "mine"}]
    world.ec2.call("CreateTags", {"Resources": [node.instance_id], "Tags": tags})
    world.clock.advance(GRACE)
    assert world.reconcile() == Report()
    assert only(world) == node


def test_a_node_whose_instance_was_stopped_is_deallocated_and_can_be_started() -> None:
    world = World(nodearray(maxCount=1))
    [node] = world.ready(1)
    stop(world, node)
    assert world.reconcile() == Report(noticed=1)
    stopped = only(world)
    assert (stopped.status, stopped.target_state) == (NodeStatus.DEALLOCATED, TargetState.DEALLOCATED)
    assert "stopped" in stopped.status_message
    assert active(world) == 0
    assert world.reconcile() == Report()
    operation, _ = world.manage(Action.START, ids=[node.id])
    world.drive(operation)
    assert (only(world).status, only(world).instance_id) == (NodeStatus.READY, node.instance_id)
    assert world.reconcile() == Report()
    assert invariants.at_rest(world) == []


def test_a_description_from_before_a_start_does_not_deallocate_what_was_started() -> None:
    world = World()
    [node] = world.ready(1)
    stop(world, node)
    world.reconcile()
    listed = world.compute.launched_in(CLUSTER)
    operation, _ = world.manage(Action.START, ids=[node.id])
    world.drive(operation)
    world.compute.launched_in = lambda cluster: listed  # type: ignore[method-assign]  # noqa: ARG005
    assert world.reconcile() == Report()
    assert only(world).status is NodeStatus.READY


def test_an_instance_that_was_started_behind_a_deallocated_node_is_stopped_again() -> None:
    world = World()
    [node] = world.ready(1)
    operation, _ = world.manage(Action.DEALLOCATE, ids=[node.id])
    world.drive(operation)
    world.ec2.call("StartInstances", {"InstanceIds": [node.instance_id]})
    world.ec2.fail_next("StopInstances", "RequestLimitExceeded")
    assert world.reconcile() == Report(failed=1)
    assert world.reconcile() == Report(noticed=1)
    world.clock.advance(ENDED)
    assert world.reconcile() == Report()
    assert (only(world).status, world.alive()) == (NodeStatus.DEALLOCATED, set())
    assert invariants.at_rest(world) == []


def test_an_instance_that_ec2_does_not_stop_again_is_not_counted_as_stopped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    first, second = world.ready(2)
    operation, _ = world.manage(Action.DEALLOCATE, ids=[first.id, second.id])
    world.drive(operation)
    world.ec2.call("StartInstances", {"InstanceIds": [first.instance_id, second.instance_id]})
    world.ec2.overlook(first.instance_id)
    assert world.reconcile() == Report(noticed=1)
    [told] = [one for one in caplog.records if one.message == "stopped instances of Deallocated nodes"]
    assert (told.stopped, list(told.refused)) == ([second.instance_id], [first.instance_id])  # type: ignore[attr-defined]


def test_a_node_that_is_being_started_is_not_stopped_again() -> None:
    """Started by hand and then by its owner, while the reconciler looks."""
    world = World()
    [node] = world.ready(1)
    operation, _ = world.manage(Action.DEALLOCATE, ids=[node.id])
    world.drive(operation)
    world.ec2.call("StartInstances", {"InstanceIds": [node.instance_id]})
    read = world.repository.nodes

    def nodes(*arguments: object) -> Sequence[Node]:
        found = read(*arguments)  # type: ignore[arg-type]
        world.repository.nodes = read  # type: ignore[method-assign]
        world.manage(Action.START, ids=[node.id])
        return found

    world.repository.nodes = nodes  # type: ignore[method-assign, assignment]
    world.reconcile()
    world.drive_all()
    assert (only(world).status, world.ec2.calls["StopInstances"]) == (NodeStatus.READY, 1)
    assert invariants.at_rest(world) == []


@pytest.mark.proves("node: Deallocated → Failed")
def test_a_deallocated_node_whose_instance_was_ended_has_failed_and_starts_anew() -> None:
    world = World()
    [node] = world.ready(1)
    operation, _ = world.manage(Action.DEALLOCATE, ids=[node.id])
    world.drive(operation)
    world.ec2.end(node.instance_id)
    world.clock.advance(ENDED)
    assert world.reconcile() == Report(noticed=1)
    assert only(world).status is NodeStatus.FAILED
    assert active(world) == 0
    operation, _ = world.manage(Action.START, ids=[node.id])
    assert world.drive(operation).state is OperationState.SUCCEEDED
    assert only(world).instance_id != node.instance_id
    assert invariants.at_rest(world) == []


@pytest.mark.proves("node: Failed → Off", "node: Failed → nothing")
@pytest.mark.parametrize("fixed", [False, True])
def test_a_node_that_would_not_end_is_gone_once_its_instance_is(fixed: bool) -> None:
    world = World()
    [node] = world.ready(1, nodeAttributes={"Fixed": fixed})
    world.ec2.protect(node.instance_id)
    operation, _ = world.terminate(ids=[node.id])
    world.drive(operation)
    assert only(world).status is NodeStatus.FAILED
    assert world.reconcile() == Report()
    assert active(world) == 1
    world.ec2.end(node.instance_id)
    world.clock.advance(ENDED)
    assert world.reconcile() == Report(noticed=1)
    assert [one.status for one in world.nodes()] == ([NodeStatus.OFF] if fixed else [])
    assert active(world) == 0
    assert world.reconcile() == Report()


def test_a_deallocated_node_that_would_not_end_is_gone_once_its_instance_is() -> None:
    """It uses up no limits, and is its instance's owner all the same."""
    world = World()
    [node] = world.ready(1)
    operation, _ = world.manage(Action.DEALLOCATE, ids=[node.id])
    world.drive(operation)
    world.ec2.protect(node.instance_id)
    operation, _ = world.terminate(ids=[node.id])
    world.drive(operation)
    assert only(world).status is NodeStatus.FAILED
    assert world.reconcile() == Report()
    world.ec2.end(node.instance_id)
    world.clock.advance(ENDED)
    assert world.reconcile() == Report(noticed=1)
    assert world.nodes() == []
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("action", [Action.TERMINATE, Action.DEALLOCATE, Action.REIMAGE])
@pytest.mark.parametrize("tasks", [0, 1])
def test_a_node_on_its_way_is_its_operation_s(action: Action, tasks: int) -> None:
    world = World()
    [node] = world.ready(1)
    operation, _ = world.manage(action, ids=[node.id])
    for _ in range(tasks):
        world.step("terminate", operation.id)
    world.ec2.end(node.instance_id)
    world.clock.advance(ENDED)
    before = world.nodes()
    assert world.reconcile() == Report(seen=1)
    assert world.nodes() == before
    world.drive_all()
    assert invariants.at_rest(world) == []


def test_an_instance_that_ends_while_its_node_is_prepared_is_left_to_the_launch() -> None:
    world = World()
    world.ec2.configure(boot_seconds=100)
    operation, _ = world.create(1)
    world.step("launch", operation.id)
    world.ec2.end(only(world).instance_id)
    world.clock.advance(ENDED)
    assert world.reconcile() == Report(seen=1)
    assert world.drive(operation).state is OperationState.FAILED
    assert world.reconcile() == Report()
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize(
    ("action", "status"),
    [(Action.REIMAGE, NodeStatus.ACQUIRING), (Action.TERMINATE, NodeStatus.TERMINATING)],
)
def test_what_somebody_else_changes_meanwhile_is_left_to_them(action: Action, status: NodeStatus) -> None:
    """An action takes hold of the node between the look and the write."""
    world = World()
    [node] = world.ready(1)
    world.ec2.end(node.instance_id)
    world.clock.advance(ENDED)
    read = world.repository.nodes

    def then_acted_on(*arguments: object) -> Sequence[Node]:
        found = read(*arguments)  # type: ignore[arg-type]
        world.repository.nodes = read  # type: ignore[method-assign]
        world.manage(action, ids=[node.id])
        return found

    world.repository.nodes = then_acted_on  # type: ignore[method-assign, assignment]
    assert world.reconcile().failed == 0
    assert only(world).status is status
    world.drive_all()
    assert [one.status for one in world.nodes()] == ([] if action is Action.TERMINATE else [NodeStatus.READY])
    assert invariants.at_rest(world) == []


def test_ten_thousand_nodes_are_ten_pages() -> None:
    world = World()
    [first] = world.ready(1)
    request = LaunchRequest(
        client_token="many",  # noqa: S106 - no password
        cluster=CLUSTER,
        operation_id=first.created_by,
        count=9_999,
        instance_type="c7i.xlarge",
        launch_template_id="lt-0123456789abcdef0",
        launch_template_version="1",
        subnet_ids=("subnet-00000001",),
    )
    launched = world.compute.launch(request).instance_ids
    nodes = [
        replace(first, id=node_id(first.created_by, index), name=f"n{index}", instance_id=instance_id)
        for index, instance_id in enumerate(launched, start=2)
    ]
    world.plant(*nodes)
    world.clock.advance(60)
    world.ec2.calls.clear()
    # Planted as they are, they do not stand in the ledger yet.
    assert world.reconcile() == Report(mended=1)
    # One list of the clusters that have instances, and one of this cluster's instances.
    assert world.ec2.calls["DescribeInstances"] == 10 + 10


# What operations left behind.


@pytest.mark.parametrize("answered", [False, True])
def test_a_node_whose_termination_gave_up_before_its_launch_did_is_gone_once_both_have(
    answered: bool,
) -> None:
    """EC2 answered nothing for so long; or at last, when it launched what nobody wanted any more."""
    world = World(nodearray(maxCount=2))
    create, _ = world.create(2)
    world.ec2.fail_next("CreateFleet", "RequestLimitExceeded", times=10_000)
    world.step("launch", create.id)
    world.clock.advance(60)
    ending, _ = world.terminate(ids=[node.id for node in world.nodes()])
    world.step("terminate", ending.id)
    # Its launch is begun before its deadline, and answered after the other one's.
    if answered:
        world.ec2.reset_faults()
        launch = world.compute.launch

        def late(request: LaunchRequest) -> LaunchResult:
            result = launch(request)
            world.clock.advance(DEADLINE_NS / SECOND_NS)
            world.drive(ending)
            return result

        world.compute.launch = late  # type: ignore[method-assign]
        world.step("launch", create.id)
    else:
        world.clock.advance(DEADLINE_NS / SECOND_NS)
        world.drive(ending)
    assert {node.status for node in world.nodes()} == {NodeStatus.FAILED}
    world.settle()
    world.ec2.reset_faults()
    assert world.nodes() == []
    assert world.existing() == set()
    _, [line] = world.create(2)
    assert line.count == 2
    world.drive_all()
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("told", [False, True])
def test_an_instance_that_a_reimage_could_not_end_is_looked_after(told: bool) -> None:
    world = World(nodearray(maxCount=1))
    [node] = world.ready(1)
    world.ec2.protect(node.instance_id)
    reimage, _ = world.manage(Action.REIMAGE, ids=[node.id])
    world.step("terminate", reimage.id)
    ending, _ = world.terminate(ids=[node.id])
    world.drive(ending)
    world.drive_all()
    assert (only(world).status, only(world).uses_limits) == (NodeStatus.FAILED, True)
    world.ec2.end(node.instance_id)
    world.clock.advance(ENDED)
    if told:
        world.hear(node.instance_id)
    else:
        world.reconcile()
    assert world.nodes() == []
    assert world.create(1)[1][0].count == 1
    world.drive_all()
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize(
    ("happens", "status"),
    [("", NodeStatus.READY), ("end", NodeStatus.FAILED), ("stop", NodeStatus.DEALLOCATED)],
)
def test_a_node_that_no_operation_brings_on_its_way_any_more_is_looked_after(
    happens: str, status: NodeStatus
) -> None:
    """EC2 would not stop it while it booted, and by the time that this is clear its launch has ended."""
    world = World()
    world.ec2.configure(boot_seconds=60)
    create, _ = world.create(1)
    world.step("launch", create.id)
    node = only(world)
    world.ec2.fail_next("StopInstances", "UnsupportedOperation", times=1000)
    stopping, _ = world.manage(Action.DEALLOCATE, ids=[node.id])
    world.drive(create)
    world.drive(stopping)
    assert (only(world).status, only(world).is_wanted) == (NodeStatus.PREPARING, True)
    world.ec2.reset_faults()
    if happens == "end":
        world.ec2.end(node.instance_id)
    elif happens == "stop":
        world.ec2.call("StopInstances", {"InstanceIds": [node.instance_id]})
    world.clock.advance(60)
    world.reconcile()
    assert only(world).status is status
    assert invariants.at_rest(world) == []


def test_a_node_whose_stopped_instance_a_reimage_could_not_end_is_left_to_the_termination_that_follows() -> (
    None
):
    """The reimage has ended, and the termination that it began died before it took hold of the node."""
    world = World()
    [node] = world.ready()
    reimage, _ = world.manage(Action.REIMAGE, ids=[node.id])
    world.ec2.call("StopInstances", {"InstanceIds": [node.instance_id]})
    world.ec2.fail_next("TerminateInstances", "InternalError", times=1_000)
    world.clock.advance(DEADLINE_NS / SECOND_NS)
    dying = Actor(world, lambda world: world.step("finish", reimage.id))
    while len(invariants.operations(world)) < 3:
        dying.go()
    dying.go(crash_before)
    world.drive(reimage, "finish")
    assert not world.operation(reimage.id).is_running
    assert only(world).status is NodeStatus.ACQUIRING
    assert world.reconcile().failed == 0
    world.ec2.reset_faults()
    world.settle()
    assert (world.nodes(), world.existing()) == ([], set())
    assert invariants.at_rest(world) == []


def test_a_node_whose_reimage_has_ended_keeps_its_instance_where_nothing_ends_it_any_more() -> None:
    """A start took hold of the node before the termination that followed the reimage could."""
    world = World()
    [node] = world.ready()
    reimage, _ = world.manage(Action.REIMAGE, ids=[node.id])
    world.ec2.fail_next("TerminateInstances", "InternalError", times=1_000)
    world.clock.advance(DEADLINE_NS / SECOND_NS)
    dying = Actor(world, lambda world: world.step("finish", reimage.id))
    while len(invariants.operations(world)) < 3:
        dying.go()
    dying.go(crash_before)
    world.manage(Action.START, ids=[node.id])
    world.ec2.reset_faults()
    world.settle()
    world.clock.advance(DEADLINE_NS / SECOND_NS)
    world.settle()
    assert (only(world).status, only(world).instance_ids) == (NodeStatus.READY, [node.instance_id])
    assert invariants.at_rest(world) == []


def test_a_description_from_before_an_instance_began_to_end_does_not_deallocate_its_node() -> None:
    """EC2 may show an instance that was stopped and is ended by hand as stopped once more."""
    world = World()
    [node] = world.ready()
    stop(world, node)
    seen = world.compute.launched_in(CLUSTER)
    world.ec2.configure(terminate_seconds=60)
    world.ec2.end(node.instance_id)
    world.hear(node.instance_id)
    assert only(world).status is NodeStatus.FAILED
    observe(world.store, CLUSTER, world.nodes(), {one.id: one for one in seen}, ())
    assert only(world).status is NodeStatus.FAILED
    world.clock.advance(60)
    world.reconcile()
    assert (only(world).status, active(world)) == (NodeStatus.FAILED, 0)
    assert invariants.at_rest(world) == []


def test_an_operation_of_paddock_s_own_is_later_than_what_another_machine_s_clock_began() -> None:
    world = World(nodearray("spot", interruptible=True))
    [node] = world.ready(1, array="spot")
    world.clock.advance(60)
    restart, _ = world.manage(Action.RESTART, ids=[node.id])
    world.drive(restart)
    world.clock.advance(-30)
    world.hear(interrupted=[node.instance_id])
    assert only(world).status is NodeStatus.TERMINATING
    world.drive_all()
    assert world.nodes() == []


def test_a_node_that_nothing_launches_any_more_has_failed_and_counts_no_more() -> None:
    """However it came about: here its record was written again when its launch had long ended."""
    world = World(nodearray(maxCount=1))
    [node] = world.ready(1)
    stuck = replace(node, status=NodeStatus.ACQUIRING, instance_id=InstanceId(""))
    world.store.commit(Put(stuck, was=node))
    world.compute.terminate([node.instance_id])
    world.clock.advance(DEADLINE_NS / SECOND_NS)
    assert world.reconcile().noticed == 1
    assert (only(world).status, only(world).uses_limits) == (NodeStatus.FAILED, False)
    assert invariants.at_rest(world) == []
    assert world.create(1)[1][0].count == 1


def test_what_a_termination_with_notice_is_refused_is_told() -> None:
    """The node was taken hold of by somebody else before the warning's operation could."""
    world = World(nodearray("spot", interruptible=True))
    [node] = world.ready(1, array="spot")
    warned = Actor(world, lambda view: view.hear(interrupted=[node.instance_id]))
    while not any(one.forced for one in invariants.operations(world)):
        warned.go()
    warned.go(crash_before)
    restart, _ = world.manage(Action.RESTART, ids=[node.id])
    world.drive(restart)
    world.settle()
    [ending] = [one for one in invariants.operations(world) if one.forced]
    assert (ending.succeeded, ending.failed) == (0, 1)
    assert "later operation" in ending.error
