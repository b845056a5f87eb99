"""The workflow's steps against a cloud that is short, slow, forgetful or silent."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from paddock.clusters.write import delete_cluster
from paddock.errors import NodesInUse, StoreThrottled
from paddock.model.identity import ClusterName, OperationId, derived_operation_id
from paddock.model.node import NodeStatus
from paddock.model.node_observation import UNSEEN_GRACE_NS
from paddock.model.operation import DEADLINE_NS, Action, OperationState
from paddock.model.time import SECOND_NS
from paddock.ports.compute import LaunchRequest
from paddock.ports.repository import Put
from paddock.workflow.launch import launch
from paddock.workflow.outcome import Next, wait
from tests.fakes import invariants
from tests.fakes.actors import Actor
from tests.fakes.ec2 import ANSWER_LOST
from tests.fakes.world import CLUSTER, World, bucket, nodearray

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.model.operation import Operation
    from paddock.ports.repository import Write

FAILED, PARTIALLY, SUCCEEDED = (
    OperationState.FAILED,
    OperationState.PARTIALLY_SUCCEEDED,
    OperationState.SUCCEEDED,
)


def statuses(world: World) -> Counter[str]:
    return Counter(node.status.value for node in world.nodes())


def execution(world: World, operation: Operation) -> Iterator[None]:
    """The workflow of an operation, one task at a time."""
    task, polls = ("launch" if operation.action is Action.CREATE else "terminate"), 0
    while True:
        following, seconds = world.step(task, operation.id, polls)
        yield
        if following is Next.DONE:
            return
        if following is Next.WAIT:
            world.clock.advance(seconds)
            polls += 1
        task = "poll" if following is Next.WAIT else following.value


# Create.


@pytest.mark.proves(
    "node: Acquiring → Preparing",
    "node: Preparing → Ready",
    "operation: Running → Succeeded",
)
def test_nodes_become_ready_once_their_instances_run_and_have_addresses() -> None:
    world = World()
    world.ec2.configure(boot_seconds=30, address_seconds=60)
    operation, _ = world.create(2)
    assert world.step("launch", operation.id)[0] is Next.WAIT
    assert statuses(world) == {"Preparing": 2}
    assert all(node.instance_id for node in world.nodes())
    world.clock.advance(40)
    assert world.step("poll", operation.id)[0] is Next.WAIT
    assert statuses(world) == {"Preparing": 2}
    world.clock.advance(30)
    assert world.step("poll", operation.id)[0] is Next.FINISH
    assert statuses(world) == {"Ready": 2}
    assert world.step("finish", operation.id)[0] is Next.DONE
    ended = world.operation(operation.id)
    assert (ended.state, ended.succeeded, ended.failed, ended.error) == (SUCCEEDED, 2, 0, "")
    assert ended.finish_time > ended.start_time
    for node in world.nodes():
        assert node.private_ip
        assert node.dns_name.startswith(node.hostname)
        assert node.ready_at >= node.launched_at >= node.managed_at > 0
    assert invariants.at_rest(world) == []


def test_many_nodes_launch_in_batches_each_of_one_call() -> None:
    world = World(nodearray("ondemand"), nodearray("spot", interruptible=True))
    operation, _ = world.create_sets(
        {"count": 501, "nodearray": "ondemand"}, {"count": 2, "nodearray": "spot"}
    )
    assert world.drive(operation).state is SUCCEEDED
    assert world.ec2.calls["CreateFleet"] == 3
    assert statuses(world) == {"Ready": 503}
    markets = Counter(one["market"] for one in world.ec2.snapshot()["instances"].values())
    assert markets == {"on-demand": 501, "spot": 2}
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("task", ["launch", "poll", "terminate", "finish"])
def test_every_step_of_an_operation_that_is_over_or_unknown_does_nothing(task: str) -> None:
    world = World()
    operation, _ = world.create(1)
    world.drive(operation)
    before = dict(world.repository._records)
    for operation_id in (operation.id, OperationId("00000000-0000-4000-8000-000000000000")):
        assert world.step(task, operation_id)[0] is Next.DONE
    assert world.repository._records == before
    assert len(world.alive()) == 1


@pytest.mark.proves("the answer lost, the effect done: found by its token or tag")
@pytest.mark.parametrize("times", [1, 3])
def test_a_lost_answer_to_a_launch_launches_nothing_more(times: int) -> None:
    world = World()
    operation, _ = world.create(3)
    world.ec2.fail_next("CreateFleet", ANSWER_LOST, times, after_effect=True)
    assert world.step("launch", operation.id)[0] is Next.WAIT
    assert len(world.alive()) == 3
    assert statuses(world) == {"Acquiring": 3}
    assert world.drive(operation).state is SUCCEEDED
    assert len(world.alive()) == 3
    assert invariants.at_rest(world) == []


@pytest.mark.proves("a crash right after the launch: the same token again, the count exact")
def test_what_was_launched_goes_to_the_same_nodes_however_often_it_is_asked_for() -> None:
    world = World()
    operation, _ = world.create(3)
    batch = None
    world.ec2.fail_next("CreateFleet", ANSWER_LOST, 2, after_effect=True)
    for _ in range(2):
        world.step("launch", operation.id)
        batch = batch or world.operation(operation.id).batch
        assert world.operation(operation.id).batch == batch
    world.step("launch", operation.id)
    first = {node.id: node.instance_id for node in world.nodes()}
    world.drive(operation)
    assert {node.id: node.instance_id for node in world.nodes()} == first


def test_a_launch_that_is_repeated_leaves_nodes_alone_that_are_ready_already() -> None:
    world = World()
    operation, _ = world.create(2)
    world.ec2.fail_next("CreateFleet", ANSWER_LOST, after_effect=True)
    world.step("launch", operation.id)
    opened = world.operation(operation.id)
    world.step("launch", operation.id)
    # As if the task had died after it gave the instances to the nodes.
    closed = world.operation(operation.id)
    world.store.commit(Put(opened, was=closed))
    world.clock.advance(60)
    world.step("poll", operation.id)
    before = world.nodes()
    assert statuses(world) == {"Ready": 2}
    assert world.step("launch", operation.id)[0] is Next.WAIT
    assert world.nodes() == before
    assert world.drive(operation).state is SUCCEEDED
    assert len(world.alive()) == 2


@pytest.mark.proves("node: Acquiring → Failed")
@pytest.mark.parametrize(
    ("capacity", "state", "expected"),
    [(0, FAILED, {"Failed": 3}), (2, PARTIALLY, {"Ready": 2, "Failed": 1}), (3, SUCCEEDED, {"Ready": 3})],
)
def test_a_shortage_is_told_and_what_was_not_launched_is_given_back(
    capacity: int, state: OperationState, expected: dict[str, int]
) -> None:
    world = World(nodearray(maxCount=3))
    world.ec2.capacity(capacity)
    operation, _ = world.create(3)
    ended = world.drive(operation)
    assert (ended.state, ended.succeeded, ended.failed) == (state, capacity, 3 - capacity)
    assert ("InsufficientInstanceCapacity" in ended.error) is (capacity < 3)
    assert statuses(world) == expected
    for node in world.nodes():
        assert ("InsufficientInstanceCapacity" in node.status_message) is (node.status is NodeStatus.FAILED)
    world.ec2.capacity(None)
    assert world.create(3)[1][0].count == 3 - capacity
    # A shortage is an answer, and is not asked for again.
    assert world.ec2.calls["CreateFleet"] == 1
    world.drive_all()
    assert invariants.at_rest(world) == []


@pytest.mark.proves("operation: Running → Failed")
def test_a_launch_that_is_refused_fails_with_the_cloud_s_reason_and_without_a_retry() -> None:
    world = World()
    world.ec2.templates([])
    operation, _ = world.create(2)
    ended = world.drive(operation)
    assert ended.state is FAILED
    assert "InvalidLaunchTemplateId.NotFound" in ended.error
    assert world.ec2.calls["CreateFleet"] == 1
    assert invariants.at_rest(world) == []


def test_a_batch_that_is_refused_does_not_hold_back_the_next() -> None:
    world = World(nodearray("a"), nodearray("b"))
    world.ec2.fail_next("CreateFleet", "InvalidParameterValue")
    operation, _ = world.create_sets({"count": 2, "nodearray": "a"}, {"count": 1, "nodearray": "b"})
    assert world.drive(operation).state is PARTIALLY
    assert statuses(world) == {"Failed": 2, "Ready": 1}


@pytest.mark.parametrize("call", ["CreateFleet", "DescribeInstances", "CreatePlacementGroup"])
@pytest.mark.parametrize("code", ["RequestLimitExceeded", "InternalError", ANSWER_LOST])
def test_throttling_and_outages_only_cost_time(call: str, code: str) -> None:
    world = World()
    world.ec2.fail_next(call, code, times=5)
    operation, _ = world.create(2, placementGroupId="ring")
    assert world.drive(operation).state is SUCCEEDED
    assert len(world.alive()) == 2
    assert world.ec2.calls[call] >= 6
    assert invariants.at_rest(world) == []


def test_waits_grow_and_have_an_end() -> None:
    seconds = [wait(polls).wait_seconds for polls in range(100)]
    assert seconds == sorted(seconds)
    assert (seconds[0], seconds[-1]) == (2, 60)
    assert wait(10**6).wait_seconds == 60


def test_an_instance_that_is_not_seen_yet_is_waited_for() -> None:
    world = World()
    world.ec2.configure(describe_lag_seconds=250)
    operation, _ = world.create(2)
    assert world.drive(operation).state is SUCCEEDED
    assert statuses(world) == {"Ready": 2}
    assert all(node.unseen_since == 0 for node in world.nodes())
    assert invariants.at_rest(world) == []


def test_an_instance_that_stays_out_of_sight_is_lost_and_its_limits_are_given_back() -> None:
    world = World(nodearray(maxCount=2))
    operation, _ = world.create(2)
    world.step("launch", operation.id)
    gone, left = world.nodes()
    world.ec2.lose(gone.instance_id)
    ended = world.drive(operation)
    assert (ended.state, ended.error) == (PARTIALLY, "1 of the nodes: its instance was not seen any more")
    assert ended.finish_time - ended.start_time >= UNSEEN_GRACE_NS
    assert {node.id: node.status for node in world.nodes()} == {
        gone.id: NodeStatus.FAILED,
        left.id: NodeStatus.READY,
    }
    assert world.create(2)[1][0].count == 1
    world.drive_all()
    assert invariants.at_rest(world) == []


@pytest.mark.proves("node: Preparing → Failed")
def test_an_instance_that_ends_while_it_boots_fails_its_node_with_the_reason() -> None:
    world = World()
    world.ec2.configure(boot_seconds=60)
    operation, _ = world.create(2)
    world.step("launch", operation.id)
    world.ec2.end(world.nodes()[0].instance_id, "Server.SpotInstanceTermination")
    ended = world.drive(operation)
    assert ended.state is PARTIALLY
    assert "Server.SpotInstanceTermination" in ended.error
    assert invariants.at_rest(world) == []


# Deadlines.


def test_instances_that_never_run_are_ended_after_the_deadline() -> None:
    world = World(nodearray(maxCount=3))
    world.ec2.configure(boot_seconds=1e9)
    operation, _ = world.create(3)
    ended = world.drive(operation)
    assert (ended.state, ended.failed) == (FAILED, 3)
    assert "not ready before the operation's deadline" in ended.error
    assert ended.finish_time - ended.start_time < DEADLINE_NS + 120 * SECOND_NS
    assert statuses(world) == {"Terminating": 3}
    assert derived_operation_id(operation.id, "terminate") in world.workflows.live
    world.drive_all()
    assert world.nodes() == []
    assert not world.alive()
    assert invariants.at_rest(world) == []


def test_only_the_nodes_that_are_late_are_ended() -> None:
    world = World()
    operation, _ = world.create_sets(
        {"count": 1, "nodearray": "ondemand"},
        {"count": 1, "nodearray": "ondemand", "placementGroupId": "ring"},
        {"count": 1, "nodearray": "ondemand", "nodeAttributes": {"KeepAlive": True}},
    )
    world.step("launch", operation.id)
    world.ec2.configure(boot_seconds=1e9)
    assert world.drive(operation).state is PARTIALLY
    world.drive_all()
    assert [node.name for node in world.nodes()] == ["ondemand-1"]
    assert len(world.alive()) == 1
    assert invariants.at_rest(world) == []


def test_nothing_is_launched_once_the_deadline_has_passed() -> None:
    world = World(nodearray(maxCount=2))
    operation, _ = world.create(2)
    world.clock.advance(DEADLINE_NS / SECOND_NS)
    assert world.drive(operation).state is FAILED
    assert world.ec2.calls["CreateFleet"] == 0
    assert statuses(world) == {"Failed": 2}
    assert world.create(2)[1][0].count == 2
    world.drive_all()
    assert invariants.at_rest(world) == []


@pytest.mark.proves("the answer lost, the effect done: found by its token or tag")
def test_what_an_unanswered_launch_brought_about_is_ended_when_it_comes_into_sight() -> None:
    world = World()
    world.ec2.configure(describe_lag_seconds=200)
    operation, _ = world.create(2)
    world.clock.advance(DEADLINE_NS / SECOND_NS - 10)
    world.ec2.fail_next("CreateFleet", ANSWER_LOST, after_effect=True)
    world.step("launch", operation.id)
    assert len(world.alive()) == 2
    world.clock.advance(20)
    ended = world.drive(operation)
    assert ended.state is FAILED
    assert not world.alive()
    assert invariants.at_rest(world) == []


def test_instances_that_belong_to_no_node_are_ended_when_the_operation_ends() -> None:
    world = World()
    operation, _ = world.create(1)
    world.step("launch", operation.id)
    [mine] = world.alive()
    tags = world.ec2.snapshot()["instances"][mine]["tags"]
    world.compute.launch(_stray(tags["paddock:cluster"], OperationId(tags["paddock:operation"])))
    world.compute.launch(_stray(ClusterName("other"), OperationId("other")))
    assert len(world.alive()) == 3
    world.drive(operation)
    survivors = [world.ec2.snapshot()["instances"][one]["tags"] for one in world.alive()]
    assert {one["paddock:operation"] for one in survivors} == {operation.id, "other"}
    assert len(survivors) == 2
    assert mine in world.alive()


def _stray(cluster: ClusterName, operation_id: OperationId) -> LaunchRequest:
    return LaunchRequest(
        client_token=f"stray-{cluster}",
        cluster=cluster,
        operation_id=operation_id,
        count=1,
        instance_type="c5.large",
        launch_template_id="lt-0123456789abcdef0",
        launch_template_version="1",
        subnet_ids=("subnet-00000001",),
    )


# Terminate.


@pytest.mark.proves("node: Terminating → nothing")
def test_a_node_is_gone_when_the_cloud_says_terminated_and_not_before() -> None:
    world = World()
    world.ec2.configure(terminate_seconds=100)
    world.ready(1)
    operation, _ = world.terminate(names=["ondemand-1"])
    assert world.step("terminate", operation.id)[0] is Next.WAIT
    assert not world.alive()
    world.clock.advance(50)
    assert world.step("poll", operation.id)[0] is Next.WAIT
    assert statuses(world) == {"Terminating": 1}
    world.clock.advance(60)
    assert world.step("poll", operation.id)[0] is Next.FINISH
    assert world.nodes() == []


@pytest.mark.parametrize("call", ["TerminateInstances", "DescribeInstances"])
@pytest.mark.parametrize("code", ["RequestLimitExceeded", "InternalError", ANSWER_LOST])
@pytest.mark.parametrize("after_effect", [False, True])
def test_throttling_and_outages_only_delay_the_end(call: str, code: str, *, after_effect: bool) -> None:
    world = World()
    world.ready(2)
    operation, _ = world.terminate(names=["ondemand-1", "ondemand-2"])
    world.ec2.fail_next(call, code, 4, after_effect=after_effect)
    assert world.drive(operation).state is SUCCEEDED
    assert not world.alive()
    assert invariants.at_rest(world) == []


@pytest.mark.proves(
    "node: Terminating → Failed",
    "operation: Running → PartiallySucceeded",
    "one protected instance among many: an error for that node alone",
)
def test_a_protected_instance_fails_alone_and_can_be_ended_later() -> None:
    world = World()
    kept, *others = world.ready(4)
    world.ec2.protect(kept.instance_id)
    operation, _ = world.terminate(ids=[kept.id, *(node.id for node in others)])
    ended = world.drive(operation)
    assert (ended.state, ended.succeeded, ended.failed) == (PARTIALLY, 3, 1)
    assert "OperationNotPermitted" in ended.error
    assert world.alive() == {kept.instance_id}
    [left] = world.nodes()
    assert (left.id, left.status, left.uses_limits) == (kept.id, NodeStatus.FAILED, True)
    assert "OperationNotPermitted" in left.status_message
    assert invariants.at_rest(world) == []
    world.ec2.protect(kept.instance_id, protected=False)
    again, _ = world.terminate(ids=[kept.id])
    assert world.drive(again).state is SUCCEEDED
    assert world.nodes() == []
    assert not world.alive()
    assert invariants.at_rest(world) == []


def test_a_node_that_one_termination_gives_up_is_left_to_a_later_one() -> None:
    world = World()
    [node] = world.ready(1)
    world.ec2.protect(node.instance_id)
    first, _ = world.terminate(ids=[node.id])
    world.clock.advance(600)
    second, _ = world.terminate(ids=[node.id])
    before = world.nodes()
    assert world.drive(first).state is FAILED
    assert [left.status for left in world.nodes()] == [NodeStatus.TERMINATING]
    assert (
        [left.managing_operation_id for left in world.nodes()]
        == [left.managing_operation_id for left in before]
        == [second.id]
    )
    world.ec2.protect(node.instance_id, protected=False)
    assert world.drive(second).state is SUCCEEDED
    assert world.nodes() == []
    assert not world.alive()
    assert invariants.at_rest(world) == []


def test_protection_that_is_lifted_in_time_does_no_harm() -> None:
    world = World()
    [node] = world.ready(1)
    world.ec2.protect(node.instance_id)
    operation, _ = world.terminate(ids=[node.id])
    world.step("terminate", operation.id)
    world.ec2.protect(node.instance_id, protected=False)
    assert world.drive(operation).state is SUCCEEDED
    assert not world.alive()


@pytest.mark.proves(
    "node: Preparing → Terminating",
    "terminate while the create still runs: nothing alive in the end",
)
@pytest.mark.parametrize("steps", range(8))
@pytest.mark.parametrize("first", ["create", "terminate"])
@pytest.mark.parametrize("answer", ["given", "lost", "late"])
def test_to_terminate_while_the_create_still_runs_leaves_nothing_alive(
    steps: int, first: str, answer: str
) -> None:
    world = World(nodearray("a"), nodearray("b", bucket("c7i-large")))
    world.ec2.configure(boot_seconds=5)
    if answer == "lost":
        world.ec2.fail_next("CreateFleet", ANSWER_LOST, 2, after_effect=True)
    if answer == "late":
        world.ec2.configure(describe_lag_seconds=60)
    created, _ = world.create_sets({"count": 2, "nodearray": "a"}, {"count": 1, "nodearray": "b"})
    creating = execution(world, created)
    for _, _step in zip(range(steps), creating, strict=False):
        pass
    ended, results = world.terminate(names=["a-1", "a-2", "b-1"])
    assert [one.error for one in results] == [""] * 3
    running = [creating, execution(world, ended)]
    running = running if first == "create" else running[::-1]
    while running:
        for one in list(running):
            if next(one, "over") == "over":
                running.remove(one)
    assert not world.alive()
    assert world.nodes() == []
    assert world.operation(ended.id).state is SUCCEEDED
    assert invariants.at_rest(world) == []


def test_to_terminate_one_node_of_a_create_spares_the_others() -> None:
    world = World()
    created, _ = world.create(5)
    ended, _ = world.terminate(names=["ondemand-3"])
    world.drive(created)
    world.drive(ended)
    assert [node.name for node in world.nodes()] == [f"ondemand-{n}" for n in (1, 2, 4, 5)]
    assert statuses(world) == {"Ready": 4}
    assert len(world.alive()) == 4
    # It was not even launched, since its end was wanted before.
    assert invariants.launched(world) == {created.id: 4}
    assert invariants.at_rest(world) == []


@pytest.mark.proves("node: Acquiring → Terminating")
def test_a_termination_waits_for_a_create_that_may_still_launch_its_node() -> None:
    world = World()
    created, _ = world.create(1)
    world.ec2.fail_next("CreateFleet", ANSWER_LOST, after_effect=True)
    world.step("launch", created.id)
    ended, _ = world.terminate(names=["ondemand-1"])
    for _ in range(5):
        assert world.step("poll", ended.id)[0] is Next.WAIT
    assert statuses(world) == {"Terminating": 1}
    world.drive(created)
    assert world.drive(ended).state is SUCCEEDED
    assert not world.alive()


def test_nodes_never_launched_are_gone_without_a_call_to_the_cloud() -> None:
    world = World()
    world.ec2.capacity(0)
    world.ready(2)
    before = world.ec2.calls["TerminateInstances"]
    operation, _ = world.terminate(names=["ondemand-1", "ondemand-2"])
    assert world.drive(operation).state is SUCCEEDED
    assert world.ec2.calls["TerminateInstances"] == before
    assert world.nodes() == []


# A cluster whose nodes still run.


@pytest.mark.parametrize("moment", ["recorded", "launched", "ready", "ending"])
def test_a_cluster_with_nodes_is_not_deleted_at_any_moment(moment: str) -> None:
    world = World()
    operation, _ = world.create(1)
    if moment == "launched":
        world.step("launch", operation.id)
    if moment in ("ready", "ending"):
        world.drive(operation)
    if moment == "ending":
        operation, _ = world.terminate(names=["ondemand-1"])
        world.step("terminate", operation.id)
    with pytest.raises(NodesInUse):
        delete_cluster(world.store, CLUSTER, None)
    world.drive(operation)
    assert world.repository.cluster(CLUSTER) is not None


def test_an_instance_that_came_into_sight_too_late_is_ended() -> None:
    """It was given up after five minutes out of sight; then it must not live on uncounted."""
    world = World()
    world.ec2.configure(describe_lag_seconds=400)
    operation, _ = world.create(1)
    world.step("launch", operation.id)
    world.step("poll", operation.id)
    world.clock.advance(350)
    assert world.step("poll", operation.id)[0] is Next.FINISH
    world.clock.advance(100)
    world.step("finish", operation.id)
    assert world.operation(operation.id).state is OperationState.FAILED
    assert not world.alive()


def test_a_launch_that_read_its_operation_long_ago_does_not_write_its_nodes_again() -> None:
    """Lambda may run a task twice at once; the node that one of them could not launch was ended since."""
    world = World(nodearray(maxCount=1))
    world.ec2.capacity(0)
    create, _ = world.create(1)
    late = Actor(world, lambda view: view.step("launch", create.id))
    late.go()
    world.drive(create)
    ending, _ = world.terminate(ids=[node.id for node in world.nodes()])
    world.drive(ending)
    assert world.nodes() == []
    while not late.has_ended:
        late.go()
    assert world.nodes() == []
    world.settle()
    assert invariants.at_rest(world) == []


# A repeated launch that is answered with the fleet's id alone.


@pytest.mark.parametrize("lag", [0, 100])
def test_a_repeat_that_is_not_told_what_was_launched_finds_all_of_it(lag: int) -> None:
    world = World()
    world.ec2.forget_answers()
    world.ec2.configure(describe_lag_seconds=lag)
    world.ec2.fail_next("CreateFleet", ANSWER_LOST, after_effect=True)
    operation, _ = world.create(3)
    assert world.drive(operation).state is SUCCEEDED
    assert len(world.ec2.snapshot()["instances"]) == 3
    assert len({node.instance_id for node in world.nodes()}) == 3
    assert invariants.at_rest(world) == []


def test_a_repeat_after_a_short_launch_waits_no_longer_than_instances_need_to_be_seen() -> None:
    world = World()
    world.ec2.forget_answers()
    world.ec2.capacity(2)
    world.ec2.fail_next("CreateFleet", ANSWER_LOST, after_effect=True)
    operation, _ = world.create(3)
    ended = world.drive(operation)
    assert (ended.state, ended.succeeded, ended.failed) == (PARTIALLY, 2, 1)
    assert UNSEEN_GRACE_NS <= ended.finish_time - ended.start_time < UNSEEN_GRACE_NS + 120 * SECOND_NS
    assert len(world.alive()) == 2
    assert invariants.at_rest(world) == []


def test_of_a_launch_that_is_seen_in_part_no_instance_goes_to_two_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run has given the third instance to the third node and died; the repeat does not see the second."""
    world = World()
    operation, _ = world.create(3)
    world.ec2.forget_answers()
    commit = world.repository.commit

    def dies_half_way(*writes: Write) -> None:
        if any(isinstance(write, Put) and getattr(write.record, "instance_id", "") for write in writes):
            commit(writes[2])
            raise StoreThrottled("not now")
        commit(*writes)

    with monkeypatch.context() as patch:
        patch.setattr(world.repository, "commit", dies_half_way)
        with pytest.raises(StoreThrottled):
            launch(world.store, world.compute, operation.id, 0)
    third = world.nodes()[2].instance_id
    hidden = sorted(world.ec2.snapshot()["instances"])[1]
    assert third > hidden
    world.ec2.lose(hidden)
    ended = world.drive(operation)
    assert (ended.succeeded, ended.failed) == (2, 1)
    assert {node.instance_id for node in world.nodes() if node.status is NodeStatus.READY} == world.alive()
    assert world.nodes()[2].instance_id == third
    assert invariants.at_rest(world) == []
