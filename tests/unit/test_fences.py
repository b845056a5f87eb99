"""Nothing that was removed comes back, however long a writer sleeps and however far clocks are apart."""

from __future__ import annotations

import logging
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from paddock.clusters.write import delete_cluster
from paddock.errors import DuplicateRequest, InsufficientNodes, NotFound
from paddock.model.identity import RequestId, VirtualClusterId
from paddock.model.node import NodeStatus
from paddock.model.node_lifecycle import failed, given_back
from paddock.model.operation import Action, Operation
from paddock.nodes.read import list_nodes
from paddock.operations.read import find_operation
from paddock.ports.repository import Put
from paddock.store.release import forget_failed
from paddock.store.store import ATTEMPTS
from paddock.virtual_clusters.claims import Change, commit_change
from tests.fakes import invariants
from tests.fakes.actors import Actor, crash_before
from tests.fakes.transactions import make_transactions_small
from tests.fakes.world import CLUSTER, World, nodearray

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.model.node import Node

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


def test_a_node_that_failed_is_forgotten_only_once_its_create_is_on_record() -> None:
    world = World()
    late = unheard(world, lambda: world.create(2))
    first, second = world.nodes()
    world.store.commit(Put(failed(first, "lost"), was=first))
    right = world.repository.ledger(CLUSTER)
    assert right is not None
    uncounted = right.without_active([first])
    world.store.commit(Put(uncounted, was=right))
    world.forget(second)
    forget_failed(world.store, CLUSTER, [first.id])
    assert [node.id for node in world.nodes()] == [second.id]
    world.drive(late)
    assert [node.id for node in world.nodes()] == [second.id]
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
    assert not any(node.instance_id or node.uses_limits for node in world.nodes())
    world.clock.advance(HOURS)
    world.settle()
    assert world.alive() == set()
    assert invariants.at_rest(world) == []


def test_a_node_that_gets_its_instance_after_it_was_judged_to_have_none_is_not_removed() -> None:
    """Its create has ended, and so the end of the node waits for no launch; then the launch wakes up."""
    world = World(nodearray(maxCount=1))
    operation, _ = world.create(1)
    launching = Actor(world, lambda world: world.step("launch", operation.id))
    while world.operation(operation.id).batch is None:
        launching.go()
    world.clock.advance(HOURS)
    ending, _ = world.terminate(names=["ondemand-1"])
    world.step("finish", operation.id)
    assert not world.operation(operation.id).is_running
    removing = Actor(world, lambda world: world.step("poll", ending.id))
    while removing.next_call != ("repository", "ledger"):
        removing.go()
    launching.finish()
    removing.finish()
    assert {node.instance_id for node in world.nodes()} == world.alive() != set()
    world.settle()
    assert world.nodes() == []
    assert world.alive() == set()
    assert invariants.at_rest(world) == []


def test_a_launch_that_sleeps_gives_nothing_to_a_node_that_another_operation_launches_by_then() -> None:
    """The other one's own call brings the node its instance; the first one's are nobody's, and end."""
    world = World(nodearray(maxCount=2))
    operation, _ = world.create(2)
    task = Actor(world, lambda world: world.step("launch", operation.id))
    while world.operation(operation.id).batch is None:
        task.go()
    world.clock.advance(5 * HOURS)
    world.reconcile()
    again, _ = world.manage(Action.START, names=["ondemand-1", "ondemand-2"])
    task.finish()
    assert [(node.launching_operation_id, node.uses_limits, node.instance_id) for node in world.nodes()] == [
        (again.id, True, "")
    ] * 2
    world.drive(again)
    assert {node.status for node in world.nodes()} == {NodeStatus.READY}
    world.clock.advance(HOURS)
    world.settle()
    assert world.alive() == {node.instance_id for node in world.nodes()}
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
    commit_change(world.store, other, Change(after=after, claimed=free, action="Updated", by="fast"))
    writer.finish()
    assert writer.error is not None
    assert invariants.always(world) == []
    assert world.held("fast").node_instances.keys() == {node.id for node in free}


def forget_tombstones(world: World) -> None:
    """As DynamoDB does once they have expired."""
    for name in ("slow", "fast"):
        stored = world.repository.virtual_cluster(VirtualClusterId(name))
        if stored is not None and stored.deleted and stored.expires_at < world.clock.now():
            world.forget(stored)


def corrupt(world: World, node: Node, name: str) -> None:
    changed = replace(node, virtual_cluster=VirtualClusterId(name), virtual_cluster_uid=name)
    world.store.commit(Put(changed, was=node))


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
    told, *_ = world.repository.virtual_cluster_changes(VirtualClusterId("a"), 1)
    assert (told.action, told.removed) == ("NodesLost", 1)
    assert lost.id in told.message
    world.settle()
    assert invariants.always(world) == []


def test_a_virtual_cluster_that_no_node_knows_of_is_emptied_though_it_lacks_none() -> None:
    world = World()
    world.ready(2)
    world.claim("a", x4c8g=2)
    for node in world.nodes():
        corrupt(world, node, "")
    assert world.reconcile().mended == 2
    assert world.held("a").node_instances == {}
    world.settle()
    assert len(world.held("a").node_instances) == 2
    assert invariants.at_rest(world) == []


# Names.


