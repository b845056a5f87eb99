"""Virtual clusters that launch what they miss, and replace what they lose."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from paddock.errors import InsufficientNodes, NotFound, StoreThrottled
from paddock.model.identity import VirtualClusterId
from paddock.model.launch_backoff import EARLY_LOSS_NS
from paddock.model.node import NodeStatus
from paddock.model.node_observation import STOPPED_GRACE_NS, UNSEEN_GRACE_NS
from paddock.model.operation import Action
from paddock.model.time import SECOND_NS
from paddock.model.virtual_cluster import ConditionReason, VirtualCluster
from paddock.nodes.manage import retry_failed
from paddock.nodes.scale import scale_nodes
from paddock.ports.repository import Put
from paddock.requests.bodies import ScaleRequest
from paddock.virtual_clusters.reconcile import reconcile_unsatisfied
from paddock.virtual_clusters.write import virtual_cluster_history
from tests.fakes import invariants
from tests.fakes.actors import Actor, crash_before, plainly
from tests.fakes.world import CLUSTER, World, bucket, nodearray

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.model.node import Node
    from paddock.ports.repository import Write

MINUTE = 60


def make(ready: int = 0, **limits: int) -> World:
    world = World(nodearray("ondemand", bucket("c7i-large", templateId="a"), **limits))
    if ready:
        world.ready(ready)
    return world


def size(one: VirtualCluster) -> int:
    return len(one.node_instances)


def pass_minutes(world: World, minutes: int) -> None:
    for _ in range(minutes):
        world.clock.advance(MINUTE)
        world.reconcile()
        world.drive_all()


# Launching.


@pytest.mark.proves("POST /virtual_clusters: 202")
def test_what_is_missing_is_launched_and_joins_when_it_is_ready() -> None:
    world = make(2)
    written = world.want("vc", a=5)
    assert (size(written), written.unassigned(), written.is_unsatisfied) == (2, {"a": 3}, True)
    assert written.condition.reason is ConditionReason.LAUNCHING
    world.drive(world.operation(written.operation_id))
    after = world.held("vc")
    assert (size(after), after.unassigned(), after.condition.reason) == (5, {}, ConditionReason.SATISFIED)
    assert set(written.node_instances) < set(after.node_instances)
    assert after.revision > written.revision
    assert len(world.alive()) == 5
    assert invariants.at_rest(world) == []


def test_what_is_launched_for_one_is_no_one_elses() -> None:
    world = make()
    written = world.want("vc", a=2)
    operation = world.operation(written.operation_id)
    with pytest.raises(InsufficientNodes):
        world.claim("other", a=1)
    world.drive(operation)
    with pytest.raises(InsufficientNodes):
        world.claim("other", a=1)
    assert size(world.held("vc")) == 2


def test_what_limits_do_not_allow_is_refused_and_what_they_allow_is_recommended() -> None:
    world = make(1, maxCount=3)
    with pytest.raises(InsufficientNodes) as error:
        world.want("vc", a=4)
    assert error.value.replica_sets_to_recommend == {"a": 3}
    assert "limits and quotas leave room for 2" in error.value.message
    assert len(world.nodes()) == 1
    assert world.want("vc", a=3).unassigned() == {"a": 2}


def test_a_dry_run_launches_nothing() -> None:
    world = make(1)
    body = {"virtualClusterId": "vc", "replicaSets": {"a": 3}, "dryRun": True}
    assert world.write(body).unassigned() == {"a": 2}
    assert len(world.nodes()) == 1
    assert not invariants.operations(world)[1:]


def test_a_short_launch_is_told_and_tried_again_after_pauses_that_grow() -> None:
    world = make()
    world.ec2.capacity(2)
    written = world.want("vc", a=4)
    world.drive(world.operation(written.operation_id))
    short = world.held("vc")
    assert (size(short), short.missing()) == (2, {"a": 2})
    assert short.condition.reason is ConditionReason.INSUFFICIENT_NODES
    assert "InsufficientInstanceCapacity" in short.condition.message
    tried = []
    for minute in range(40):
        before = len(invariants.operations(world))
        pass_minutes(world, 1)
        tried += [minute] * (len(invariants.operations(world)) - before)
    pauses = [later - earlier for earlier, later in pairwise(tried)]
    assert pauses == sorted(pauses)
    assert max(pauses) <= 16
    assert len(tried) >= 3
    world.ec2.capacity(None)
    pass_minutes(world, 20)
    assert size(world.held("vc")) == 4
    assert world.held("vc").condition.status


@pytest.mark.parametrize("written", [True, False], ids=["recorded", "not yet recorded"])
def test_what_is_on_its_way_is_not_launched_again(*, written: bool) -> None:
    world = make()
    first = world.want("vc", a=3)
    if not written:
        world.forget(*world.nodes())
    second = world.want("vc", first.revision, a=3)
    assert (second.pending, second.operation_id) == (first.pending, first.operation_id)
    world.drive_all()
    assert size(world.held("vc")) == len(world.alive()) == 3


def test_nodes_that_are_ready_join_an_update_before_any_poll_lets_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = make()
    first = world.want("vc", a=2)
    monkeypatch.setattr("paddock.workflow.poll.join", lambda *_: None)
    world.step("launch", first.operation_id)
    world.clock.advance(MINUTE)
    world.step("poll", first.operation_id)
    assert size(world.want("vc", first.revision, a=2)) == 2


def test_what_ends_while_it_is_launched_is_launched_anew() -> None:
    world = make()
    world.step("launch", world.want("vc", a=2).operation_id)
    operation, _ = world.terminate(filter='Template === "ondemand"', force=True)
    world.drive(operation)
    assert world.nodes() == []
    world.drive_all()
    pass_minutes(world, 3)
    assert size(world.held("vc")) == len(world.alive()) == 2
    assert invariants.at_rest(world) == []


def test_a_start_leaves_nodes_that_are_launched_to_their_virtual_cluster() -> None:
    world = make()
    world.want("vc", a=2)
    world.manage(Action.START, filter='Template === "ondemand"')
    assert [node.virtual_cluster for node in world.nodes()] == ["vc", "vc"]
    world.drive_all()
    assert size(world.held("vc")) == 2


@pytest.mark.parametrize("deleted", [False, True])
def test_a_node_that_was_taken_away_while_it_was_launched_may_go_to_another(
    monkeypatch: pytest.MonkeyPatch, *, deleted: bool
) -> None:
    # As long as nothing heals the one that it was launched for.
    monkeypatch.setattr("paddock.workflow.finish.reconcile_unsatisfied", lambda *_: None)
    world = make(maxCount=1)
    world.step("launch", world.want("vc", a=1).operation_id)
    world.clock.advance(MINUTE)
    for action in (Action.DEALLOCATE, Action.START):
        operation, _ = world.manage(action, names=["ondemand-1"], force=True)
        world.drive(operation)
    assert size(world.claim("other", a=1)) == 1
    if deleted:
        world.release("vc")
        assert invariants.always(world) == []
    pass_minutes(world, 3)
    assert size(world.held("other")) == 1
    assert invariants.always(world) == []


def test_what_a_long_shortage_left_unlaunched_does_not_pile_up() -> None:
    world = make()
    world.ec2.capacity(1)
    world.want("vc", a=3)
    world.drive_all()
    pass_minutes(world, 60)
    assert [node.status for node in world.nodes()] == [NodeStatus.READY]
    one = world.held("vc")
    assert (size(one), one.unassigned()) == (1, {"a": 2})
    assert "InsufficientInstanceCapacity" in one.condition.message
    assert invariants.at_rest(world) == []


def test_a_shrink_gives_back_what_is_being_launched_first() -> None:
    world = make(2)
    written = world.want("vc", a=4)
    shrunk = world.want("vc", written.revision, a=2)
    assert (shrunk.node_instances, shrunk.unassigned()) == (written.node_instances, {})
    world.drive_all()
    assert size(world.held("vc")) == 2
    assert sum(not node.virtual_cluster for node in world.nodes()) == 2
    assert invariants.at_rest(world) == []


def test_a_delete_while_nodes_are_launched_leaves_them_free_or_ends_them() -> None:
    for terminate in (False, True):
        world = make(1)
        world.want("vc", a=3)
        world.release("vc", terminate=terminate)
        world.drive_all()
        assert len(world.alive()) == (0 if terminate else 3)
        assert invariants.at_rest(world) == []


def test_a_delete_ends_nodes_too_that_the_launching_request_did_not_live_to_record() -> None:
    world = make()
    world.want("vc", a=3)
    world.forget(*world.nodes())
    world.release("vc", terminate=True)
    world.settle()
    assert world.alive() == set()
    assert invariants.at_rest(world) == []


# Healing.


def test_a_node_that_a_virtual_cluster_holds_is_ended_only_by_force_and_is_replaced() -> None:
    world = make(3)
    written = world.claim("vc", a=2)
    dead = min(written.node_instances)
    _, [refused] = world.terminate(ids=[dead])
    assert "virtual cluster vc holds the node" in refused.error
    _, [result] = world.terminate(ids=[dead], force=True)
    assert result.error == ""
    left = world.held("vc")
    assert dead not in left.node_instances
    assert not world.repository.nodes_by_id(CLUSTER, [dead])[0].virtual_cluster
    assert left.revision > written.revision
    assert left.condition.reason is ConditionReason.NODES_LOST
    [node] = world.repository.nodes_by_id(CLUSTER, [dead])
    assert left.condition.message.endswith(f"{node.name}: it is Terminating")
    world.drive_all()
    repaired = world.held("vc")
    assert size(repaired) == 2
    assert set(left.node_instances) < set(repaired.node_instances)
    assert repaired.condition.status
    assert invariants.at_rest(world) == []


def test_what_no_free_node_replaces_is_launched() -> None:
    world = make()
    world.drive(world.operation(world.want("vc", a=2).operation_id))
    dead = min(world.held("vc").node_instances)
    world.terminate(ids=[dead], force=True)
    world.drive_all()
    pass_minutes(world, 1)
    assert size(world.held("vc")) == 2
    assert len(world.alive()) == 2


def test_however_often_nodes_are_lost_that_had_lived_each_is_replaced_at_once() -> None:
    world = make()
    world.drive(world.operation(world.want("vc", a=3).operation_id))
    for _ in range(6):
        world.clock.advance(EARLY_LOSS_NS / SECOND_NS)
        # The second is lost while the first one's replacement is being launched.
        for identity in sorted(world.held("vc").node_instances)[:2]:
            [instance] = [node.instance_id for node in world.nodes() if node.id == identity]
            world.ec2.end(instance)
            world.clock.advance(5)
            world.hear(instance)
        world.drive_all()
        assert size(world.held("vc")) == 3
    assert invariants.at_rest(world) == []


def end_itself(world: World, node: Node) -> None:
    world.ec2.end(node.instance_id)
    world.clock.advance(4)
    world.hear(node.instance_id)


def be_interrupted(world: World, node: Node) -> None:
    world.hear(interrupted=[node.instance_id])


def be_taken_by_force(world: World, node: Node) -> None:
    world.terminate(ids=[node.id], force=True)


def stop_itself(world: World, node: Node) -> None:
    world.clock.advance(STOPPED_GRACE_NS / SECOND_NS)
    world.ec2.call("StopInstances", {"InstanceIds": [node.instance_id]})
    world.clock.advance(4)
    world.hear(node.instance_id)


def vanish(world: World, node: Node) -> None:
    """As if it had never been; that is believed after a while."""
    world.ec2.lose(node.instance_id)
    for seconds in (0, UNSEEN_GRACE_NS / SECOND_NS):
        world.clock.advance(seconds)
        world.reconcile()


EARLY_ENDS = [end_itself, be_interrupted, be_taken_by_force, stop_itself, vanish]


@pytest.mark.parametrize("wanted", [1, 3])
@pytest.mark.parametrize("end", EARLY_ENDS)
def test_what_is_lost_as_soon_as_it_is_ready_is_replaced_after_pauses_that_grow(
    end: Callable[[World, Node], None], wanted: int
) -> None:
    world = World(
        nodearray("ondemand", bucket("c7i-large", templateId="a"), interruptible=end is be_interrupted)
    )
    began = world.clock.now()
    world.want("vc", a=wanted)
    launched: list[float] = []
    while world.clock.now() - began < 3600 * SECOND_NS:
        world.reconcile()
        at, before = (world.clock.now() - began) / SECOND_NS, world.ec2.calls["CreateFleet"]
        world.drive_all()
        if world.ec2.calls["CreateFleet"] == before:
            world.clock.advance(15)
            continue
        launched.append(at)
        for node in world.repository.nodes_by_id(CLUSTER, sorted(world.held("vc").node_instances)):
            end(world, node)
            told = world.held("vc").condition
            assert not told.status
            assert f"1 node was lost; {node.name}: " in told.message
            assert end is not be_interrupted or "takes its spot instance back" in told.message
    within = [sum(one < minutes * MINUTE for one in launched) for minutes in (3, 15, 60)]
    assert within <= [4, 6, 9], launched
    pauses = [later - earlier for earlier, later in pairwise(launched)]
    assert max(pauses) <= 16 * MINUTE
    assert len(invariants.launched(world)) <= 9 * wanted


def test_instances_that_end_before_they_are_ready_are_replaced_after_pauses_that_grow() -> None:
    world = make()
    world.ec2.configure(boot_seconds=1e9)
    began = world.clock.now()
    world.want("vc", a=1)
    while world.clock.now() - began < 180 * SECOND_NS:
        for operation in list(world.workflows.live.values()):
            world.step("launch", operation.id)
            for instance in world.alive():
                world.ec2.end(instance)
            world.clock.advance(4)
            world.drive(operation)
        world.clock.advance(1)
        world.reconcile()
    assert len(invariants.launched(world)) <= 3
    assert "ended" in world.held("vc").condition.message


def test_a_loss_that_comes_after_all_have_lived_is_replaced_at_once_whatever_was_before() -> None:
    world = make()
    world.want("vc", a=1)
    for _ in range(3):
        world.drive_all()
        [node] = [one for one in world.nodes() if one.is_ready]
        end_itself(world, node)
        while not world.workflows.live:
            world.clock.advance(MINUTE)
            world.reconcile()
    world.drive_all()
    for lived in (EARLY_LOSS_NS / SECOND_NS, 5):
        # The last one that is lost early is the first since, which may be chance.
        world.clock.advance(lived)
        [node] = [one for one in world.nodes() if one.is_ready]
        end_itself(world, node)
        assert world.workflows.live
        world.drive_all()
        assert size(world.held("vc")) == 1
    assert invariants.at_rest(world) == []


def test_a_node_that_lived_is_replaced_at_once_also_where_others_do_not_live() -> None:
    world = make()
    world.want("vc", a=2)
    world.drive_all()
    old, young = world.nodes()
    for _ in range(3):
        world.clock.advance(MINUTE * 5)
        end_itself(world, young)
        pass_minutes(world, 20)
        [young] = [one for one in world.nodes() if one.is_ready and one.id != old.id]
    end_itself(world, young)
    end_itself(world, old)
    assert world.workflows.live
    world.drive_all()
    assert size(world.held("vc")) == 2


def test_what_is_lost_early_is_replaced_by_a_free_node_without_a_pause() -> None:
    world = make(3)
    world.want("vc", a=1)
    for _ in range(2):
        [identity] = world.held("vc").node_instances
        [node] = world.repository.nodes_by_id(CLUSTER, [identity])
        end_itself(world, node)
        assert size(world.held("vc")) == 1


def test_a_virtual_cluster_that_cannot_be_read_keeps_no_other_from_its_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = make(2)
    for name in ("a", "b"):
        world.want(name, a=1)
    lost = [node.instance_id for node in world.nodes()]
    for instance in lost:
        world.ec2.end(instance)
    world.clock.advance(10)
    read = world.repository.virtual_cluster

    def broken(name: VirtualClusterId) -> VirtualCluster | None:
        if name == "0":
            raise ValueError("a record of a later version")
        return read(name)

    unsatisfied = world.repository.unsatisfied_virtual_clusters
    monkeypatch.setattr(world.repository, "virtual_cluster", broken)
    monkeypatch.setattr(world.repository, "unsatisfied_virtual_clusters", lambda: ["0", *unsatisfied()])
    world.hear(*lost)
    assert [world.held(name).unassigned() for name in ("a", "b")] == [{"a": 1}] * 2
    assert all(world.held(name).pending for name in ("a", "b"))


def test_lost_nodes_that_nobody_knows_by_name_do_not_pile_up() -> None:
    """Those that were launched for virtual clusters go; whoever created the others looks for their status."""
    world = make(1)
    [created] = world.nodes()
    world.drive(world.operation(world.want("vc", a=3).operation_id))
    for node in world.nodes():
        world.ec2.end(node.instance_id)
    pass_minutes(world, 3)
    by_status = {node.status: node.name for node in world.nodes() if node.status is not NodeStatus.READY}
    assert by_status == {NodeStatus.FAILED: created.name}
    assert size(world.held("vc")) == 3
    assert len(world.nodes()) == 4
    assert invariants.at_rest(world) == []


def test_a_lost_node_is_kept_as_long_as_the_operation_runs_that_launched_it() -> None:
    world = make()
    identity = world.want("vc", a=2).operation_id
    world.step("launch", identity, 0)
    world.clock.advance(MINUTE)
    world.step("poll", identity, 1)
    lost, _ = world.nodes()
    world.ec2.end(lost.instance_id)
    for _ in range(2):
        world.clock.advance(MINUTE)
        world.reconcile()
    assert [node.status for node in world.nodes() if node.id == lost.id] == [NodeStatus.FAILED]
    world.step("finish", identity, 1)
    assert (world.operation(identity).succeeded, world.operation(identity).failed) == (1, 1)
    world.settle()
    assert [node.status for node in world.nodes()] == [NodeStatus.READY] * 2
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("interrupted", [False, True])
def test_what_ec2_tells_heals_at_once(interrupted: bool) -> None:
    world = World(nodearray("ondemand", bucket("c7i-large", templateId="a"), interruptible=True))
    world.ready(2)
    written = world.want("vc", a=2)
    gone = min(written.node_instances)
    [instance] = [node.instance_id for node in world.nodes() if node.id == gone]
    if interrupted:
        world.hear(interrupted=[instance])
    else:
        world.ec2.end(instance)
        world.clock.advance(10)
        world.hear(instance)
    left = world.held("vc")
    assert (size(left), gone in left.node_instances) == (1, False)
    assert left.unassigned() == {"a": 1}
    world.drive_all()
    assert size(world.held("vc")) == 2
    assert instance not in world.alive()
    actions = [one.action for one in world.repository.virtual_cluster_changes(VirtualClusterId("vc"), 9)]
    assert actions.count("NodesLost") == 1


def test_a_node_whose_instance_is_being_ended_serves_no_more_but_counts_until_it_is_gone() -> None:
    world = make(3, maxCount=3)
    written = world.claim("vc", a=1)
    [held] = written.node_instances
    free = next(node.id for node in world.nodes() if node.id != held)
    instances = [node.instance_id for node in world.nodes() if node.id in (held, free)]
    for instance in instances:
        world.ec2.end(instance)
    world.hear(*instances)
    repaired = world.held("vc")
    assert size(repaired) == 1
    assert {held, free}.isdisjoint(repaired.node_instances)
    with pytest.raises(InsufficientNodes):
        world.want("other", a=1)
    world.clock.advance(60)
    world.hear(*instances)
    assert world.want("other", a=2).unassigned() == {"a": 2}
    world.drive_all()
    assert invariants.at_rest(world) == []


def test_without_provision_it_waits_for_free_nodes() -> None:
    world = make(2)
    dead = min(world.claim("vc", a=2).node_instances)
    world.terminate(ids=[dead], force=True)
    pass_minutes(world, 3)
    assert (size(world.held("vc")), len(world.alive())) == (1, 1)
    world.ready(1)
    pass_minutes(world, 1)
    assert size(world.held("vc")) == 2


def test_keep_alive_holds_back_force_too() -> None:
    world = make()
    world.ready(1, nodeAttributes={"KeepAlive": True})
    world.claim("vc", a=1)
    _, [result] = world.terminate(filter='Status === "Ready"', force=True)
    assert result.error == "KeepAlive must be false"


def test_other_actions_that_take_a_node_away_need_force_as_well() -> None:
    world = make(2)
    world.claim("vc", a=2)
    for action in (Action.SHUTDOWN, Action.DEALLOCATE, Action.REIMAGE, Action.REMOVE):
        _, results = world.manage(action, filter='Status === "Ready"')
        assert ["holds the node" in one.error for one in results] == [True, True]
    _, results = world.manage(Action.REIMAGE, names=["ondemand-1"], force=True)
    assert [one.error for one in results] == [""]
    assert size(world.held("vc")) == 1


# Idle nodes.


def make_idle(**definition: Any) -> World:
    """A world whose free nodes end after ten minutes."""
    array = nodearray("ondemand", bucket("c7i-large", templateId="a"))
    return World(array, idleTimeoutSeconds=600, **definition)


def test_nodes_that_were_launched_for_a_virtual_cluster_end_once_they_have_been_free_for_long() -> None:
    world = make_idle()
    world.want("vc", a=3)
    world.drive_all()
    pass_minutes(world, 20)
    assert len(world.alive()) == 3
    world.want("vc", world.held("vc").revision, a=1)
    pass_minutes(world, 9)
    assert len(world.alive()) == 3
    pass_minutes(world, 3)
    assert [node.virtual_cluster for node in world.nodes()] == ["vc"]
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("how", ["shrunk", "deleted", "deleted and not given back"])
def test_nodes_that_a_virtual_cluster_gave_back_end_and_those_that_none_ever_had_do_not(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_idle()
    made = [*world.ready(3), *world.ready(1, nodeAttributes={"KeepAlive": True})]
    held = set(world.claim("vc", a=2).node_instances)
    if how == "shrunk":
        world.claim("vc", world.held("vc").revision)
    elif how == "deleted":
        world.release("vc")
    else:
        monkeypatch.setattr("paddock.virtual_clusters.write.release_claims", lambda *_: None)
        world.release("vc")
    pass_minutes(world, 9)
    assert len(world.alive()) == 4
    pass_minutes(world, 6)
    assert {node.id for node in world.nodes()} == {
        one.id for one in made if one.id not in held or one.keep_alive
    }
    assert all(node.status is NodeStatus.READY for node in world.nodes())
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("made", ["created", "scaled", "started", "retried"])
def test_nodes_that_no_virtual_cluster_ever_had_are_never_idle(made: str) -> None:
    world = make_idle()
    if made == "scaled":
        request = ScaleRequest.model_validate({"totalNodeCount": 2})
        scale_nodes(world.store, world.workflows, CLUSTER, "ondemand", request)
    elif made == "retried":
        world.ec2.capacity(0)
        world.ready(2)
        world.ec2.capacity(None)
        retry_failed(world.store, world.workflows, CLUSTER)
    else:
        world.ready(2)
    world.drive_all()
    if made == "started":
        for action in (Action.DEALLOCATE, Action.START):
            operation, _ = world.manage(action, filter='Template === "ondemand"')
            world.drive(operation)
    pass_minutes(world, 30)
    assert [node.status for node in world.nodes()] == [NodeStatus.READY] * 2
    assert len(world.alive()) == 2


def test_a_claim_that_came_to_nothing_does_not_make_a_node_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large virtual cluster claims nodes before its own record is written, which may fail then."""
    world = make_idle()
    world.ready(120)
    commit = world.repository.commit

    def lose(*writes: Write) -> None:
        written = [write.record for write in writes if isinstance(write, Put)]
        if any(isinstance(record, VirtualCluster) and not record.deleted for record in written):
            raise StoreThrottled("not now")
        commit(*writes)

    monkeypatch.setattr(world.repository, "commit", lose)
    with pytest.raises(StoreThrottled):
        world.claim("vc", a=120)
    monkeypatch.undo()
    assert sum(node.virtual_cluster == "vc" for node in world.nodes()) > 0
    pass_minutes(world, 30)
    assert len(world.alive()) == 120
    assert not any(node.virtual_cluster for node in world.nodes())


