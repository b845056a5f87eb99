"""Scaling a node array up to a total: what is added, and that it is never too much."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.errors import DuplicateRequest, NotFound
from paddock.model.identity import RequestId
from paddock.model.operation import OperationState
from paddock.nodes.scale import scale_nodes
from paddock.requests.bodies import ScaleRequest
from tests.fakes import invariants
from tests.fakes.world import CLUSTER, World, bucket, nodearray

if TYPE_CHECKING:
    from paddock.model.identity import ClusterName
    from paddock.model.operation import Operation
    from paddock.nodes.plan import Added

SMALL, LARGE = "c7i-large", "c7i-4xlarge"


def scale(
    world: World, array: str = "ondemand", *, cluster: ClusterName = CLUSTER, **body: Any
) -> tuple[Operation, Added]:
    request = ScaleRequest.model_validate(body)
    operation, [added] = scale_nodes(world.store, world.workflows, cluster, array, request)
    return operation, added


@pytest.mark.parametrize("total", [{"totalNodeCount": 9}, {"totalCoreCount": 9 * 2}], ids=str)
def test_a_total_that_no_bucket_can_take_alone_is_reached_by_asking_again(total: dict[str, Any]) -> None:
    buckets = (bucket(name, vcpuCount=2, maxCount=most) for name, most in ((SMALL, 4), (LARGE, 6)))
    world = World(nodearray("ondemand", *buckets))
    assert [scale(world, **total)[1].count for _ in range(3)] == [4, 5, 0]


def two_sizes(small: int = 100, large: int = 100) -> World:
    return World(
        nodearray(
            "ondemand",
            bucket(SMALL, vcpuCount=2, maxCount=small),
            bucket(LARGE, vcpuCount=16, maxCount=large),
        )
    )


def machines(world: World) -> list[str]:
    return sorted(node.spec.machine_type for node in world.nodes())


@pytest.mark.proves("POST /clusters/{cluster}/scale/{nodearray}: 202")
def test_what_is_missing_to_the_total_is_added_and_launched() -> None:
    world = World()
    world.ready(2)
    operation, added = scale(world, totalNodeCount=5)
    assert (added.count, added.message, operation.total) == (3, "", 3)
    assert sorted(node.name for node in world.nodes()) == [f"ondemand-{number}" for number in range(1, 6)]
    assert world.drive(operation).state is OperationState.SUCCEEDED
    assert len(world.alive()) == 5
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize(
    "body",
    [{}, {"totalNodeCount": 0}, {"totalCoreCount": 0}, {"totalNodeCount": 2}, {"totalCoreCount": 12}],
    ids=str,
)
def test_nothing_is_ever_taken_away(body: dict[str, Any]) -> None:
    world = World()
    before = world.ready(3)
    operation, added = scale(world, **body)
    assert (added.count, added.message) == (0, "")
    assert (operation.state, operation.total, operation.error) == (OperationState.SUCCEEDED, 0, "")
    assert world.nodes() == before


def test_nodes_that_end_count_until_their_instances_are_gone() -> None:
    world = World()
    world.ready(3)
    ended, _ = world.terminate(names=["ondemand-1"])
    assert scale(world, totalNodeCount=3)[1].count == 0
    world.drive(ended)
    assert scale(world, totalNodeCount=3)[1].count == 1


def test_nodes_that_failed_and_nodes_of_other_arrays_do_not_count() -> None:
    world = World(nodearray("ondemand"), nodearray("other"))
    world.ready(4, array="other")
    world.ec2.capacity(1)
    world.ready(2)
    assert scale(world, totalNodeCount=3)[1].count == 2


@pytest.mark.parametrize(("total", "count"), [(1, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_the_fewest_nodes_that_reach_a_total_of_cores_are_added(total: int, count: int) -> None:
    assert scale(World(), totalCoreCount=total)[1].count == count


@pytest.mark.parametrize(
    ("small", "total", "expected"),
    [
        (100, 15, [SMALL] * 8),
        (8, 16, [SMALL] * 8),
        (8, 17, [LARGE] * 2),
        (0, 1, [LARGE]),
        (8, 10_000, [SMALL] * 8),
    ],
)
def test_cores_come_of_the_first_bucket_that_has_room_for_all_of_its_nodes(
    small: int, total: int, expected: list[str]
) -> None:
    world = two_sizes(small)
    _, added = scale(world, totalCoreCount=total)
    assert machines(world) == expected
    assert bool(added.message) is (total == 10_000)


def test_cores_of_all_buckets_count() -> None:
    world = two_sizes()
    world.create(1, definition={"machineType": LARGE})
    world.create(2, definition={"machineType": SMALL})
    assert scale(world, totalCoreCount=20)[1].count == 0
    assert scale(world, totalCoreCount=21)[1].count == 1
    assert machines(world) == [LARGE] + [SMALL] * 3


def test_limits_hold_and_the_message_says_so() -> None:
    world = World(maxCount=4)
    world.create(1)
    operation, added = scale(world, totalNodeCount=1_000_000_000)
    assert added.count == operation.total == 3
    assert "3 of 999999999 added" in added.message
    operation, added = scale(world, totalNodeCount=5)
    assert (added.count, operation.state) == (0, OperationState.FAILED)
    assert added.message


@pytest.mark.proves("POST /clusters/{cluster}/scale/{nodearray}: 409")
def test_a_request_id_counts_once_and_is_shared_with_create() -> None:
    world = World()
    operation, _ = scale(world, totalNodeCount=2, requestId="r")
    assert [node.request_id for node in world.nodes()] == ["r", "r"]
    for total in (2, 5):
        with pytest.raises(DuplicateRequest) as error:
            scale(world, totalNodeCount=total, requestId="r")
        assert error.value.operation_id == operation.id
    with pytest.raises(DuplicateRequest):
        world.create(1, request_id="r")
    assert len(world.nodes()) == 2


@pytest.mark.parametrize("cluster", ["other", "", "a#b"])
def test_a_cluster_that_does_not_exist_is_not_scaled(cluster: ClusterName) -> None:
    with pytest.raises(NotFound, match="No cluster found"):
        scale(World(), cluster=cluster, totalNodeCount=1)


@pytest.mark.proves("POST /clusters/{cluster}/scale/{nodearray}: 404")
@pytest.mark.parametrize("array", ["Ondemand", "", "a#b", "x" * 10_000])
def test_a_node_array_that_does_not_exist_is_not_scaled(array: str) -> None:
    world = World()
    with pytest.raises(NotFound, match="No node array found") as error:
        scale(world, array, totalNodeCount=1, requestId="r")
    assert len(error.value.message) < 300
    assert world.repository.request(CLUSTER, RequestId("r")) is None


def test_whoever_scales_at_the_same_time_never_exceeds_the_total() -> None:
    world = World()
    with ThreadPoolExecutor(8) as threads:
        totals = list(threads.map(lambda _: scale(world, totalNodeCount=10)[1].count, range(8)))
    assert sorted(totals) == [0] * 7 + [10]
    assert len(world.nodes()) == 10
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: scale(world, totalCoreCount=40 + n)[1].count, range(1, 9)))
    assert len(world.nodes()) == 12


@settings(max_examples=40, deadline=None)
@given(
    small=st.integers(0, 6),
    large=st.integers(0, 6),
    before=st.lists(st.tuples(st.sampled_from([SMALL, LARGE]), st.integers(0, 3)), max_size=3),
    desired=st.one_of(
        st.builds(dict, totalNodeCount=st.integers(0, 30)),
        st.builds(dict, totalCoreCount=st.integers(0, 200)),
    ),
)
def test_a_total_is_reached_with_no_node_too_many_or_the_message_says_why_not(
    small: int, large: int, before: list[tuple[str, int]], desired: dict[str, int]
) -> None:
    world = two_sizes(small, large)
    for machine, count in before:
        world.create(count, definition={"machineType": machine})
    old = {node.id for node in world.nodes()}
    body: dict[str, Any] = {**desired}
    _, added = scale(world, **body)
    fresh = [node for node in world.nodes() if node.id not in old]
    weights = [1 if "totalNodeCount" in desired else node.spec.vcpu_count for node in world.nodes()]
    [total] = desired.values()
    assert added.count == len(fresh)
    if fresh:
        last = 1 if "totalNodeCount" in desired else fresh[-1].spec.vcpu_count
        assert sum(weights) - last < total
    assert (sum(weights) >= total) is (not added.message)
