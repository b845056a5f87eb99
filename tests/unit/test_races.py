"""What happens between a use case's read and its write: the write must notice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import pytest

from paddock.clusters.write import delete_cluster
from paddock.errors import (
    Busy,
    DuplicateRequest,
    InsufficientNodes,
    InvalidRequest,
    NodesInUse,
    NotFound,
    RevisionConflict,
)
from paddock.model.identity import RequestId, VirtualClusterId
from paddock.model.node import Node, NodeStatus
from paddock.model.node_lifecycle import claimed_for
from paddock.ports.repository import Put
from paddock.reconcile.claims import release_stale_claims
from paddock.store.store import ATTEMPTS
from tests.fakes import invariants
from tests.fakes.actors import Actor, crash_before
from tests.fakes.transactions import make_transactions_small
from tests.fakes.world import CLUSTER, World, bucket, nodearray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paddock.model.cluster import Cluster
    from paddock.model.virtual_cluster import VirtualCluster
    from paddock.ports.repository import Write

# More calls to ports than a use case makes, and than it makes however often it begins anew.
USUAL_CALLS, ALL_CALLS = 9, 100
LARGE, XLARGE = "c7i-large", "c7i-xlarge"


def between(world: World, read: str, act: Callable[[], object], times: int = 1) -> None:
    """Let something happen right after the next reads of this kind, before their reader can write."""
    original = getattr(world.repository, read)
    left = [act] * times

    def slow(*arguments: object) -> object:
        found = original(*arguments)
        if left:
            now = left.pop()
            setattr(world.repository, read, original)
            now()
            setattr(world.repository, read, slow)
        return found

    setattr(world.repository, read, slow)


def stored(world: World) -> Cluster:
    cluster = world.repository.cluster(CLUSTER)
    assert cluster is not None
    return cluster


@pytest.fixture
def world() -> World:
    return World(nodearray("ondemand", bucket(LARGE), bucket(XLARGE)))


def test_a_create_does_not_use_a_definition_that_was_replaced_meanwhile(world: World) -> None:
    only_large = {"nodearrays": [nodearray("ondemand", bucket(LARGE))]}
    between(world, "ledger", lambda: world.put(only_large, stored(world).revision))
    with pytest.raises(InvalidRequest):
        world.create(1, definition={"machineType": XLARGE}, request_id="r")
    assert world.nodes() == []
    assert invariants.at_rest(world) == []


def test_a_create_does_not_pass_a_limit_that_was_lowered_meanwhile(world: World) -> None:
    lower = {"nodearrays": [nodearray("ondemand", bucket(LARGE), bucket(XLARGE))], "maxCount": 2}
    between(world, "ledger", lambda: world.put(lower, stored(world).revision))
    assert world.create(5)[1][0].count == 2
    assert invariants.always(world) == []


def test_creates_that_meet_do_not_pass_a_limit_nor_share_a_name() -> None:
    world = World(nodearray(maxCount=5))
    between(world, "ledger", lambda: world.create(3))
    assert world.create(3)[1][0].count == 2
    assert sorted(node.name for node in world.nodes()) == [f"ondemand-{n}" for n in range(1, 6)]
    assert invariants.always(world) == []


@pytest.mark.proves("20 requests at once: 20 nodes recorded, no instance leaked; ten of +1: exactly 10")
@pytest.mark.parametrize("count", [10, 20])
def test_creates_of_one_node_sent_at_one_time_add_and_launch_exactly_as_many(count: int) -> None:
    world = World()
    with ThreadPoolExecutor(count) as threads:
        made = list(threads.map(lambda number: world.create(1, request_id=f"r-{number}"), range(count)))
    assert [added[0].count for _, added in made] == [1] * count
    assert sorted(node.name for node in world.nodes()) == sorted(f"ondemand-{n + 1}" for n in range(count))
    world.drive_all()
    assert {node.status for node in world.nodes()} == {NodeStatus.READY}
    assert len(world.alive()) == count
    assert invariants.at_rest(world) == []


def test_a_request_id_that_was_used_meanwhile_is_noticed() -> None:
    world = World()
    between(world, "ledger", lambda: world.create(3, request_id="r"))
    with pytest.raises(DuplicateRequest):
        world.create(3, request_id="r")
    assert len(world.nodes()) == 3


def test_a_definition_does_not_lose_a_bucket_that_came_into_use_meanwhile(world: World) -> None:
    before = stored(world)
    between(world, "ledger", lambda: world.create(1, definition={"machineType": XLARGE}))
    with pytest.raises(NodesInUse):
        world.put({"nodearrays": [nodearray("ondemand", bucket(LARGE))]}, before.revision)
    assert stored(world) == before


def test_of_two_definitions_on_one_revision_the_second_is_refused(world: World) -> None:
    revision = stored(world).revision
    between(world, "ledger", lambda: world.put({"nodearrays": [], "maxCount": 1}, revision))
    with pytest.raises(RevisionConflict) as error:
        world.put({"nodearrays": [], "maxCount": 2}, revision)
    assert stored(world).definition.max_count == 1
    assert error.value.revision == stored(world).revision


def test_a_cluster_that_came_into_use_meanwhile_is_not_deleted(world: World) -> None:
    between(world, "ledger", lambda: world.create(1))
    with pytest.raises(NodesInUse):
        delete_cluster(world.store, CLUSTER, None)
    assert stored(world).name == CLUSTER
    world.drive_all()
    assert invariants.at_rest(world) == []


def test_nodes_are_not_created_in_a_cluster_that_was_deleted_meanwhile(world: World) -> None:
    between(world, "ledger", lambda: delete_cluster(world.store, CLUSTER, None))
    with pytest.raises(NotFound):
        world.create(1, request_id="r")
    assert world.repository.running_operations() == []
    assert world.nodes() == []


def test_nodes_taken_meanwhile_are_replaced_by_others() -> None:
    world = World()
    world.ready(4)
    between(world, "nodes", lambda: world.claim("other", x4c8g=2))
    assert len(world.claim("mine", x4c8g=2).node_instances) == 2
    assert invariants.at_rest(world) == []


def test_nodes_whose_end_is_wanted_meanwhile_are_not_handed_out() -> None:
    world = World()
    world.ready(2)
    between(world, "nodes", lambda: world.terminate(names=["ondemand-1"]))
    [held] = world.claim("mine", x4c8g=1).node_instances
    world.drive_all()
    assert [node.id for node in world.nodes()] == [held]
    assert invariants.at_rest(world) == []


def test_a_delete_gives_back_nodes_that_were_claimed_meanwhile() -> None:
    world = World()
    world.ready(3)
    first = world.claim("vc", x4c8g=1)
    between(world, "nodes_by_id", lambda: world.claim("vc", first.revision, x4c8g=3))
    world.release("vc")
    assert not any(node.virtual_cluster for node in world.nodes())
    assert invariants.at_rest(world) == []


def test_two_executions_that_see_an_instance_gone_give_its_limits_back_once() -> None:
    world = World(nodearray(maxCount=3))
    operation, _ = world.create(2)
    world.step("launch", operation.id)
    world.ec2.end(world.nodes()[0].instance_id)
    world.clock.advance(60)
    between(world, "ledger", lambda: world.step("poll", operation.id))
    world.step("poll", operation.id)
    world.drive(operation)
    assert sorted(node.status.value for node in world.nodes()) == ["Failed", "Ready"]
    assert invariants.at_rest(world) == []
    assert world.create(5)[1][0].count == 2


def test_whoever_loses_every_race_is_told_to_come_back_and_has_changed_nothing() -> None:
    world = World()
    between(world, "ledger", lambda: world.create(1), times=ATTEMPTS)
    with pytest.raises(Busy):
        world.create(5, request_id="r")
    assert len(world.nodes()) == ATTEMPTS
    assert world.repository.request(CLUSTER, RequestId("r")) is None


def meet_anywhere(
    prepare: Callable[[], World], first: Callable[[World], object], second: Callable[[World], object]
) -> Iterator[tuple[World, list[Actor], list[str]]]:
    """One stops after each number of calls, then the other does, then both go on to their ends."""
    for first_calls, second_calls in product(range(USUAL_CALLS), repeat=2):
        world = prepare()
        actors = [Actor(world, act) for act in (first, second)]
        broken = []
        for actor, calls in zip(actors * 2, (first_calls, second_calls, ALL_CALLS, ALL_CALLS), strict=True):
            for _ in range(calls):
                if not actor.has_ended:
                    actor.go()
                    broken += invariants.always(world)
        yield world, actors, broken


def five_ready(held: int = 0) -> World:
    world = World()
    world.ready(5)
    if held:
        world.claim("vc", x4c8g=held)
    return world


def test_two_writers_on_one_revision_who_meet_anywhere_leave_one_whole_virtual_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # So the first nodes are claimed before the virtual cluster's own record is written.
    make_transactions_small(monkeypatch, 4)

    def write(world: World) -> VirtualCluster:
        return world.claim("vc", x4c8g=4)

    for world, actors, broken in meet_anywhere(five_ready, write, write):
        assert broken == []
        assert [type(actor.error) for actor in actors if actor.error] == [RevisionConflict]
        assert [actor.answer for actor in actors if not actor.error] == [world.held("vc")]


@pytest.mark.parametrize("held", [0, 1])
def test_nodes_that_die_while_they_are_claimed_are_not_handed_out(
    monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    make_transactions_small(monkeypatch, 4)

    def write(world: World) -> None:
        stored = world.repository.virtual_cluster(VirtualClusterId("vc"))
        world.claim("vc", stored.revision if stored else None, x4c8g=5)

    def end(world: World) -> None:
        stored = world.repository.virtual_cluster(VirtualClusterId("vc"))
        confirmed = stored.held_ids() if stored else set()
        claimed = [node.id for node in world.nodes() if node.virtual_cluster and node.id not in confirmed]
        if claimed:
            world.terminate(ids=claimed, force=True)

    for world, _, broken in meet_anywhere(partial(five_ready, held), write, end):
        assert broken == []
        assert all(node.is_ready for node in world.nodes() if node.virtual_cluster)


def test_a_claim_is_not_taken_for_stale_while_its_writer_may_live(monkeypatch: pytest.MonkeyPatch) -> None:
    make_transactions_small(monkeypatch, 4)
    for calls in range(USUAL_CALLS):
        world = World()
        world.ready(5)
        writer = Actor(world, lambda world: world.claim("vc", x4c8g=5))
        for _ in range(calls):
            if not writer.has_ended:
                writer.go()
        # Lambda lets a request live for less than that.
        world.clock.advance(30)
        world.reconcile()
        while not writer.has_ended:
            writer.go()
        assert len(world.held("vc").node_instances) == 5
        assert invariants.at_rest(world) == []


@pytest.mark.parametrize("most", [4, 100], ids=["before the record", "with the record"])
def test_a_stale_claim_that_is_taken_over_is_not_given_back(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    make_transactions_small(monkeypatch, most)

    def stale() -> World:
        world = five_ready()
        world.claim("vc")
        leave_claims(world, "vc")
        return world

    def claim_all(world: World) -> None:
        with suppress(RevisionConflict):
            world.claim("vc", world.held("vc").revision, x4c8g=5)
            return
        world.claim("vc", world.held("vc").revision, x4c8g=5)

    def release(world: World) -> None:
        release_stale_claims(world.store, world.nodes())

    for world, _, broken in meet_anywhere(stale, claim_all, release):
        assert broken == []
        assert len(world.held("vc").node_instances) == 5


def leave_claims(world: World, name: str) -> None:
    """As a writer does that has died, longer ago than any may live."""
    now = world.clock.now()
    uid = world.held(name).uid
    world.store.commit_each(
        [Put(claimed_for(node, VirtualClusterId(name), uid, now), was=node) for node in world.nodes()]
    )
    world.clock.advance(200)


def test_a_writer_that_loses_gives_back_what_it_had_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    make_transactions_small(monkeypatch, 4)
    world = five_ready()
    writer = Actor(world, lambda world: world.claim("vc", x4c8g=5))
    while not any(node.virtual_cluster for node in world.nodes()):
        writer.go()
    world.terminate(names=[node.name for node in world.nodes() if not node.virtual_cluster])
    while not writer.has_ended:
        writer.go()
    assert isinstance(writer.error, InsufficientNodes)
    assert not any(node.virtual_cluster for node in world.nodes())


def test_a_delete_ends_no_node_that_another_has_claimed_since() -> None:
    world = five_ready(5)
    dying = Actor(world, lambda world: world.release("vc", terminate=True))
    while world.repository.virtual_clusters()[0]:
        dying.go()
    dying.go(crash_before)
    world.clock.advance(200)
    release_stale_claims(world.store, world.nodes())
    world.claim("other", x4c8g=5)
    world.settle()
    assert len(world.held("other").node_instances) == len(world.alive()) == 5
    assert invariants.at_rest(world) == []


def test_where_each_attempt_takes_long_the_loser_is_told_before_its_time_is_up() -> None:
    """A function that is cut off at 28 seconds tells its client nothing."""
    world = World()

    def another() -> None:
        world.create(1)
        world.clock.advance(6)

    between(world, "ledger", another, times=ATTEMPTS)
    began = world.clock.seconds()
    with pytest.raises(Busy):
        world.create(5, request_id="r")
    assert world.clock.seconds() - began < 20


def test_a_loser_of_many_nodes_looks_at_each_of_them_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    nodes = world.ready(600)
    commit, compare = world.repository.commit, Node.__eq__
    compared = 0

    def counting(one: Node, other: object) -> bool:
        nonlocal compared
        compared += 1
        return compare(one, other)

    def overtaken(*writes: Write) -> None:
        if len(writes) > 50:
            monkeypatch.undo()
            for node in nodes:
                world.store.commit(
                    Put(claimed_for(node, VirtualClusterId("fast"), "fast", world.clock.now()), was=node)
                )
            monkeypatch.setattr(Node, "__eq__", counting)
        commit(*writes)

    monkeypatch.setattr(world.repository, "commit", overtaken)
    with pytest.raises((Busy, InsufficientNodes)):
        world.claim("slow", x4c8g=590)
    assert 0 < compared < 100 * len(nodes)