def test_of_two_nodes_that_bear_one_name_the_one_without_instance_goes() -> None:
    world = World()
    [node] = world.ready(1)
    ghost = unheard(world, lambda: world.create(1, nodeAttributes=OFF))
    [other] = world.repository.nodes_made_by(ghost)
    named = replace(other, name=node.name)
    world.store.commit(Put(named, was=other))
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
    named = replace(second, name=first.name)
    world.store.commit(Put(named, was=second))
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

    def overtaken(name: VirtualClusterId) -> object:
        found = claimed(name)
        if found is not None and not found.deleted:
            world.store.commit(Put(found, was=found))
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
    delete_cluster(world.store, CLUSTER, None)
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
    assert list_nodes(world.repository, CLUSTER, None, RequestId("r"))[1] == world.operation(operation.id)
    assert list_nodes(world.repository, CLUSTER, None, RequestId("q"))[1] == world.operation(terminated.id)
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
        found = list_nodes(world.repository, CLUSTER, None, RequestId("r"))[1]
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
    unsatisfied = replace(world.claim("a"), replica_sets={"4c8g": 2}, provision=True)
    again(world)
    world.store.commit(Put(unsatisfied, was=world.held("a")))
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


def test_nodes_that_end_with_a_virtual_cluster_are_not_free_for_the_next_one_of_its_id() -> None:
    world = World()
    world.ready(2)
    world.claim("a", x4c8g=2)
    dying = Actor(world, lambda world: world.release("a", terminate=True))
    while world.repository.virtual_clusters()[0]:
        dying.go()
    dying.go(crash_before)
    with pytest.raises(InsufficientNodes):
        world.claim("a", x4c8g=2)
    world.settle()
    assert world.nodes() == []
    assert world.alive() == set()
    assert invariants.at_rest(world) == []


# Records that were written before clusters and virtual clusters had uids.


def as_written_before(world: World) -> World:
    """Take the uids out of every record."""
    uids = {"uid", "cluster_uid", "virtual_cluster_uid"}
    for record in [*world.repository._records.values()]:
        old = {field.name: "" for field in fields(record) if field.name in uids}
        if isinstance(record, Operation):
            groups = tuple(replace(group, virtual_cluster_uid="") for group in record.groups)
            old |= {"groups": groups}  # type: ignore[dict-item]
        world.forget(record)
        world.plant(replace(record, **old))  # type: ignore[arg-type]
    return world


def test_what_was_written_before_goes_on_as_it_was() -> None:
    world = World()
    operation = world.drive(world.create(2, request_id="r")[0])
    world.want("a", x4c8g=3)
    as_written_before(world).settle()
    assert len(world.held("a").node_instances) == 3
    world.ec2.end(world.nodes()[0].instance_id)
    world.clock.advance(HOURS)
    world.settle()
    assert len(world.held("a").node_instances) == 3
    for found in (
        list_nodes(world.repository, CLUSTER, operation.id, None),
        list_nodes(world.repository, CLUSTER, None, RequestId("r")),
    ):
        assert found[1] == world.operation(operation.id)
    assert find_operation(world.repository, RequestId("r")) is not None
    with pytest.raises(DuplicateRequest):
        world.create(1, request_id="r")
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("has_begun", [False, True])
def test_the_nodes_of_a_virtual_cluster_that_was_written_before_end_with_it(*, has_begun: bool) -> None:
    world = World()
    world.ready(3)
    world.claim("a", x4c8g=2)
    if has_begun:
        request = Actor(world, lambda world: world.release("a", terminate=True))
        while world.repository.virtual_clusters()[0]:
            request.go()
        request.go(crash_before)
        [ending] = [one for one in invariants.operations(world) if one.action is Action.TERMINATE]
        # Operations named the virtual cluster's id then.
        world.forget(ending)
        world.plant(replace(ending, takes_from="a"))
        as_written_before(world)
    else:
        as_written_before(world)
        world.release("a", terminate=True)
    world.settle()
    assert len(world.nodes()) == 1
    assert len(world.alive()) == 1
    assert invariants.at_rest(world) == []


def test_what_was_written_before_gets_nothing_of_what_bears_the_name_later() -> None:
    world = World()
    world.drive(world.create(1, request_id="r")[0])
    world.drive(world.terminate(names=["ondemand-1"])[0])
    unsatisfied = replace(world.claim("a"), replica_sets={"4c8g": 2}, provision=True)
    world.store.commit(Put(unsatisfied, was=world.held("a")))
    as_written_before(world)
    again(world)
    world.ready(2)
    for _ in range(30):
        world.clock.advance(60)
        world.reconcile()
        world.drive_all()
    assert not world.held("a").held_ids()
    assert [node.virtual_cluster for node in world.nodes()] == ["", ""]
    with pytest.raises(NotFound):
        list_nodes(world.repository, CLUSTER, None, RequestId("r"))
    # Nor does a deletion that sleeps end the nodes of a virtual cluster of the same id.
    world.want("a", world.held("a").revision, x4c8g=2)
    world.settle()
    as_written_before(world)
    dying = Actor(world, lambda world: world.release("a", terminate=True))
    while world.repository.virtual_clusters()[0]:
        dying.go()
    for node in world.nodes():
        [current] = world.repository.nodes_by_id(CLUSTER, [node.id])
        world.store.commit(Put(given_back(current, world.clock.now()), was=current))
    world.claim("a", x4c8g=2)
    dying.finish()
    world.settle()
    assert len(world.held("a").node_instances) == 2
    assert len(world.alive()) == 2
    assert invariants.at_rest(world) == []
