"""Start, deallocate, shutdown, remove, restart and reimage: each on EC2, through the workflow, to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock.errors import InvalidRequest
from paddock.model.node import NodeStatus, TargetState
from paddock.model.operation import Action, OperationState
from paddock.model.time import HOUR_NS, SECOND_NS
from paddock.nodes.manage import retry_failed
from tests.fakes import invariants
from tests.fakes.actors import Actor
from tests.fakes.ec2 import ANSWER_LOST
from tests.fakes.world import CLUSTER, World, bucket, nodearray

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from paddock.model.identity import InstanceId
    from paddock.model.instance import Instance
    from paddock.model.node import Node
    from paddock.model.operation import Operation

FIXED = {"Fixed": True}
OFF = {"StartAutomatically": False}


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.drive_all()
    assert invariants.at_rest(world) == []


def only(world: World) -> Node:
    (node,) = world.nodes()
    return node


def done(world: World, action: Action, *nodes: Node) -> Operation:
    operation, results = world.manage(action, ids=[node.id for node in nodes])
    assert [result.error for result in results] == [""] * len(nodes)
    return world.drive(operation)


def refusal(world: World, action: Action, node: Node) -> str:
    before = world.nodes()
    operation, (result,) = world.manage(action, ids=[node.id])
    assert operation.total == 0
    assert world.nodes() == before
    return result.error


def revision(world: World) -> int:
    cluster = world.repository.cluster(CLUSTER)
    assert cluster is not None
    return cluster.revision


def active(world: World) -> int:
    ledger = world.repository.ledger(CLUSTER)
    assert ledger is not None
    return sum(use.active for use in ledger.buckets.values())


def state_of(world: World, instance_id: InstanceId) -> str:
    (instance,) = world.compute.describe([instance_id]).values()
    return instance.state


@pytest.mark.proves("node: Ready → Deallocated")
def test_a_deallocated_node_keeps_its_instance_and_gives_back_its_limits(world: World) -> None:
    [node] = world.ready()
    assert done(world, Action.DEALLOCATE, node).state is OperationState.SUCCEEDED
    after = only(world)
    assert (after.status, after.target_state) == (NodeStatus.DEALLOCATED, TargetState.DEALLOCATED)
    assert after.instance_id == node.instance_id
    assert state_of(world, node.instance_id) == "stopped"
    assert active(world) == 0


@pytest.mark.proves("node: Deallocated → Preparing")
def test_a_deallocated_node_starts_again_with_the_same_instance(world: World) -> None:
    [node] = world.ready()
    done(world, Action.DEALLOCATE, node)
    assert done(world, Action.START, node).state is OperationState.SUCCEEDED
    after = only(world)
    assert (after.status, after.target_state) == (NodeStatus.READY, TargetState.STARTED)
    assert after.instance_id == node.instance_id
    assert active(world) == 1


@pytest.mark.proves("node: Deallocated → Terminating")
def test_a_deallocated_node_can_be_terminated(world: World) -> None:
    [node] = world.ready()
    done(world, Action.DEALLOCATE, node)
    operation, _ = world.terminate(ids=[node.id])
    assert only(world).status is NodeStatus.TERMINATING
    assert world.drive(operation).state is OperationState.SUCCEEDED
    assert not world.nodes()
    assert not world.existing()


def test_a_node_that_is_still_being_deallocated_cannot_start(world: World) -> None:
    [node] = world.ready()
    operation, _ = world.manage(Action.DEALLOCATE, ids=[node.id])
    assert "must be Off, Deallocated" in refusal(world, Action.START, node)
    world.drive(operation)


def test_a_terminating_node_cannot_start(world: World) -> None:
    [node] = world.ready()
    world.terminate(ids=[node.id])
    assert refusal(world, Action.START, node) == "the node is still terminating"


def test_to_start_what_runs_is_to_do_nothing(world: World) -> None:
    [node] = world.ready()
    assert done(world, Action.START, node).state is OperationState.SUCCEEDED
    assert only(world).instance_id == node.instance_id
    assert world.ec2.calls["StartInstances"] == 0


def test_a_start_is_held_by_the_same_limits_as_a_create() -> None:
    world = World(nodearray("ondemand", bucket(maxCount=2)))
    nodes = world.ready(2)
    done(world, Action.DEALLOCATE, *nodes)
    world.ready(1)
    operation, results = world.manage(Action.START, ids=[node.id for node in nodes])
    assert sorted(bool(result.error) for result in results) == [False, True]
    assert "no room" in "".join(result.error for result in results)
    assert world.drive(operation).state is OperationState.PARTIALLY_SUCCEEDED
    assert active(world) == 2
    assert invariants.at_rest(world) == []


def test_a_node_whose_start_was_answered_with_an_error_is_not_started_when_there_is_room_later(
    world: World,
) -> None:
    """Whoever was told so has gone another way, and does not expect the node."""
    world.put({"nodearrays": [nodearray("ondemand", bucket(maxCount=2))]}, revision(world))
    nodes = world.ready(2)
    done(world, Action.DEALLOCATE, *nodes)
    [other] = world.ready(1)
    operation, results = world.manage(Action.START, ids=[node.id for node in nodes])
    assert [bool(result.error) for result in results] == [False, True]
    done(world, Action.TERMINATE, other)
    ended = world.drive(operation)
    assert ended.state is OperationState.PARTIALLY_SUCCEEDED
    assert "no room" in ended.error
    assert [node.status for node in world.nodes()] == [NodeStatus.READY, NodeStatus.DEALLOCATED]


@pytest.mark.parametrize("lag_seconds", [0, 30])
def test_an_instance_that_a_start_has_launched_is_not_started_by_it(lag_seconds: int) -> None:
    """Two machine types are two batches. A spot instance whose start EC2 refused would run, and not count."""
    machine_types = ["c7i-xlarge", "c7i-2xlarge"]
    world = World(nodearray("spot", *map(bucket, machine_types), interruptible=True))
    for machine_type in machine_types:
        world.drive(world.create(1, "spot", definition={"machineType": machine_type})[0])
    for node in world.nodes():
        world.ec2.end(node.instance_id)
    world.clock.advance(60)
    world.reconcile()
    world.ec2.configure(describe_lag_seconds=lag_seconds)
    world.ec2.fail_next("StartInstances", "UnsupportedOperation", times=100)
    assert done(world, Action.START, *world.nodes()).state is OperationState.SUCCEEDED
    assert [node.status for node in world.nodes()] == [NodeStatus.READY] * 2
    assert invariants.at_rest(world) == []


@pytest.mark.proves("node: Preparing → Deallocated")
def test_a_start_without_capacity_leaves_the_node_deallocated(world: World) -> None:
    [node] = world.ready()
    done(world, Action.DEALLOCATE, node)
    world.ec2.capacity(0)
    operation = done(world, Action.START, node)
    assert operation.state is OperationState.FAILED
    assert "InsufficientInstanceCapacity" in operation.error
    assert only(world).status is NodeStatus.DEALLOCATED
    assert active(world) == 0


def test_a_start_that_never_succeeds_is_stopped_again_and_not_ended(world: World) -> None:
    [node] = world.ready()
    done(world, Action.DEALLOCATE, node)
    world.ec2.configure(boot_seconds=1e9)
    assert done(world, Action.START, node).state is OperationState.FAILED
    world.drive_all()
    assert only(world).status is NodeStatus.DEALLOCATED
    assert state_of(world, node.instance_id) == "stopped"


def test_a_start_by_a_clock_that_is_behind_ends_no_instance_that_was_stopped(world: World) -> None:
    """It was Ready at a time that the start's clock has not reached."""
    operation, _ = world.create(1)
    world.step("launch", operation.id)
    world.clock.advance(60)
    Actor(world, lambda world: world.step("poll", operation.id), ahead_seconds=1_200).finish()
    world.drive(operation)
    node = only(world)
    done(world, Action.DEALLOCATE, node)
    world.ec2.configure(boot_seconds=1e9)
    start, _ = world.manage(Action.START, ids=[node.id])
    assert start.start_time < node.ready_at
    assert world.drive(start).state is OperationState.FAILED
    world.drive_all()
    assert only(world).status is NodeStatus.DEALLOCATED
    assert state_of(world, node.instance_id) == "stopped"


