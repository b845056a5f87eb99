"""How many nodes a bucket may hold, and can still take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.clusters.status import cluster_status
from paddock.model.base import MAX_NODES
from paddock.model.limits import BucketCounts, Limit, placement_group_room
from paddock.model.operation import Action
from paddock.model.quotas import QUOTA_CODES, quota_code
from tests.fakes import invariants
from tests.fakes.ec2 import instance_types
from tests.fakes.world import CLUSTER, World, bucket, nodearray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.clusters.status import BucketStatus

# EC2's quotas of the Standard family, and of G and VT.
STANDARD, SPOT_STANDARD, GRAPHICS = "L_1216C47A", "L_34B43A08", "L_DB2E81BA"


def buckets(world: World) -> dict[tuple[str, str], BucketStatus]:
    status = cluster_status(world.store, CLUSTER, with_nodes=False)
    return {(one.array.name, one.bucket.machine_type): one for one in status.buckets}


def counts(world: World) -> dict[tuple[str, str], BucketCounts]:
    return {key: one.counts for key, one in buckets(world).items()}


def only(world: World) -> tuple[int, int, int]:
    [one] = counts(world).values()
    return one.max_count, one.active_count, one.available_count


@pytest.mark.parametrize("own", [100, None])
def test_the_numbers_of_the_first_example_come_out(own: int | None) -> None:
    world = World(
        nodearray("a", bucket("x-44", vcpuCount=44), maxCoreCount=500),
        nodearray("b", bucket("x-32", instanceType="g5.8xlarge", vcpuCount=32, quotaCoreCount=own)),
        maxCount=100,
        maxCoreCount=10_000,
    )
    world.account(**{GRAPHICS: 1_000 if own else 100})
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


# The account's quotas.


def test_the_accounts_quota_holds_all_buckets_of_a_family_together_and_no_other() -> None:
    graphics = bucket("g5-xlarge", vcpuCount=4)
    world = World(
        nodearray("ondemand", bucket(), bucket("m5-large", vcpuCount=2), graphics, bucket("mac2-metal")),
        nodearray("spot", bucket(), interruptible=True),
    )
    world.account(**{STANDARD: 15, SPOT_STANDARD: 0, GRAPHICS: 8})
    assert [one.available_count for one in counts(world).values()] == [3, 7, 2, MAX_NODES, 0]
    most = [one.max_count for one in counts(world).values()]
    assert _create(world, ("ondemand", "c7i-xlarge"), 2) == 2
    assert [one.available_count for one in counts(world).values()][:4] == [1, 3, 2, MAX_NODES - 2]
    assert _create(world, ("ondemand", "m5-large"), 9) == 3
    assert [one.available_count for one in counts(world).values()][:3] == [0, 0, 2]
    assert [one.max_count for one in counts(world).values()] == most
    assert invariants.always(world) == []


def test_a_number_of_the_definition_wins_over_the_accounts_and_uses_it_up_all_the_same() -> None:
    world = World(nodearray("ondemand", bucket(quotaCoreCount=12), bucket("m5-large", vcpuCount=2)))
    world.account(**{STANDARD: 10})
    assert [one.available_count for one in counts(world).values()] == [3, 5]
    assert _create(world, ("ondemand", "c7i-xlarge"), 2) == 2
    assert [one.available_count for one in counts(world).values()] == [1, 1]
    assert _create(world, ("ondemand", "c7i-xlarge"), 2) == 1
    assert [one.available_count for one in counts(world).values()] == [0, 0]
    assert [one.max_count for one in counts(world).values()] == [3, 5]


def test_a_set_without_a_machine_type_goes_where_the_quota_has_room_and_nodes_move_only_there() -> None:
    world = World(nodearray("ondemand", bucket(), bucket("g5-xlarge"), bucket("f2-6xlarge")))
    world.account(**{STANDARD: 8, GRAPHICS: 20, "L_74FC7D96": 4})
    _, [added] = world.create(5)
    assert added.count == 5
    assert counts(world)["ondemand", "g5-xlarge"].active_count == 5
    world.ec2.capacity(1, instance_type="g5.xlarge")
    world.drive_all()
    assert [one.active_count for one in counts(world).values()] == [2, 1, 1]
    assert invariants.at_rest(world) == []


def test_a_start_is_held_by_the_accounts_quota() -> None:
    world = World()
    world.account(**{STANDARD: 8})
    nodes = [*world.ready(2), *world.ready(1, nodeAttributes={"StartAutomatically": False})]
    [result] = world.manage(Action.START, ids=[nodes[2].id])[1]
    assert "quotas leave no room" in result.error
    world.drive_all()
    assert only(world) == (2, 2, 0)


def test_what_exceeds_a_quota_is_shown_as_all_of_it_and_takes_nothing_from_others() -> None:
    """Autoscalers refuse to work with more consumed than there is."""
    world = World(nodearray("ondemand", bucket(), bucket("m5-large", quotaCoreCount=8), bucket("g5-xlarge")))
    world.create(5)
    world.account(**{STANDARD: 12, GRAPHICS: 40})
    shown = [(one.quota, one.family, one.regional) for one in buckets(world).values()]
    assert [(quota.used, quota.capacity) for quota, _, _ in shown] == [(12, 12), (0, 8), (0, 40)]
    families = [(family.used, family.capacity) for _, family, _ in shown if family]
    assert families == [(12, 20), (12, 20), (0, 40)]
    assert [(regional.used, regional.capacity) for _, _, regional in shown] == [(12, 60)] * 3
    assert counts(world)["ondemand", "c7i-xlarge"].available_count == 0


@pytest.mark.parametrize(
    ("instance_type", "on_demand", "spot"),
    [
        ("c7i.8xlarge", "L-1216C47A", "L-34B43A08"),
        ("im4gn.large", "L-1216C47A", "L-34B43A08"),
        ("m7i-flex.large", "L-1216C47A", "L-34B43A08"),
        ("g5.xlarge", "L-DB2E81BA", "L-3819A6DF"),
        ("gr6.4xlarge", "L-DB2E81BA", "L-3819A6DF"),
        ("vt1.3xlarge", "L-DB2E81BA", "L-3819A6DF"),
        ("p3.2xlarge", "L-417A185B", "L-7212CCBC"),
        ("p4d.24xlarge", "L-417A185B", "L-7212CCBC"),
        ("p5en.48xlarge", "L-417A185B", "L-C4BD4855"),
        ("p6-b200.48xlarge", "L-417A185B", None),
        ("f2.6xlarge", "L-74FC7D96", "L-88CF9481"),
        ("x2gd.large", "L-7295265B", "L-E3A00192"),
        ("hpc6a.48xlarge", "L-F7808C92", None),
        ("u-6tb1.112xlarge", "L-43DA4232", None),
        ("u7i-12tb.224xlarge", "L-43DA4232", None),
        ("inf2.xlarge", "L-1945791B", "L-B5D1601B"),
        ("trn1.2xlarge", "L-2C3B7624", "L-6B0D517C"),
        ("dl1.24xlarge", "L-6E869C2A", "L-85EED4F7"),
        ("mac2.metal", None, None),
        ("7.large", None, None),
    ],
)
def test_the_quota_of_an_instance_type_is_its_familys(
    instance_type: str, on_demand: str | None, spot: str | None
) -> None:
    assert quota_code(instance_type, spot=False) == on_demand
    assert quota_code(instance_type, spot=True) == spot


def test_every_instance_type_but_those_of_dedicated_hosts_has_a_quota_on_demand() -> None:
    without = {one for one in instance_types() if quota_code(one, spot=False) not in QUOTA_CODES}
    assert {one for one in without if not one.startswith("mac")} == set()


# The number that autoscalers rely on: what is said to be available is what they get.

SMALL = st.none() | st.integers(0, 30)
CORES = st.none() | st.integers(0, 200)
BUCKETS = st.lists(
    st.fixed_dictionaries(
        {
            "instanceType": st.sampled_from(["c7i.xlarge", "g5.xlarge", "hpc6a.48xlarge"]),
            "vcpuCount": st.integers(1, 48),
            "maxCount": SMALL,
            "quotaCoreCount": CORES,
            "maxPlacementGroupSize": st.none() | st.integers(1, 8),
        }
    ),
    min_size=1,
    max_size=3,
)
ARRAYS = st.lists(
    st.fixed_dictionaries(
        {"maxCount": SMALL, "maxCoreCount": CORES, "interruptible": st.booleans(), "buckets": BUCKETS}
    ),
    min_size=1,
    max_size=3,
)
GROUPS = st.none() | st.just("ring")
CREATES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 12), GROUPS), max_size=5)
QUOTAS = st.dictionaries(st.sampled_from([STANDARD, SPOT_STANDARD, GRAPHICS]), st.integers(0, 200))
# Without a limit there would be ten thousand.
ENOUGH = 12


@settings(deadline=None, max_examples=60)
@given(
    arrays=ARRAYS,
    limits=st.tuples(SMALL, CORES),
    quotas=QUOTAS,
    creates=CREATES,
    capacity=st.none() | st.integers(0, 10),
    beyond=st.integers(0, 3),
)
def test_what_is_available_is_what_a_create_adds(
    *,
    arrays: list[dict[str, Any]],
    limits: tuple[int | None, int | None],
    quotas: dict[str, int],
    creates: list[tuple[int, int, int, str | None]],
    capacity: int | None,
    beyond: int,
) -> None:
    world = World(*_arrays(arrays), maxCount=limits[0], maxCoreCount=limits[1])
    world.account(**quotas)
    keys = list(counts(world))
    most = {key: one.max_count for key, one in counts(world).items()}
    for array, one, count, group in creates:
        _create(world, _pick(keys, array, one), count, group)
    if capacity is not None:
        world.ec2.capacity(capacity)
        world.drive_all()
    for key in keys:
        for group in ("ring", None):
            room = min(_room(world, key, group), ENOUGH)
            assert _create(world, key, room + (beyond if room < ENOUGH else 0), group) == room
            if room < ENOUGH:
                assert _room(world, key, group) == 0
    assert {key: one.max_count for key, one in counts(world).items()} == most
    assert invariants.always(world) == []


def _room(world: World, key: tuple[str, str], group: str | None) -> int:
    """What a client takes from a status to be free in a bucket, or in one of its placement groups."""
    all_buckets = buckets(world)
    chosen = all_buckets[key]
    available = chosen.counts.available_count
    for limit in (chosen.quota, chosen.family, chosen.regional):
        # Those who also look at the quotas that are shown are not misled.
        assert limit is None or (limit.used <= limit.capacity and limit.available_count >= available)
    if group is None:
        return available
    others = [one for (array, _), one in all_buckets.items() if array == key[0] and one is not chosen]
    if any(group in one.placement_groups for one in others):
        return 0
    free = chosen.bucket.placement_group_size - chosen.placement_groups.get(group, 0)
    return max(0, min(available, free))


def _arrays(drawn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        nodearray(
            f"a{number}",
            *(bucket(f"x{place}", **one) for place, one in enumerate(array["buckets"])),
            maxCount=array["maxCount"],
            maxCoreCount=array["maxCoreCount"],
            interruptible=array["interruptible"],
        )
        for number, array in enumerate(drawn)
    ]


def _pick(keys: Sequence[tuple[str, str]], array: int, one: int) -> tuple[str, str]:
    return keys[(array * 3 + one) % len(keys)]


def _create(world: World, key: tuple[str, str], count: int, group: str | None = None) -> int:
    placed = {"placementGroupId": group} if group else {}
    _, [added] = world.create(count, key[0], definition={"machineType": key[1]}, **placed)
    return added.count
