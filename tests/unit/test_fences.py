"""Nothing that was removed comes back, however long a writer sleeps and however far clocks are apart."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from paddock.errors import NotFound
from paddock.model.node import NodeStatus
from paddock.model.operation import Action
from paddock.ports.repository import Put
from paddock.service.claims import Change, commit_change
from paddock.service.clusters import delete_cluster
from paddock.service.contention import ATTEMPTS
from paddock.service.operations import find_operation
from paddock.service.read_nodes import list_nodes
from tests.fakes import invariants
from tests.fakes.actors import Actor, crash_before
from tests.fakes.transactions import make_transactions_small
from tests.fakes.world import CLUSTER, World, nodearray

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.model.node import Node
    from paddock.model.operation import Operation

HOURS = 3_600
OFF = {"StartAutomatically": False}


@pytest.fixture(autouse=True)
def _small_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    make_transactions_small(monkeypatch)


def unheard(world: World, act: Callable[[], tuple[Operation, object]]) -> Operation:
    """Record an operation whose workflow could not be started."""
    world.workflows.unavailable = True
    operation, _ = act()
    world.workflows.unavailable = False
    return operation


def names(world: World) -> list[str]:
    return [node.name for node in world.nodes()]


# Records of nodes.


def test_a_node_that_was_removed_before_its_creates_workflow_began_stays_away() -> None:
    """StartExecution was throttled; the node was started, ended, and its name given to another meanwhile."""
    world = World()
    late = unheard(world, lambda: world.create(1, nodeAttributes=OFF))
    world.drive(world.manage(Action.START, names=["ondemand-1"])[0])
    world.drive(world.terminate(names=["ondemand-1"])[0])
    [bearer] = world.ready(1)
    assert bearer.name == "ondemand-1"
    world.drive(late)
    assert world.nodes() == [bearer]
    assert invariants.at_rest(world) == []
    world.settle()
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("ahead_seconds", [0, 5 * HOURS, -5 * HOURS])
@pytest.mark.parametrize("calls", range(4, 12))
def test_a_request_that_sleeps_while_its_nodes_are_removed_writes_them_no_more(
    calls: int, ahead_seconds: float
) -> None:
    world = World(nodearray(maxCount=12))
    request = Actor(world, lambda world: world.create(12), ahead_seconds)
    for _ in range(calls):
        if not request.has_ended:
            request.go()
    world.clock.advance(3 * HOURS)
    world.settle()
    world.drive(world.terminate(filter='Template === "ondemand"')[0])
    request.finish()
    assert world.nodes() == []
    world.settle()
    assert world.nodes() == []
    assert world.alive() == set()
    assert invariants.at_rest(world) == []


def test_nodes_of_a_create_that_is_half_written_can_be_started_ended_and_forgotten() -> None:
    """A request dies after its first nodes; what is taken hold of of these leaves the others their turn."""
    world = World()
    request = Actor(world, lambda world: world.create(20, nodeAttributes=OFF | {"Fixed": True}))
    while not world.nodes():
        request.go()
    request.go(crash_before)
    some = len(world.nodes())
    assert some < 20
    world.drive(world.manage(Action.START, names=["ondemand-1", "ondemand-2"])[0])
    world.drive(world.manage(Action.REMOVE, names=["ondemand-1"])[0])
    assert len(world.nodes()) == 19
    world.settle()
    statuses = [node.status for node in world.nodes()]
    assert (statuses.count(NodeStatus.READY), statuses.count(NodeStatus.OFF)) == (1, 18)
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("refused", [False, True], ids=["launched", "without capacity"])
def test_what_was_launched_and_removed_is_not_written_again_by_its_request(*, refused: bool) -> None:
    """The workflow runs while the request still sleeps before it writes the last nodes."""
    world = World(nodearray(maxCount=6))
    request = Actor(world, lambda world: world.create(6))
    while len(world.nodes()) < 2:
        request.go()
    [operation] = invariants.operations(world)
    if refused:
        world.ec2.capacity(2)
    world.step("launch", operation.id)
    assert invariants.always(world) == []
    world.drive(operation)
    world.drive(world.terminate(filter='Template === "ondemand"')[0])
    assert world.nodes() == []
    request.finish()
    assert world.nodes() == []
    world.settle()
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("calls", range(2, 9))
def test_a_recording_task_that_sleeps_writes_no_node_that_was_removed_meanwhile(calls: int) -> None:
    world = World()
    late = unheard(world, lambda: world.create(8, nodeAttributes=OFF))
    # As after a request that was cut off.
    world.forget(*world.nodes()[4:])
    task = Actor(world, lambda world: world.step("launch", late.id))
    for _ in range(calls):
        if not task.has_ended:
            task.go()
    removed = {node.id for node in world.nodes()}
    world.drive(world.manage(Action.REMOVE, names=names(world))[0])
    world.clock.advance(HOURS)
    task.finish()
    world.settle()
    assert not removed & {node.id for node in world.nodes()}
    assert len(removed) + len(world.nodes()) == 8
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("calls", range(1, 9))
def test_a_recording_task_that_sleeps_writes_none_that_another_has_recorded_and_removed(calls: int) -> None:
    """It has read that some nodes are missing, and that the create may lack them, before it falls asleep."""
    world = World()
    late = unheard(world, lambda: world.create(8, nodeAttributes=OFF))
    world.forget(*world.nodes()[4:])
    task = Actor(world, lambda world: world.step("launch", late.id))
    for _ in range(calls):
        if not task.has_ended:
            task.go()
    # The second time, those that the first removal has recorded.
    for _ in range(2):
        world.drive(world.manage(Action.START, names=names(world))[0])
        world.drive(world.manage(Action.REMOVE, names=names(world))[0])
    assert world.nodes() == []
    task.finish()
    assert world.nodes() == []
    world.settle()
    assert world.nodes() == []
    assert invariants.at_rest(world) == []


# Launches.


def test_a_launch_that_sleeps_until_its_operation_has_ended_gives_no_node_an_instance() -> None:
    world = World(nodearray(maxCount=2))
    operation, _ = world.create(2)
    task = Actor(world, lambda world: world.step("launch", operation.id))
    while world.operation(operation.id).batch is None:
        task.go()
    world.clock.advance(5 * HOURS)
    world.reconcile()
    assert not world.operation(operation.id).is_running
    assert {node.status for node in world.nodes()} == {NodeStatus.FAILED}
    while not world.alive():
        task.go()
    task.finish()
    assert not any(node.instance_id or node.counted for node in world.nodes())
    world.clock.advance(HOURS)
    world.settle()
    assert world.alive() == set()
    assert invariants.at_rest(world) == []


# Claims.


@pytest.mark.parametrize("ahead_seconds", [0, 90, 5 * HOURS, -5 * HOURS])
@pytest.mark.parametrize("held", [0, 1])
def test_a_writer_whose_claims_were_given_back_does_not_commit(held: int, ahead_seconds: float) -> None:
    world = World()
    world.ready(12)
    stored = world.claim("slow", x4c8g=held) if held else None
    revision = stored.revision if stored else None
    writer = Actor(world, lambda world: world.claim("slow", revision, x4c8g=10), ahead_seconds)
    while sum(bool(node.virtual_cluster) for node in world.nodes()) <= held:
        writer.go()
    # Beyond what clocks are apart, the grace of claims, and the memory of deleted virtual clusters.
    for _ in range(4):
        world.clock.advance(13 * HOURS)
        world.reconcile()
    forget_tombstones(world)
    assert sum(bool(node.virtual_cluster) for node in world.nodes()) == held
    world.claim("fast", x4c8g=10)
    writer.finish()
    assert writer.error is not None
    assert invariants.always(world) == []
    assert len(world.held("fast").node_instances) == 10


@pytest.mark.parametrize("held", [0, 1])
def test_a_writer_does_not_commit_where_another_has_just_those_nodes_that_it_claimed_early(held: int) -> None:
    """What it claims with its commit is still free, so the record that it names is all that can stop it."""
    world = World()
    world.ready(30)
    stored = world.claim("slow", x4c8g=held) if held else None
    writer = Actor(
        world, lambda world: world.claim("slow", stored.revision if stored else None, x4c8g=10 + held)
    )
    has = stored.held_ids() if stored else set()
    while not (early := [one for one in world.nodes() if one.virtual_cluster and one.id not in has]):
        writer.go()
    world.clock.advance(HOURS)
    world.reconcile()
    free = [node for node in world.nodes() if node.id in {one.id for one in early}]
    assert [node.virtual_cluster for node in free] == [""] * len(early)
    other = world.claim("fast")
    after = replace(other, replica_sets={early[0].template_id: len(free)}).with_nodes(free)
    commit_change(
        world.repository, world.clock, other, Change(after=after, claimed=free, action="Updated", by="fast")
    )
    writer.finish()
    assert writer.error is not None
    assert invariants.always(world) == []
    assert world.held("fast").node_instances.keys() == {node.id for node in free}


def forget_tombstones(world: World) -> None:
    """As DynamoDB does once they have expired."""
    for name in ("slow", "fast"):
        stored = world.repository.virtual_cluster(name)
        if stored is not None and stored.deleted and stored.expires_at < world.clock.now():
            world.forget(stored)


def corrupt(world: World, node: Node, name: str) -> None:
    changed = replace(node, virtual_cluster=name, virtual_cluster_uid=name, revision=node.revision + 1)
    world.repository.commit(Put(changed, was=node))


@pytest.mark.parametrize("how", ["gone", "another's", "nobody's"])
def test_members_that_are_not_its_own_leave_a_virtual_cluster_and_the_history_says_why(how: str) -> None:
    world = World()
    world.ready(4)
    before = world.claim("a", x4c8g=3)
    other = world.claim("b", x4c8g=1)
    lost = world.repository.nodes_by_id(CLUSTER, [next(iter(before.node_instances))])[0]
    if how == "gone":
        world.forget(lost)
    elif how == "nobody's":
        corrupt(world, lost, "")
    else:
        corrupt(world, lost, other.id)
    world.reconcile()
    after = world.held("a")
    assert after.revision > before.revision
    assert lost.id not in after.node_instances
    told, *_ = world.repository.virtual_cluster_changes("a", 1)
    assert (told.action, told.removed) == ("NodesLost", 1)
    assert lost.id in told.message
    world.settle()
    assert invariants.always(world) == []


# Names.


def test_of_two_nodes_that_bear_one_name_the_one_without_instance_goes() -> None:
    world = World()
    [node] = world.ready(1)
    ghost = unheard(world, lambda: world.create(1, nodeAttributes=OFF))
    [other] = world.repository.nodes_made_by(ghost)
    named = replace(other, name=node.name, revision=other.revision + 1)
    world.repository.commit(Put(named, was=other))
    world.settle()
    assert [(one.id, one.name) for one in world.nodes()] == [(node.id, "ondemand-1")]
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("claimed", [0, 1])
def test_of_two_running_nodes_that_bear_one_name_one_gets_a_free_one(claimed: int) -> None:
    """The one in a virtual cluster keeps it; else the older."""
    world = World()
    first, second = world.ready(2)
    if claimed:
        world.claim("a", x4c8g=2)
        [first] = world.repository.nodes_by_id(CLUSTER, [first.id])
        world.release("a")
        world.claim("a", x4c8g=1)
        first, second = world.nodes()
    named = replace(second, name=first.name, revision=second.revision + 1)
    world.repository.commit(Put(named, was=second))
    world.clock.advance(600)
    world.settle()
    keeper = next((one for one in world.nodes() if one.virtual_cluster), first)
    assert {one.id: one.name for one in world.nodes()}[keeper.id] == "ondemand-1"
    # Its own is on record as taken until the ledger is mended.
    assert sorted(names(world)) == ["ondemand-1", "ondemand-3"]
    assert len(world.alive()) == 2
    assert invariants.at_rest(world) == []


# Lost races.


def test_a_race_that_the_reconciler_lost_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.ready(3)
    claimed = world.repository.virtual_cluster

    def overtaken(name: str) -> object:
        found = claimed(name)
        if found is not None and not found.deleted:
            again = replace(found, revision=found.revision + 1)
            world.repository.commit(Put(again, was=found))
        return found

    world.want("a", x4c8g=4)
    world.drive_all()
    for node in world.nodes():
        world.ec2.end(node.instance_id)
    world.clock.advance(60)
    world.repository.virtual_cluster = overtaken  # type: ignore[assignment,method-assign]
    with caplog.at_level(logging.INFO):
        report = world.reconcile()
    assert report.failed == 0
    assert [record.message for record in caplog.records if record.exc_info] == []
    assert "changed meanwhile" in {record.message for record in caplog.records}
    assert ATTEMPTS > 1


# Names that are used again.


def again(world: World) -> None:
    """Another cluster of the same name."""
    delete_cluster(world.repository, world.clock, CLUSTER, None)
    world.put({"nodearrays": [nodearray()]})


def test_a_cluster_that_is_made_again_knows_nothing_of_its_predecessors_requests() -> None:
    world = World()
    created = world.drive(world.create(1, request_id="r")[0])
    ended = world.drive(world.terminate(names=["ondemand-1"], requestId="q")[0])
    again(world)
    for operation in (created, ended):
        with pytest.raises(NotFound):
            list_nodes(world.repository, CLUSTER, operation.id, None)
        with pytest.raises(NotFound):
            list_nodes(world.repository, CLUSTER, None, operation.request_id)
        assert find_operation(world.repository, operation.request_id) is None
    operation, added = world.create(2, request_id="r")
    assert [line.count for line in added] == [2]
    world.drive(operation)
    terminated, _ = world.terminate(names=["ondemand-1"], requestId="q")
    assert list_nodes(world.repository, CLUSTER, None, "r")[1] == world.operation(operation.id)
    assert list_nodes(world.repository, CLUSTER, None, "q")[1] == world.operation(terminated.id)
    world.settle()
    assert invariants.at_rest(world) == []


def test_a_request_to_the_predecessor_takes_no_request_id_from_the_successor() -> None:
    for calls in range(1, 8):
        world = World()
        world.drive(world.create(1)[0])
        late = Actor(world, lambda world: world.terminate(names=["ondemand-1"], requestId="r"))
        for _ in range(calls):
            if not late.has_ended:
                late.go()
        world.drive_all()
        if world.nodes():
            world.drive(world.terminate(names=["ondemand-1"])[0])
        again(world)
        mine, _ = world.create(1, request_id="r")
        late.finish()
        found = list_nodes(world.repository, CLUSTER, None, "r")[1]
        assert found is not None
        assert found.id == mine.id
        world.settle()
        assert len(world.alive()) == 1
        assert invariants.at_rest(world) == []


@pytest.mark.parametrize("task", ["launch", "poll", "finish"])
def test_a_late_task_of_the_predecessor_writes_nothing_into_its_successor(task: str) -> None:
    for calls in range(12):
        world = World()
        operation, _ = world.create(2)
        world.step("launch", operation.id)
        late = Actor(world, partial(World.step, name=task, operation_id=operation.id))
        for _ in range(calls):
            if not late.has_ended:
                late.go()
        world.drive(world.terminate(names=names(world))[0])
        again(world)
        [node] = world.ready(1)
        world.clock.advance(HOURS)
        late.finish()
        assert world.nodes() == [node]
        world.settle()
        assert world.nodes() == [node]
        assert world.alive() == {node.instance_id}
        assert invariants.at_rest(world) == []


def test_a_virtual_cluster_of_a_deleted_cluster_takes_nothing_from_its_successor() -> None:
    world = World()
    unmet = replace(world.claim("a"), replica_sets={"4c8g": 2}, provision=True)
    unmet = replace(unmet, revision=unmet.revision + 1)
    again(world)
    world.repository.commit(Put(unmet, was=world.held("a")))
    world.ready(1)
    for _ in range(30):
        world.clock.advance(60)
        world.reconcile()
        world.drive_all()
    assert [node.virtual_cluster for node in world.nodes()] == [""]
    assert not world.held("a").held_ids()
    assert "another has its name" in world.held("a").condition.message
    # Its owner says that it shall have nodes of the cluster that there is now.
    world.want("a", world.held("a").revision, x4c8g=2)
    world.settle()
    assert len(world.held("a").node_instances) == 2
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("ahead_seconds", [0, 5 * HOURS, -5 * HOURS])
@pytest.mark.parametrize("terminate", [False, True])
def test_a_virtual_cluster_that_is_made_again_gets_nothing_of_its_predecessor(
    ahead_seconds: float, *, terminate: bool
) -> None:
    """Neither its nodes on their way, nor an end of its nodes by the predecessor's deletion."""
    world = World()
    first = world.want("a", x4c8g=2)
    dying = Actor(world, lambda world: world.release("a", terminate=terminate), ahead_seconds)
    while world.repository.virtual_clusters()[0]:
        dying.go()
    second = world.want("a", x4c8g=3)
    assert second.uid != first.uid
    assert not second.held_ids() & first.held_ids()
    world.clock.advance(HOURS / 4)
    world.drive_all()
    world.clock.advance(10 * HOURS)
    dying.finish()
    world.settle()
    held = world.held("a").node_instances.keys()
    assert len(held) == 3
    assert not held & first.held_ids()
    assert len(world.alive()) == (3 if terminate else 5)
    assert invariants.at_rest(world) == []
