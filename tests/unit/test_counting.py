"""How many nodes a bucket may hold, and can still take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.model.base import MAX_NODES
from paddock.model.counting import BucketCounts, Limit, placement_group_room
from paddock.service.cluster_status import cluster_status
from tests.fakes import invariants
from tests.fakes.world import CLUSTER, World, bucket, nodearray

if TYPE_CHECKING:
    from collections.abc import Sequence


def counts(world: World) -> dict[tuple[str, str], BucketCounts]:
    status = cluster_status(world.repository, world.clock, CLUSTER, with_nodes=False)
    return {(one.array.name, one.bucket.machine_type): one.counts for one in status.buckets}


def only(world: World) -> tuple[int, int, int]:
    [one] = counts(world).values()
    return one.max_count, one.active_count, one.available_count


def test_the_numbers_of_the_first_example_come_out() -> None:
    world = World(
        nodearray("a", bucket("x-44", vcpuCount=44), maxCoreCount=500),
        nodearray("b", bucket("x-32", vcpuCount=32, quotaCoreCount=100)),
        maxCount=100,
        maxCoreCount=10_000,
    )
    assert {key: one.max_count for key, one in counts(world).items()} == {("a", "x-44"): 11, ("b", "x-32"): 3}


@pytest.mark.parametrize(
    ("definition", "array", "one", "most"),
    [
        ({"maxCount": 7}, {}, {}, 7),
        ({"maxCoreCount": 31}, {}, {}, 7),
        ({}, {"maxCount": 7}, {}, 7),
        ({}, {"maxCoreCount": 31}, {}, 7),
        ({}, {}, {"maxCount": 7}, 7),
        ({}, {}, {"quotaCoreCount": 31}, 7),
        ({"maxCount": 9}, {"maxCount": 8}, {"maxCount": 7, "quotaCoreCount": 32}, 7),
        ({"maxCount": 0}, {}, {}, 0),
        ({"maxCoreCount": 3}, {}, {}, 0),
        ({}, {}, {}, MAX_NODES),
    ],
)
def test_each_limit_limits_and_the_least_of_them_wins(
    definition: dict[str, Any], array: dict[str, Any], one: dict[str, Any], most: int
) -> None:
    world = World(nodearray("ondemand", bucket(**one), **array), **definition)
    assert only(world) == (most, 0, most)
    if most < MAX_NODES:
        world.create(most + 5)
        assert only(world) == (most, most, 0)


def test_a_limit_lowered_below_its_use_has_nothing_left() -> None:
    world = World(nodearray(maxCount=5))
    world.ready(5)
    stored = world.repository.cluster(CLUSTER)
    assert stored is not None
    world.put({"nodearrays": [nodearray(maxCount=3)]}, stored.revision)
    assert only(world) == (3, 5, 0)
    assert Limit(3, 5, 1).available_count == 0


def test_a_quota_is_not_eaten_by_the_neighbours_of_a_bucket() -> None:
    spot = nodearray("spot", bucket(quotaCoreCount=0), interruptible=True)
    ondemand = nodearray("ondemand", bucket(quotaCoreCount=16), bucket("x-2", quotaCoreCount=8))
    world = World(ondemand, spot)
    assert {key: one.available_count for key, one in counts(world).items()} == {
        ("ondemand", "c7i-xlarge"): 4,
        ("ondemand", "x-2"): 2,
        ("spot", "c7i-xlarge"): 0,
    }
    world.create(4, definition={"machineType": "c7i-xlarge"})
    assert counts(world)["ondemand", "x-2"].available_count == 2


def test_a_node_counts_until_its_instance_is_gone() -> None:
    world = World(nodearray(maxCount=3))
    assert only(world) == (3, 0, 3)
    operation, _ = world.create(2)
    assert only(world) == (3, 2, 1)
    world.drive(operation)
    assert only(world) == (3, 2, 1)
    ending, _ = world.terminate(names=["ondemand-1"])
    assert only(world) == (3, 2, 1)
    world.step("terminate", ending.id)
    assert only(world) == (3, 2, 1)
    world.drive(ending)
    assert only(world) == (3, 1, 2)


def test_a_node_that_could_not_be_launched_does_not_count() -> None:
    world = World(nodearray(maxCount=3))
    world.ec2.capacity(1)
    world.ready(3)
    assert only(world) == (3, 1, 2)


def test_a_placement_group_has_room_up_to_its_size() -> None:
    [array] = (
        World(nodearray("a", bucket(maxPlacementGroupSize=4)))
        .put({"nodearrays": [nodearray("a", bucket(maxPlacementGroupSize=4))]}, name="other")
        .definition.nodearrays
    )
    assert [placement_group_room(array.buckets[0], placed) for placed in (0, 3, 4, 9)] == [4, 1, 0, 0]


# The number that autoscalers rely on: what is said to be available is what they get.

SMALL = st.none() | st.integers(0, 30)
CORES = st.none() | st.integers(0, 200)
BUCKETS = st.lists(
    st.fixed_dictionaries({"vcpuCount": st.integers(1, 48), "maxCount": SMALL, "quotaCoreCount": CORES}),
    min_size=1,
    max_size=3,
)
ARRAYS = st.lists(
    st.fixed_dictionaries({"maxCount": SMALL, "maxCoreCount": CORES, "buckets": BUCKETS}),
    min_size=1,
    max_size=3,
)
CREATES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 12)), max_size=5)


@settings(deadline=None, max_examples=60)
@given(
    arrays=ARRAYS,
    limits=st.tuples(SMALL, CORES),
    creates=CREATES,
    capacity=st.none() | st.integers(0, 10),
    place=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    beyond=st.integers(0, 3),
)
def test_what_is_available_is_what_a_create_adds(
    *,
    arrays: list[dict[str, Any]],
    limits: tuple[int | None, int | None],
    creates: list[tuple[int, int, int]],
    capacity: int | None,
    place: tuple[int, int],
    beyond: int,
) -> None:
    world = World(*_arrays(arrays), maxCount=limits[0], maxCoreCount=limits[1])
    keys = list(counts(world))
    most = {key: one.max_count for key, one in counts(world).items()}
    for array, one, count in creates:
        _create(world, _pick(keys, array, one), count)
    if capacity is not None:
        world.ec2.capacity(capacity)
        world.drive_all()
    for key in (_pick(keys, *place), keys[0]):
        # Without a limit there would be ten thousand.
        available = min(counts(world)[key].available_count, 40)
        assert _create(world, key, available + (beyond if available < 40 else 0)) == available
        if available < 40:
            assert counts(world)[key].available_count == 0
    assert {key: one.max_count for key, one in counts(world).items()} == most
    assert invariants.always(world) == []


def _arrays(drawn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        nodearray(
            f"a{number}",
            *(bucket(f"c7i-x{place}", instanceType="c7i.xlarge", **one) for place, one in enumerate(buckets)),
            maxCount=array["maxCount"],
            maxCoreCount=array["maxCoreCount"],
        )
        for number, array in enumerate(drawn)
        for buckets in [array["buckets"]]
    ]


def _pick(keys: Sequence[tuple[str, str]], array: int, one: int) -> tuple[str, str]:
    return keys[(array * 3 + one) % len(keys)]


def _create(world: World, key: tuple[str, str], count: int) -> int:
    _, [added] = world.create(count, key[0], definition={"machineType": key[1]})
    return added.count