def test_an_interruptible_node_cannot_be_deallocated() -> None:
    world = World(nodearray("ondemand", interruptible=True))
    [node] = world.ready()
    assert "interruptible" in refusal(world, Action.DEALLOCATE, node)


def test_a_node_without_an_instance_cannot_be_deallocated(world: World) -> None:
    world.create(1, nodeAttributes=OFF)
    assert "must run" in refusal(world, Action.DEALLOCATE, only(world))


def test_an_instance_that_will_not_stop_goes_on_running(world: World) -> None:
    [node] = world.ready()
    world.ec2.fail_next("StopInstances", "IncorrectInstanceState", times=1_000)
    assert done(world, Action.DEALLOCATE, node).state is OperationState.FAILED
    after = only(world)
    assert (after.status, after.target_state) == (NodeStatus.READY, TargetState.STARTED)
    assert active(world) == 1


@pytest.mark.proves("node: Ready → Failed")
def test_an_instance_that_ends_while_it_is_stopped_fails_its_node(world: World) -> None:
    [node] = world.ready()
    operation, _ = world.manage(Action.DEALLOCATE, ids=[node.id])
    world.ec2.end(node.instance_id)
    assert world.drive(operation).state is OperationState.FAILED
    assert only(world).status is NodeStatus.FAILED
    # Others get its addresses.
    assert world.terminate(hostnames=[node.hostname], ip_addresses=[node.private_ip])[1] == []


