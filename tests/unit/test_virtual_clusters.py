"""Virtual clusters: named claims on nodes, changed whole or not at all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.errors import (
    ImmutableAttribute,
    InsufficientNodes,
    InvalidRequest,
    NotFound,
    PaddockError,
    RevisionConflict,
    StoreThrottled,
    StoreUnavailable,
)
from paddock.model.identity import VirtualClusterId
from paddock.model.node import NodeStatus
from paddock.model.node_lifecycle import failed
from paddock.model.virtual_cluster import AllocationMode, VirtualCluster
from paddock.store.release import write_verdicts
from paddock.virtual_clusters.write import get_virtual_cluster
from tests.fakes import invariants
from tests.fakes.world import CLUSTER, World, bucket, nodearray

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from paddock.model.identity import NodeId
    from paddock.ports.repository import Write

Error = TypeVar("Error", bound=PaddockError)


A, B = {"machineType": "c7i-large"}, {"machineType": "c7i-xlarge"}


@pytest.fixture
def world() -> World:
    """Four ready nodes of type ``a``, named ``ondemand-1`` to ``-4``, and two of type ``b``, the youngest."""
    return make(4, 2)


def make(*counts: int) -> World:
    machines = zip("ab", (A["machineType"], B["machineType"]), strict=True)
    world = World(nodearray("ondemand", *(bucket(machine, templateId=name) for name, machine in machines)))
    for count, definition in zip(counts, (A, B), strict=False):
        world.ready(count, definition=definition)
        world.clock.advance(60)
    return world


def ids(one: VirtualCluster) -> set[NodeId]:
    return set(one.node_instances)


def types(one: VirtualCluster) -> list[str]:
    return sorted(instance.template_id for instance in one.node_instances.values())


def free(world: World) -> int:
    return sum(not node.virtual_cluster for node in world.nodes())


def unchanged(world: World, kind: type[Error], act: Callable[[], object]) -> Error:
    """The refusal of what must leave everything as it was."""
    before = dict(world.repository._records)
    with pytest.raises(kind) as error:
        act()
    assert world.repository._records == before
    return error.value


# Creating.


@pytest.mark.proves("POST /virtual_clusters: 200", "GET /virtual_clusters/{virtualCluster}: 200")
def test_what_was_written_is_what_the_next_read_shows(world: World) -> None:
    written = world.claim("vc", a=2, b=1)
    assert types(written) == ["a", "a", "b"]
    assert get_virtual_cluster(world.repository, VirtualClusterId("vc")) == written
    assert world.repository.virtual_clusters() == ([written], None)
    nodes = {node.id: node for node in world.nodes()}
    for identity, instance in written.node_instances.items():
        assert instance.hostname == nodes[identity].dns_name
        assert nodes[identity].virtual_cluster == "vc"
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("desired", [{}, {"a": 0}, {"a": 0, "b": 0}, None], ids=str)
def test_an_empty_virtual_cluster_is_legal(world: World, desired: dict[str, int] | None) -> None:
    written = world.write({"virtualClusterId": "vc", "replicaSets": desired})
    assert (written.node_instances, written.replica_sets) == ({}, desired or {})
    assert free(world) == 6


@pytest.mark.parametrize("expected", [None, 0])
def test_what_is_absent_and_zero_are_the_revisions_of_a_create(world: World, expected: int | None) -> None:
    assert world.claim("vc", expected, a=1).revision > 0


def test_an_update_of_what_was_deleted_is_refused(world: World) -> None:
    world.claim("vc", a=1)
    world.release("vc")
    error = unchanged(world, RevisionConflict, lambda: world.claim("vc", 7, a=1))
    assert error.revision == 0


@pytest.mark.proves("POST /virtual_clusters: 404")
def test_a_cluster_that_does_not_exist_is_not_found(world: World) -> None:
    unchanged(world, NotFound, lambda: world.write({"virtualClusterId": "vc", "cluster": "other"}))


def test_nodes_come_from_the_cluster_that_was_asked_for(world: World) -> None:
    world.put({"nodearrays": [nodearray("x", bucket(templateId="c"))]}, name="other")
    body = {"virtualClusterId": "vc", "cluster": "other", "replicaSets": {"a": 1}}
    error = unchanged(world, InvalidRequest, lambda: world.write(body))
    assert error.node_types == ["c"]


@pytest.mark.proves("POST /virtual_clusters: 400")
def test_an_unknown_node_type_is_refused_with_those_that_are_known(world: World) -> None:
    error = unchanged(world, InvalidRequest, lambda: world.claim("vc", a=1, c=0))
    assert error.node_types == ["a", "b"]
    assert ": a, b; not c" in error.message


def test_a_node_type_may_be_served_by_several_buckets() -> None:
    world = World(
        nodearray("one", bucket("c7i-large", templateId="t")),
        nodearray("two", bucket("c7i-xlarge", templateId="t")),
    )
    for array in ("one", "two"):
        world.ready(1, array=array)
    assert types(world.claim("vc", t=2)) == ["t", "t"]


# Revisions.


@pytest.mark.proves("POST /virtual_clusters: 409")
@pytest.mark.parametrize("off", [-1, 1, None, 0])
def test_an_update_on_any_other_revision_is_refused_and_told_the_current_one(
    world: World, off: int | None
) -> None:
    written = world.claim("vc", a=1)
    expected = written.revision + off if off else off
    error = unchanged(world, RevisionConflict, lambda: world.claim("vc", expected, a=2))
    assert error.revision == written.revision


@pytest.mark.parametrize(
    "desired",
    [{"replicaSets": {"none": 1}}, {"replicaSets": {"a": 99}}, {"cluster": "other"}, {"divisible": True}],
)
def test_the_revision_is_judged_before_anything_else(world: World, desired: dict[str, Any]) -> None:
    world.claim("vc", a=1)
    unchanged(world, RevisionConflict, lambda: world.write({"virtualClusterId": "vc", **desired}, 1))


def test_an_update_that_changes_nothing_keeps_the_nodes_and_gives_a_new_revision(world: World) -> None:
    first = world.claim("vc", a=2)
    second = world.claim("vc", first.revision, a=2)
    assert second.revision > first.revision
    assert second.node_instances == first.node_instances
    unchanged(world, RevisionConflict, lambda: world.claim("vc", first.revision, a=2))


def test_the_revision_grows_also_where_the_clock_stands_behind(world: World) -> None:
    first = world.claim("vc", a=1)
    world.clock.advance(-7_200)
    assert world.claim("vc", first.revision, a=1).revision == first.revision + 1


# Updating.


def test_nodes_that_stay_wanted_stay_assigned(world: World) -> None:
    small = world.claim("vc", a=2)
    large = world.claim("vc", small.revision, a=4, b=1)
    assert ids(small) < ids(large)
    again = world.claim("vc", large.revision, a=2, b=1)
    assert ids(again) < ids(large)
    assert free(world) == 3
    assert invariants.at_rest(world) == []


def test_a_node_type_that_is_left_out_goes_to_zero(world: World) -> None:
    first = world.claim("vc", a=2, b=1)
    second = world.claim("vc", first.revision, b=1)
    assert types(second) == ["b"]
    third = world.write({"virtualClusterId": "vc"}, second.revision)
    assert third.node_instances == {}
    assert free(world) == 6


def test_a_shrink_gives_back_the_youngest() -> None:
    world = make(2)
    world.ready(2, definition=A)
    old = {node.id for node in world.nodes() if node.name in ("ondemand-1", "ondemand-2")}
    first = world.claim("vc", a=4)
    assert ids(world.claim("vc", first.revision, a=2)) == old


def test_a_node_whose_end_is_wanted_is_never_handed_out(world: World) -> None:
    operation, _ = world.terminate(names=["ondemand-1", "ondemand-2"])
    error = unchanged(world, InsufficientNodes, lambda: world.claim("vc", a=3))
    assert error.replica_sets_to_recommend == {"a": 2}
    world.drive(operation)
    assert types(world.claim("vc", a=2)) == ["a", "a"]


def test_a_dead_node_goes_first_and_does_not_count_as_kept(world: World) -> None:
    first = world.claim("vc", a=3)
    dead = min(ids(first))
    bury(world, [dead])
    lost = unchanged(world, RevisionConflict, lambda: world.claim("vc", first.revision, a=2))
    second = world.claim("vc", lost.revision, a=2)
    assert ids(second) == ids(first) - {dead}
    third = world.claim("vc", second.revision, a=3)
    assert dead not in ids(third)
    assert types(third) == ["a"] * 3


def bury(world: World, dead: Collection[NodeId]) -> None:
    """Let nodes be known to have failed, as an observation writes it down."""
    nodes = world.repository.nodes_by_id(CLUSTER, dead)
    write_verdicts(world.store, CLUSTER, nodes, lambda node: failed(node, "dead"))


# Not enough.


@pytest.mark.proves("POST /virtual_clusters: 409")
def test_where_nodes_are_missing_nothing_changes_and_what_would_do_is_told(world: World) -> None:
    error = unchanged(world, InsufficientNodes, lambda: world.claim("vc", a=9, b=1))
    assert error.replica_sets_to_recommend == {"a": 4, "b": 1}
    assert error.missing == {"a": 5}
    recommended: dict[str, Any] = dict(error.replica_sets_to_recommend)
    assert types(world.claim("vc", **recommended)) == ["a"] * 4 + ["b"]


def test_nodes_held_by_others_are_not_enough_and_ones_own_are(world: World) -> None:
    mine = world.claim("mine", a=2)
    other = world.claim("other", a=1)
    error = unchanged(world, InsufficientNodes, lambda: world.claim("mine", mine.revision, a=4))
    assert error.replica_sets_to_recommend == {"a": 3}
    unchanged(world, InsufficientNodes, lambda: world.claim("third", a=2))
    assert len(ids(world.claim("mine", mine.revision, a=3))) == 3
    assert get_virtual_cluster(world.repository, VirtualClusterId("other")) == other


def test_nodes_that_are_not_ready_do_not_count() -> None:
    world = make(1)
    world.create(3, definition=A)
    body = {"virtualClusterId": "vc", "replicaSets": {"a": 2}, "provision": False}
    unchanged(world, InsufficientNodes, lambda: world.write(body))
    world.drive_all()
    assert len(ids(world.write(body))) == 2


@settings(deadline=None, max_examples=150)
@given(
    pool=st.tuples(st.integers(0, 14), st.integers(0, 14)),
    held=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    desired=st.dictionaries(st.sampled_from("ab"), st.integers(0, 30)),
)
def test_what_is_recommended_succeeds_if_it_is_sent_back(
    *, pool: tuple[int, int], held: tuple[int, int], desired: dict[str, int]
) -> None:
    world = make(*pool)
    revision, have = None, {}
    for name, count in zip("ab", map(min, pool, held), strict=True):
        have[name] = count
        revision = write(world, revision, have).revision
    try:
        write(world, revision, desired)
    except InsufficientNodes as error:
        recommended = dict(error.replica_sets_to_recommend)
        assert write(world, revision, recommended).replica_sets == recommended
    assert invariants.at_rest(world) == []


def write(world: World, expected: int | None, desired: dict[str, int]) -> VirtualCluster:
    return world.write({"virtualClusterId": "vc", "replicaSets": desired, "provision": False}, expected)


def test_any_number_of_nodes_changes_at_once() -> None:
    world = make(310)
    first = world.claim("vc", a=250)
    assert len(ids(first)) == 250
    second = world.claim("vc", first.revision, a=310)
    assert ids(first) < ids(second)
    assert len(ids(world.claim("vc", second.revision, a=1))) == 1
    assert invariants.at_rest(world) == []
    world.release("vc")
    assert free(world) == 310


# Attributes that are set for life.


@pytest.mark.parametrize(
    ("first", "mode"),
    [
        ({}, AllocationMode.MIXED),
        ({"allocationMode": "mixed"}, AllocationMode.MIXED),
        ({"allocationMode": "exclusive"}, AllocationMode.EXCLUSIVE),
        ({"divisible": True}, AllocationMode.EXCLUSIVE),
    ],
)
def test_the_allocation_mode_is_kept_and_cannot_change(
    world: World, first: dict[str, Any], mode: AllocationMode
) -> None:
    written = world.write({"virtualClusterId": "vc", **first})
    assert written.allocation_mode is mode
    other = "mixed" if mode is AllocationMode.EXCLUSIVE else "exclusive"
    body = {"virtualClusterId": "vc", "allocationMode": other}
    error = unchanged(world, ImmutableAttribute, lambda: world.write(body, written.revision))
    assert error.attribute == "allocationMode"
    assert world.write({"virtualClusterId": "vc"}, written.revision).allocation_mode is mode


def test_the_cluster_is_kept_and_cannot_change(world: World) -> None:
    written = world.claim("vc", a=1)
    world.put({"nodearrays": [nodearray()]}, name="other")
    body = {"virtualClusterId": "vc", "cluster": "other"}
    unchanged(world, ImmutableAttribute, lambda: world.write(body, written.revision))
    assert world.write({"virtualClusterId": "vc", "cluster": CLUSTER}, written.revision).cluster == CLUSTER


# Dry runs.


def test_a_dry_run_answers_the_same_and_changes_nothing(world: World) -> None:
    before = dict(world.repository._records)
    answer = world.claim("vc", dry_run=True, a=2)
    assert world.repository._records == before
    assert (types(answer), answer.revision) == (["a", "a"], 0)
    written = world.claim("vc", a=2)
    assert ids(written) == ids(answer)
    answer = world.claim("vc", written.revision, dry_run=True, a=3)
    assert answer.revision == written.revision
    assert get_virtual_cluster(world.repository, VirtualClusterId("vc")) == written
    unchanged(world, InsufficientNodes, lambda: world.claim("vc", written.revision, dry_run=True, a=9))
    unchanged(world, RevisionConflict, lambda: world.claim("vc", 1, dry_run=True, a=1))


# Deleting.


@pytest.mark.proves("DELETE /virtual_clusters/{virtualCluster}: 200")
def test_a_delete_gives_every_node_back(world: World) -> None:
    written = world.claim("vc", a=2, b=1)
    gone = world.release("vc", written.revision)
    assert gone == written
    assert free(world) == 6
    assert len(world.alive()) == 6
    assert world.repository.virtual_clusters() == ([], None)
    with pytest.raises(NotFound):
        get_virtual_cluster(world.repository, VirtualClusterId("vc"))
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("name", ["vc", "", "a##b", "x" * 1_000])
def test_what_does_not_exist_cannot_be_deleted(world: World, name: str) -> None:
    unchanged(world, NotFound, lambda: world.release(name))


def test_a_delete_happens_once(world: World) -> None:
    written = world.claim("vc", a=1)
    world.release("vc")
    unchanged(world, NotFound, lambda: world.release("vc"))
    unchanged(world, NotFound, lambda: world.release("vc", written.revision))


@pytest.mark.proves("DELETE /virtual_clusters/{virtualCluster}: 409")
def test_a_delete_on_another_revision_is_refused(world: World) -> None:
    written = world.claim("vc", a=1)
    for expected in (0, written.revision - 1, written.revision + 1):
        error = unchanged(world, RevisionConflict, partial(world.release, "vc", expected))
        assert error.revision == written.revision


def test_an_update_does_not_bring_back_what_was_deleted(world: World) -> None:
    written = world.claim("vc", a=1)
    world.release("vc")
    error = unchanged(world, RevisionConflict, lambda: world.claim("vc", written.revision, a=1))
    assert error.revision == 0
    assert free(world) == 6


def test_an_old_revision_never_comes_back_to_life(world: World) -> None:
    seen = set()
    for _ in range(4):
        written = world.claim("vc", a=1)
        seen.add(written.revision)
        world.release("vc")
        # A clock that was set back must not give a revision twice.
        world.clock.advance(-1_000)
    assert len(seen) == 4
    stored = world.repository.virtual_cluster(VirtualClusterId("vc"))
    assert stored is not None
    assert stored.revision > max(seen)
    assert stored.expires_at > world.clock.now()


def test_one_that_is_made_again_may_be_of_another_mode(world: World) -> None:
    world.write({"virtualClusterId": "vc", "allocationMode": "exclusive"})
    world.release("vc")
    assert world.claim("vc").allocation_mode is AllocationMode.MIXED


def test_a_delete_may_end_the_nodes_that_may_be_ended(world: World) -> None:
    [kept] = world.ready(1, definition=A, nodeAttributes={"KeepAlive": True})
    written = world.claim("vc", a=5)
    assert kept.id in ids(written)
    world.release("vc", terminate=True)
    ending = [node for node in world.nodes() if node.status is NodeStatus.TERMINATING]
    assert {node.id for node in ending} == ids(written) - {kept.id}
    world.drive_all()
    assert len(world.alive()) == 3
    assert free(world) == 3
    assert invariants.at_rest(world) == []


def test_a_delete_ends_nodes_also_where_the_clock_stands_behind(world: World) -> None:
    world.claim("vc", a=4, b=2)
    world.clock.advance(-7_200)
    world.ec2.advance(7_200)
    world.release("vc", terminate=True)
    world.drive_all()
    assert not world.alive()


def test_a_delete_of_an_empty_one_ends_nothing(world: World) -> None:
    world.claim("vc")
    world.release("vc", terminate=True)
    assert not world.workflows.live
    assert len(world.alive()) == 6
    assert invariants.at_rest(world) == []


# Many at once.


def test_of_many_writers_with_one_revision_exactly_one_wins(world: World) -> None:
    written = world.claim("vc", a=1)
    outcomes = at_once(8, lambda n: world.claim("vc", written.revision, a=n % 4 + 1))
    won = [one for one in outcomes if isinstance(one, VirtualCluster)]
    lost = [one for one in outcomes if isinstance(one, RevisionConflict)]
    assert (len(won), len(lost)) == (1, 7)
    assert {one.revision for one in lost} == {won[0].revision}
    assert get_virtual_cluster(world.repository, VirtualClusterId("vc")) == won[0]
    assert invariants.at_rest(world) == []


def test_of_many_creates_of_one_id_exactly_one_wins(world: World) -> None:
    outcomes = at_once(8, lambda _: world.claim("vc", a=1))
    assert sum(isinstance(one, VirtualCluster) for one in outcomes) == 1
    assert sum(isinstance(one, RevisionConflict) for one in outcomes) == 7
    assert free(world) == 5


def test_of_many_that_want_the_same_nodes_none_gets_one_twice(world: World) -> None:
    outcomes = at_once(8, lambda n: world.claim(f"vc-{n}", a=1))
    won = [one for one in outcomes if isinstance(one, VirtualCluster)]
    assert len(won) == 4
    assert sum(isinstance(one, InsufficientNodes) for one in outcomes) == 4
    assert len(set().union(*map(ids, won))) == 4
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("_", range(10))
def test_a_claim_and_a_termination_that_meet_do_not_both_have_the_node(_: int) -> None:
    world = make(3)
    names = [node.name for node in world.nodes()]

    def act(number: int) -> None:
        if number:
            world.claim("vc", a=3)
        else:
            world.terminate(names=names)

    at_once(2, act)
    world.drive_all()
    assert invariants.at_rest(world) == []
    held = sum(bool(node.virtual_cluster) for node in world.nodes())
    assert (held, len(world.alive())) in ((3, 3), (0, 0))


def at_once(count: int, act: Callable[[int], object]) -> list[object]:
    """What each got, or why it was refused."""

    def attempt(number: int) -> object:
        try:
            return act(number)
        except PaddockError as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(attempt, range(count)))


@pytest.mark.parametrize("fault", [StoreThrottled, StoreUnavailable])
def test_a_change_that_was_made_is_told_so_though_its_nodes_cannot_be_given_back_now(
    monkeypatch: pytest.MonkeyPatch, fault: type[PaddockError]
) -> None:
    world = make(4)
    written = world.claim("vc", a=3)
    commit = world.repository.commit

    def fail_after_the_first(*writes: Write) -> None:
        monkeypatch.setattr(world.repository, "commit", refuse)
        commit(*writes)

    def refuse(*_: Write) -> None:
        raise fault("not now")

    monkeypatch.setattr(world.repository, "commit", fail_after_the_first)
    assert world.release("vc") == written
    monkeypatch.setattr(world.repository, "commit", commit)
    world.settle()
    assert free(world) == 4
    assert invariants.at_rest(world) == []