# History.


@pytest.mark.proves("GET /virtual_clusters/{virtualCluster}/history: 200")
def test_the_history_tells_who_changed_what_and_when() -> None:
    world = make(3)
    first = world.claim("vc", a=2)
    world.terminate(ids=[min(first.node_instances)], force=True)
    pass_minutes(world, 1)
    second = world.claim("vc", world.held("vc").revision, a=1)
    world.release("vc", second.revision)
    changes = world.repository.virtual_cluster_changes(VirtualClusterId("vc"), 10)
    told = [(one.action, one.by, one.nodes, one.added, one.removed) for one in changes]
    assert told == [
        ("Deleted", "tester", 0, 0, 1),
        ("Updated", "tester", 1, 0, 1),
        ("NodesJoined", "", 2, 1, 0),
        ("NodesLost", "", 1, 0, 1),
        ("Created", "tester", 2, 2, 0),
    ]
    assert all(later.previous == earlier.revision for later, earlier in pairwise(changes))


def test_a_history_that_is_no_longer_kept_is_empty_as_long_as_the_virtual_cluster_lives() -> None:
    world = make(1)
    world.claim("vc", a=1)
    world.forget(*world.repository.virtual_cluster_changes(VirtualClusterId("vc"), 9))
    assert virtual_cluster_history(world.repository, VirtualClusterId("vc"), 9, None) == ([], None)
    world.release("vc")
    world.forget(*world.repository.virtual_cluster_changes(VirtualClusterId("vc"), 9))
    with pytest.raises(NotFound):
        virtual_cluster_history(world.repository, VirtualClusterId("vc"), 9, None)