@pytest.mark.proves("POST /clusters/{cluster}/nodes/shutdown: 202")
@pytest.mark.parametrize(("policy", "left"), [("Terminate", []), ("Deallocate", [NodeStatus.DEALLOCATED])])
def test_a_shutdown_does_what_the_nodes_policy_says(
    world: World, policy: str, left: list[NodeStatus]
) -> None:
    [node] = world.ready(nodeAttributes={"ShutdownPolicy": policy})
    assert done(world, Action.SHUTDOWN, node).state is OperationState.SUCCEEDED
    assert [one.status for one in world.nodes()] == left


@pytest.mark.proves("node: nothing → Off")
def test_a_node_that_does_not_start_automatically_is_off_and_uses_no_limits(world: World) -> None:
    operation, (added,) = world.create(2, nodeAttributes=OFF)
    assert added.count == 2
    assert {node.status for node in world.nodes()} == {NodeStatus.OFF}
    assert world.drive(operation).state is OperationState.SUCCEEDED
    assert {node.status for node in world.nodes()} == {NodeStatus.OFF}
    assert active(world) == 0
    assert not world.alive()


@pytest.mark.proves("node: Off → Acquiring")
def test_a_node_that_is_off_is_launched_by_a_start(world: World) -> None:
    operation, _ = world.create(1, nodeAttributes=OFF)
    world.drive(operation)
    assert done(world, Action.START, only(world)).state is OperationState.SUCCEEDED
    assert only(world).status is NodeStatus.READY
    assert active(world) == len(world.alive()) == 1


def test_a_lost_answer_to_a_starts_launch_launches_nothing_twice(world: World) -> None:
    operation, _ = world.create(3, nodeAttributes=OFF)
    world.drive(operation)
    world.ec2.fail_next("CreateFleet", ANSWER_LOST, after_effect=True)
    assert done(world, Action.START, *world.nodes()).state is OperationState.SUCCEEDED
    assert len(world.alive()) == 3


@pytest.mark.proves("node: Terminating → Off")
def test_a_fixed_node_stays_as_off_when_it_is_terminated(world: World) -> None:
    [node] = world.ready(nodeAttributes=FIXED)
    done(world, Action.TERMINATE, node)
    after = only(world)
    assert (after.status, after.target_state) == (NodeStatus.OFF, TargetState.OFF)
    assert (after.id, after.name, after.instance_id, after.hostname) == (node.id, node.name, "", "")
    assert not world.alive()
    done(world, Action.START, after)
    assert only(world).status is NodeStatus.READY


def test_a_fixed_node_is_gone_when_it_is_removed(world: World) -> None:
    [node] = world.ready(nodeAttributes=FIXED)
    done(world, Action.REMOVE, node)
    assert not world.nodes()
    assert not world.alive()


@pytest.mark.proves("node: Off → Terminating")
def test_a_node_that_is_off_can_be_removed(world: World) -> None:
    operation, _ = world.create(1, nodeAttributes=OFF)
    world.drive(operation)
    assert done(world, Action.REMOVE, only(world)).state is OperationState.SUCCEEDED
    assert not world.nodes()


def test_a_restart_reboots_the_instance(world: World) -> None:
    [node] = world.ready()
    assert done(world, Action.RESTART, node).state is OperationState.SUCCEEDED
    instance = world.ec2.snapshot()["instances"][node.instance_id]
    assert instance["reboots"] == 1
    assert only(world).status is NodeStatus.READY


def test_a_restart_that_ec2_refuses_is_told(world: World) -> None:
    [node] = world.ready()
    world.ec2.end(node.instance_id)
    operation = done(world, Action.RESTART, node)
    assert operation.state is OperationState.FAILED
    assert "IncorrectInstanceState" in operation.error


@pytest.mark.parametrize("action", [Action.RESTART, Action.REIMAGE])
def test_only_a_ready_node_can_be_restarted_or_reimaged(world: World, action: Action) -> None:
    world.create()
    assert "must be Ready" in refusal(world, action, only(world))


@pytest.mark.proves("node: Ready → Acquiring")
def test_a_reimaged_node_has_another_instance_and_is_otherwise_the_same(world: World) -> None:
    [node] = world.ready()
    assert done(world, Action.REIMAGE, node).state is OperationState.SUCCEEDED
    after = only(world)
    assert (after.id, after.name, after.status) == (node.id, node.name, NodeStatus.READY)
    assert after.instance_id != node.instance_id
    assert world.alive() == {after.instance_id}
    assert active(world) == 1


def test_the_old_instance_ends_before_the_new_one_is_launched(world: World) -> None:
    [node] = world.ready()
    world.ec2.configure(terminate_seconds=100)
    operation, _ = world.manage(Action.REIMAGE, ids=[node.id])
    for task in ("terminate", "poll", "launch"):
        world.step(task, operation.id)
    assert world.ec2.calls["CreateFleet"] == 1
    assert world.drive(operation).state is OperationState.SUCCEEDED
    assert world.ec2.calls["CreateFleet"] == 2


def test_a_reimage_whose_old_instance_does_not_end_fails_and_leaks_none(world: World) -> None:
    [node] = world.ready()
    world.ec2.configure(terminate_seconds=3000)
    operation, _ = world.manage(Action.REIMAGE, ids=[node.id])
    assert world.drive(operation).state is OperationState.FAILED
    world.settle()
    assert not world.existing()
    assert not world.nodes()
    assert world.ec2.calls["CreateFleet"] == 1


def test_a_node_whose_old_instance_will_not_end_keeps_it_however_often_it_is_asked_for(world: World) -> None:
    [node] = world.ready()
    world.ec2.protect(node.instance_id)
    operation, _ = world.manage(Action.REIMAGE, ids=[node.id])
    for _ in range(2):
        world.step("terminate", operation.id)
    world.ec2.protect(node.instance_id, protected=False)
    ended = world.drive(operation)
    assert (ended.state, ended.failed) == (OperationState.FAILED, 1)
    assert "OperationNotPermitted" in ended.error
    assert only(world).status is NodeStatus.READY
    assert world.alive() == {node.instance_id}


def test_a_node_can_be_ended_in_the_middle_of_its_reimage(world: World) -> None:
    [node] = world.ready()
    reimage, _ = world.manage(Action.REIMAGE, ids=[node.id])
    world.step("terminate", reimage.id)
    terminate, _ = world.terminate(ids=[node.id])
    world.drive(reimage)
    world.drive(terminate)
    assert not world.nodes()
    assert not world.alive()