# What comes late.


def test_a_delete_that_read_a_launch_long_ago_does_not_write_its_nodes_again() -> None:
    world = make(maxCount=1)
    world.ec2.capacity(0)
    operation = world.operation(world.want("vc", a=1).operation_id)
    deleting = Actor(world, lambda view: view.release("vc", terminate=True))
    for _ in range(2):
        # It reads the virtual cluster, and the operation, which has launched nothing yet.
        deleting.go()
    world.drive(operation)
    assert world.nodes() == []
    while not deleting.has_ended:
        deleting.go()
    assert deleting.error is None
    assert world.nodes() == []
    world.settle()
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("dies", [False, True])
def test_a_virtual_cluster_that_is_made_again_keeps_what_its_predecessor_was_ending(
    dies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The delete dies before it has marked its nodes, or has no time to mark them."""
    world = make(4)
    world.claim("vc", a=2)
    if dies:
        deleting = Actor(world, lambda view: view.release("vc", terminate=True))
        while not deleting.has_ended:
            stored = world.repository.virtual_cluster(VirtualClusterId("vc"))
            assert stored is not None
            deleting.go(crash_before if stored.deleted else plainly)
    else:
        monkeypatch.setattr("paddock.nodes.manage.REQUEST_NS", 0)
        world.release("vc", terminate=True)
    again = world.claim("vc", a=2)
    world.settle()
    kept = world.held("vc")
    assert kept.node_instances == again.node_instances
    assert kept.condition.status
    assert invariants.at_rest(world) == []


def test_the_history_has_no_gap_where_a_node_is_lost_before_it_has_joined() -> None:
    world = make()
    identity = world.want("vc", a=1).operation_id
    world.step("launch", identity)
    world.clock.advance(MINUTE)
    polling = Actor(world, lambda view: view.step("poll", identity, 1))
    while not any(node.is_ready for node in world.nodes()):
        polling.go()
    polling.go(crash_before)
    [node] = world.nodes()
    world.ec2.end(node.instance_id)
    world.clock.advance(MINUTE)
    world.hear(node.instance_id)
    world.settle()
    changes = world.repository.virtual_cluster_changes(VirtualClusterId("vc"), 99)
    assert len(changes) > 2
    assert changes[0].revision == world.held("vc").revision
    assert all(later.previous == earlier.revision for later, earlier in pairwise(changes))


def test_a_busy_cluster_is_read_once_for_all_that_are_unmet(monkeypatch: pytest.MonkeyPatch) -> None:
    world = make(30, maxCount=30)
    big = world.claim("big", a=30)
    for number in range(10):
        one = VirtualCluster(
            id=VirtualClusterId(f"small-{number}"),
            cluster=CLUSTER,
            cluster_uid=big.cluster_uid,
            revision=1,
            replica_sets={"a": 1},
            retry_at=2**62,
        )
        world.plant(one)
    nodes, reads = world.repository.nodes, 0

    def counted(*given: Any) -> Any:
        nonlocal reads
        reads += 1
        return nodes(*given)

    monkeypatch.setattr(world.repository, "nodes", counted)
    reconcile_unsatisfied(world.store, world.workflows, CLUSTER)
    assert reads == 1
    monkeypatch.undo()
    world.release("big")
    reconcile_unsatisfied(world.store, world.workflows, CLUSTER)
    assert all(size(world.held(f"small-{number}")) == 1 for number in range(10))