def test_usage_is_counted_while_a_machine_is_used_and_not_while_it_is_stopped(world: World) -> None:
    [node] = world.ready()
    done(world, Action.DEALLOCATE, node)
    world.clock.advance(10 * 3600)
    done(world, Action.START, node)
    world.clock.advance(3600)
    done(world, Action.REIMAGE, node)
    world.clock.advance(3600)
    done(world, Action.TERMINATE, only(world))
    hours = [(one.end - one.start) / HOUR_NS for one in world.repository.usage_intervals(CLUSTER, 0)]
    assert len(hours) == 3
    assert hours[0] < 0.1
    assert 1 < hours[1] < 1.1
    assert 1 < hours[2] < 1.1


@pytest.mark.parametrize("action", [Action.SHUTDOWN, Action.DEALLOCATE])
def test_keep_alive_refuses_what_takes_the_node_away(world: World, action: Action) -> None:
    [node] = world.ready(nodeAttributes={"KeepAlive": True})
    assert refusal(world, action, node) == "KeepAlive must be false"


def test_keep_alive_does_not_hold_a_node_back_from_remove(world: World) -> None:
    """Nothing takes KeepAlive from a node, so this is the way to be rid of one."""
    [node] = world.ready(nodeAttributes={"KeepAlive": True})
    assert done(world, Action.REMOVE, node).state is OperationState.SUCCEEDED
    assert not world.nodes()


@pytest.mark.parametrize("action", [Action.SHUTDOWN, Action.DEALLOCATE, Action.REMOVE, Action.REIMAGE])
def test_a_virtual_cluster_holds_on_to_its_nodes(world: World, action: Action) -> None:
    [node] = world.ready()
    world.claim("a", x4c8g=1)
    assert "virtual cluster a holds the node" in refusal(world, action, node)


def test_a_deallocated_node_is_not_given_to_a_virtual_cluster(world: World) -> None:
    nodes = world.ready(2)
    world.manage(Action.DEALLOCATE, ids=[nodes[0].id])
    assert list(world.claim("a", x4c8g=1).node_instances) == [nodes[1].id]


@pytest.mark.proves("node: Failed → Acquiring")
def test_failed_nodes_are_tried_again_as_far_as_limits_allow(world: World) -> None:
    world.ec2.capacity(1)
    operation, _ = world.create(3)
    world.drive(operation)
    world.ec2.capacity(None)
    again = retry_failed(world.store, world.workflows, CLUSTER)
    assert world.drive(again).state is OperationState.SUCCEEDED
    assert {node.status for node in world.nodes()} == {NodeStatus.READY}
    assert active(world) == len(world.alive()) == 3


def test_to_retry_when_nothing_failed_is_to_do_nothing(world: World) -> None:
    world.ready()
    assert retry_failed(world.store, world.workflows, CLUSTER).total == 0


def test_an_action_is_not_held_up_by_a_clock_that_is_behind(world: World) -> None:
    """Two machines' clocks differ; the request that comes later counts as later."""
    [node] = world.ready()
    world.clock.advance(-2)
    assert done(world, Action.DEALLOCATE, node).state is OperationState.SUCCEEDED


def test_one_protected_instance_among_many_is_not_replaced_and_all_others_are(world: World) -> None:
    nodes = world.ready(5)
    kept = nodes[2]
    world.ec2.protect(kept.instance_id)
    operation = done(world, Action.REIMAGE, *nodes)
    assert (operation.succeeded, operation.failed) == (4, 1)
    assert "OperationNotPermitted" in operation.error
    after = {node.id: node for node in world.nodes()}
    assert {node.status for node in after.values()} == {NodeStatus.READY}
    same = [node.id for node in nodes if after[node.id].instance_id == node.instance_id]
    assert same == [kept.id]
    assert after[kept.id].private_ip == kept.private_ip
    assert len(world.alive()) == 5
    assert world.clock.seconds() < operation.deadline / SECOND_NS - 1500


# What somebody else does in the middle of a task.


def test_a_start_that_is_refused_leaves_alone_a_node_that_was_terminated_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    [node] = world.ready(1)
    done(world, Action.DEALLOCATE, node)
    world.ec2.capacity(0)
    starting, _ = world.manage(Action.START, ids=[node.id])
    start, endings = world.compute.start, []

    def refused(instance_ids: Collection[InstanceId]) -> Mapping[InstanceId, str]:
        reasons = start(instance_ids)
        endings.append(world.terminate(ids=[node.id]))
        return reasons

    with monkeypatch.context() as patch:
        patch.setattr(world.compute, "start", refused)
        world.step("launch", starting.id)
    assert only(world).status is NodeStatus.TERMINATING
    world.drive_all()
    [(ending, [result])] = endings
    assert result.error == ""
    assert world.operation(ending.id).state is OperationState.SUCCEEDED
    assert world.nodes() == []
    assert world.existing() == set()


def test_a_late_poll_of_a_termination_leaves_alone_a_node_that_was_started_since(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    [node] = world.ready(1, nodeAttributes=FIXED)
    ending, _ = world.terminate(ids=[node.id])
    world.step("terminate", ending.id)
    world.clock.advance(60)
    describe = world.compute.describe

    def late(instance_ids: Collection[InstanceId]) -> Mapping[InstanceId, Instance]:
        seen = describe(instance_ids)
        monkeypatch.undo()
        again, _ = world.terminate(ids=[node.id])
        world.drive(again)
        assert only(world).status is NodeStatus.OFF
        starting, _ = world.manage(Action.START, ids=[node.id])
        world.step("launch", starting.id)
        return seen

    monkeypatch.setattr(world.compute, "describe", late)
    world.step("poll", ending.id)
    world.drive_all()
    assert only(world).status is NodeStatus.READY
    assert world.alive() == {only(world).instance_id}


# What cannot be, or was not, done.


@pytest.mark.parametrize("how", ["end", "lose"])
def test_a_restart_does_not_count_what_was_not_rebooted(world: World, how: str) -> None:
    gone, living = world.ready(2)
    getattr(world.ec2, how)(gone.instance_id)
    ended = done(world, Action.RESTART, gone, living)
    assert (ended.succeeded, ended.failed) == (1, 1)
    assert ended.error
    instances = world.ec2.snapshot()["instances"]
    assert instances[living.instance_id]["reboots"] == 1


@pytest.mark.parametrize("action", [Action.DEALLOCATE, Action.TERMINATE])
def test_a_forgotten_instance_holds_up_no_living_one(world: World, action: Action) -> None:
    gone, *living = world.ready(5)
    world.ec2.lose(gone.instance_id)
    operation, _ = world.manage(action, ids=[node.id for node in (gone, *living)])
    world.step("terminate", operation.id)
    after = {state_of(world, node.instance_id) for node in living}
    assert after == {"stopping" if action is Action.DEALLOCATE else "shutting-down"}
    world.drive(operation)
    assert invariants.at_rest(world) == []


def test_a_stop_that_ec2_passed_over_is_no_success(world: World) -> None:
    passed_over, other = world.ready(2)
    world.ec2.overlook(passed_over.instance_id)
    ended = done(world, Action.DEALLOCATE, passed_over, other)
    assert (ended.succeeded, ended.failed) == (1, 1)
    assert "left the instance out" in ended.error
    assert {node.name: node.status.value for node in world.nodes()} == {
        passed_over.name: "Ready",
        other.name: "Deallocated",
    }


def test_a_spot_node_array_does_not_take_a_policy_to_deallocate() -> None:
    world = World(nodearray("spot", interruptible=True), nodearray("ondemand"))
    deallocate = {"nodeAttributes": {"ShutdownPolicy": "Deallocate"}}
    with pytest.raises(InvalidRequest, match='ShutdownPolicy must be Terminate in node array "spot"'):
        world.create_sets(
            {"count": 1, "nodearray": "ondemand", **deallocate},
            {"count": 1, "nodearray": "spot", **deallocate},
        )
    assert world.nodes() == []
    world.ready(1, array="ondemand", **deallocate)
    world.ready(1, array="spot", nodeAttributes={"ShutdownPolicy": "Terminate"})
