"""A cloud that has too little: other buckets, other times, what is remembered, and what is given back."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.clusters.status import cluster_status
from paddock.errors import StoreThrottled
from paddock.http.views.cluster import status_view
from paddock.model.definition import bucket_id
from paddock.model.node import NodeStatus
from paddock.model.operation import DEADLINE_NS, OperationState
from paddock.model.time import SECOND_NS
from paddock.nodes.manage import retry_failed
from paddock.workflow.outcome import Next
from tests.fakes import invariants
from tests.fakes.world import CLUSTER, REGION, World, bucket, nodearray

if TYPE_CHECKING:
    from paddock.model.identity import ClusterName
    from paddock.model.operation import Operation
    from paddock.ports.compute import LaunchRequest, LaunchResult
    from paddock.ports.repository import Write

A, B, C = "c7i-large", "c7i-xlarge", "c7i-2xlarge"
EC2 = {A: "c7i.large", B: "c7i.xlarge", C: "c7i.2xlarge"}
EAST, WEST = "subnet-00000001", "subnet-00000002"
FAILED, PARTIALLY, SUCCEEDED = (
    OperationState.FAILED,
    OperationState.PARTIALLY_SUCCEEDED,
    OperationState.SUCCEEDED,
)


def three(**changes: dict[str, Any]) -> World:
    """A node array of three buckets; limits of each by its letter, those of the node array as ``array``."""
    buckets = [bucket(name, **changes.get(letter, {})) for letter, name in zip("abc", (A, B, C), strict=True)]
    return World(nodearray("ondemand", *buckets, **changes.get("array", {})), **changes.get("cluster", {}))


def short(world: World, **remaining: int) -> None:
    """Say how many more of each bucket's machines the cloud has, by the bucket's letter."""
    for letter, count in remaining.items():
        world.ec2.capacity(count, instance_type=EC2[{"a": A, "b": B, "c": C}[letter]])


def placed(world: World) -> list[tuple[str, str]]:
    """Machine type and status of each node, in the order of the nodes."""
    return [(node.spec.machine_type, node.status.value) for node in world.nodes()]


def launched_types(world: World) -> Counter[str]:
    return Counter(one["instance_type"] for one in world.ec2.snapshot()["instances"].values())


def status(world: World, machine_type: str = A) -> dict[str, Any]:
    view = status_view(cluster_status(world.store, CLUSTER, with_nodes=False), REGION)
    buckets = (one for array in view["nodearrays"] for one in array["buckets"])
    found: dict[str, Any] = next(one for one in buckets if one["definition"]["machineType"] == machine_type)
    return found


def driven(world: World, count: int, **line: Any) -> Operation:
    operation, _ = world.create(count, **line)
    return world.drive(operation)


# The next bucket.


def test_nodes_that_their_bucket_has_no_capacity_for_are_launched_in_the_next() -> None:
    world = three()
    short(world, a=0)
    ended = driven(world, 3)
    assert (ended.state, ended.succeeded, ended.error) == (SUCCEEDED, 3, "")
    assert placed(world) == [(B, "Ready")] * 3
    assert launched_types(world) == {EC2[B]: 3}
    assert {node.status_message for node in world.nodes()} == {""}
    assert world.ec2.calls["CreateFleet"] == 2
    assert [status(world, one)["activeCount"] for one in (A, B, C)] == [0, 3, 0]
    assert invariants.at_rest(world) == []


def test_all_subnets_of_a_bucket_are_tried_before_the_next_bucket() -> None:
    world = three()
    world.ec2.capacity(1, instance_type=EC2[A], subnet_id=EAST)
    assert driven(world, 3).state is SUCCEEDED
    assert placed(world) == [(A, "Ready")] * 3
    assert status(world)["lastCapacityFailure"] < 0


def test_what_was_launched_stays_and_only_the_rest_moves_on() -> None:
    world = three()
    short(world, a=2, b=3, c=4)
    ended = driven(world, 10)
    assert (ended.state, ended.succeeded, ended.failed) == (PARTIALLY, 9, 1)
    assert placed(world) == [(A, "Ready")] * 2 + [(B, "Ready")] * 3 + [(C, "Ready")] * 4 + [(C, "Failed")]
    assert world.ec2.calls["CreateFleet"] == 3
    assert invariants.at_rest(world) == []


def test_a_node_waits_in_its_new_bucket_and_says_why() -> None:
    world = three()
    short(world, a=0)
    operation, _ = world.create(2)
    assert world.step("launch", operation.id)[0] is Next.LAUNCH
    assert placed(world) == [(B, "Acquiring")] * 2
    assert {node.status_message for node in world.nodes()} == {
        f"no capacity for {A} (InsufficientInstanceCapacity)"
    }
    assert [status(world, one)["activeCount"] for one in (A, B, C)] == [0, 2, 0]
    assert invariants.always(world) == []


def test_all_buckets_in_turn_are_tried_once_and_then_the_nodes_have_failed() -> None:
    world = three(array={"maxCount": 3})
    world.ec2.capacity(0)
    ended = driven(world, 3)
    assert (ended.state, ended.failed) == (FAILED, 3)
    for text in ("InsufficientInstanceCapacity: ", A, B):
        assert text in ended.error
    assert placed(world) == [(C, "Failed")] * 3
    assert world.ec2.calls["CreateFleet"] == 3
    assert all(status(world, one)["activeCount"] == 0 for one in (A, B, C))
    assert world.create(3)[1][0].count == 3
    world.drive_all()
    assert invariants.at_rest(world) == []


def test_the_buckets_before_the_chosen_one_are_tried_too() -> None:
    world = three(a={"maxCount": 1})
    short(world, b=0, c=0)
    ended = driven(world, 2)
    assert ended.state is PARTIALLY
    assert placed(world) == [(A, "Ready"), (C, "Failed")]
    assert world.ec2.calls["CreateFleet"] == 3
    assert invariants.at_rest(world) == []


def test_a_machine_type_that_was_asked_for_is_not_replaced_by_another() -> None:
    world = three()
    short(world, a=1)
    ended = driven(world, 3, definition={"machineType": A})
    assert (ended.state, ended.succeeded, ended.failed) == (PARTIALLY, 1, 2)
    assert {machine for machine, _ in placed(world)} == {A}
    assert world.ec2.calls["CreateFleet"] == 1
    assert status(world)["lastCapacityFailure"] >= 0
    assert invariants.at_rest(world) == []


def test_a_placement_group_stays_in_its_bucket() -> None:
    world = three()
    short(world, a=1)
    ended = driven(world, 3, placementGroupId="ring")
    assert (ended.state, ended.succeeded, ended.failed) == (PARTIALLY, 1, 2)
    assert {machine for machine, _ in placed(world)} == {A}
    assert invariants.at_rest(world) == []


def test_sets_that_are_launched_together_move_each_as_it_may() -> None:
    world = three()
    short(world, a=0)
    operation, _ = world.create_sets(
        {"count": 2, "nodearray": "ondemand", "definition": {"machineType": A}},
        {"count": 2, "nodearray": "ondemand"},
    )
    assert world.drive(operation).state is PARTIALLY
    assert placed(world) == [(A, "Failed")] * 2 + [(B, "Ready")] * 2
    assert world.ec2.calls["CreateFleet"] == 2
    assert invariants.at_rest(world) == []


def test_many_nodes_move_in_several_transactions_and_few_calls() -> None:
    world = three()
    short(world, a=10, b=300)
    assert driven(world, 600).state is SUCCEEDED
    assert launched_types(world) == {EC2[A]: 10, EC2[B]: 300, EC2[C]: 290}
    # The first 500 try A, B and C; the last 100 begin with A again.
    assert world.ec2.calls["CreateFleet"] == 6
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"b": {"maxCount": 2}}, {(B, "Ready"): 2, (C, "Ready"): 2}),
        ({"b": {"quotaCoreCount": 8}}, {(B, "Ready"): 2, (C, "Ready"): 2}),
        ({"b": {"maxCount": 0}, "c": {"maxCount": 3}}, {(C, "Ready"): 3, (A, "Failed"): 1}),
        ({"b": {"vcpuCount": 8}, "array": {"maxCoreCount": 16}}, {(B, "Ready"): 2, (A, "Failed"): 2}),
        ({"c": {"vcpuCount": 2}, "b": {"vcpuCount": 32}, "cluster": {"maxCoreCount": 16}}, {(C, "Ready"): 4}),
        ({"array": {"maxCount": 4}}, {(B, "Ready"): 4}),
    ],
)
def test_nodes_move_as_far_as_all_limits_allow(
    limits: dict[str, dict[str, Any]], expected: dict[tuple[str, str], int]
) -> None:
    world = three(**limits)
    short(world, a=0)
    driven(world, 4)
    assert Counter(placed(world)) == expected
    assert invariants.at_rest(world) == []


def test_limits_are_those_of_the_moment_of_the_move() -> None:
    world = three()
    short(world, a=0)
    operation, _ = world.create(4)
    stored = world.repository.cluster(CLUSTER)
    assert stored is not None
    lowered = bucket(B, maxCount=1)
    world.put({"nodearrays": [nodearray("ondemand", bucket(A), lowered)]}, stored.revision)
    assert world.drive(operation).state is PARTIALLY
    # The third bucket is there no longer, and its machines are not launched for a node of no bucket.
    assert Counter(placed(world)) == {(B, "Ready"): 1, (A, "Failed"): 3}
    assert launched_types(world) == {EC2[B]: 1}
    assert invariants.at_rest(world) == []


def test_nodes_do_not_move_to_a_bucket_that_has_become_another_machine() -> None:
    """They would be launched as what they were offered, and counted as what it is now."""
    world = World(nodearray("ondemand", bucket("c7i-xlarge"), bucket("c7i-2xlarge", vcpuCount=8)))
    world.ec2.capacity(0, instance_type="c7i.xlarge")
    operation, _ = world.create(2)
    current = world.repository.cluster(CLUSTER)
    assert current is not None
    other = bucket("c7i-2xlarge", vcpuCount=2, instanceType="c7i.large")
    world.put({"nodearrays": [nodearray("ondemand", bucket("c7i-xlarge"), other)]}, current.revision)
    assert world.drive(operation).state is OperationState.FAILED
    assert not world.existing()
    assert invariants.at_rest(world) == []


def test_a_create_that_takes_the_room_meanwhile_is_not_overtaken() -> None:
    world = three(b={"maxCount": 2}, c={"maxCount": 0})
    short(world, a=0)
    mine, _ = world.create(2)
    other, [added] = world.create(1, definition={"machineType": B})
    assert added.count == 1
    world.drive(mine)
    world.drive(other)
    assert Counter(placed(world)) == {(B, "Ready"): 2, (A, "Failed"): 1}
    assert invariants.at_rest(world) == []


def test_nodes_that_are_ended_while_they_move_are_launched_nowhere() -> None:
    world = three()
    short(world, a=1)
    create, _ = world.create(4)
    ids = [node.id for node in world.nodes()]
    world.terminate(ids=ids[2:3])
    assert world.step("launch", create.id)[0] is Next.LAUNCH
    ending, _ = world.terminate(ids=ids[3:4])
    world.drive(create)
    world.drive_all()
    assert world.operation(ending.id).state is SUCCEEDED
    assert [(node.id, node.spec.machine_type) for node in world.nodes()] == [(ids[0], A), (ids[1], B)]
    assert launched_types(world) == {EC2[A]: 1, EC2[B]: 1}
    assert invariants.at_rest(world) == []


def test_a_move_that_loses_the_race_for_a_node_leaves_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    world = three()
    short(world, a=0)
    create, _ = world.create(2)
    first = world.nodes()[0].id
    read = world.repository.cluster

    def ended_meanwhile(name: ClusterName) -> Any:
        monkeypatch.undo()
        world.terminate(ids=[first])
        return read(name)

    monkeypatch.setattr(world.repository, "cluster", ended_meanwhile)
    world.step("launch", create.id)
    assert placed(world) == [(A, "Terminating"), (B, "Acquiring")]
    world.drive_all()
    assert placed(world) == [(B, "Ready")]
    assert len(world.alive()) == 1
    assert invariants.at_rest(world) == []


# Throttling and faults are no want of capacity.


@pytest.mark.parametrize("remaining", [0, 2])
@pytest.mark.parametrize("code", ["RequestLimitExceeded", "InternalError", "InvalidPlacementGroup.Unknown"])
def test_a_throttled_launch_is_asked_for_again_after_a_wait_for_what_is_missing(
    code: str, remaining: int
) -> None:
    world = three()
    world.ec2.capacity(remaining, instance_type=EC2[A], code=code)
    operation, _ = world.create(5)
    following, seconds = world.step("launch", operation.id)
    assert (following, seconds > 0) == (Next.WAIT, True)
    assert Counter(placed(world)) == Counter(
        [(A, "Preparing")] * remaining + [(A, "Acquiring")] * (5 - remaining)
    )
    world.ec2.capacity(None, instance_type=EC2[A])
    ended = world.drive(operation)
    assert (ended.state, ended.batches) == (SUCCEEDED, 2)
    assert launched_types(world) == {EC2[A]: 5}
    assert status(world)["lastCapacityFailure"] < 0
    assert invariants.at_rest(world) == []


def test_one_throttled_subnet_keeps_the_nodes_in_their_bucket() -> None:
    world = three()
    world.ec2.capacity(0, instance_type=EC2[A], subnet_id=EAST)
    world.ec2.capacity(0, instance_type=EC2[A], subnet_id=WEST, code="RequestLimitExceeded")
    operation, _ = world.create(2)
    world.step("launch", operation.id)
    assert placed(world) == [(A, "Acquiring")] * 2
    assert status(world)["lastCapacityFailure"] < 0


def test_throttling_without_end_ends_at_the_deadline_and_is_not_asked_often() -> None:
    world = three(array={"maxCount": 2})
    world.ec2.capacity(0, code="RequestLimitExceeded")
    ended = driven(world, 2)
    assert (ended.state, ended.failed) == (FAILED, 2)
    assert ended.finish_time - ended.start_time < DEADLINE_NS + 120 * SECOND_NS
    assert world.ec2.calls["CreateFleet"] < 60
    assert world.create(2)[1][0].count == 2
    world.drive_all()
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("remaining", [0, 1])
@pytest.mark.parametrize(
    "code", ["InvalidLaunchTemplateId.NotFound", "UnauthorizedOperation", "MissingParameter"]
)
def test_a_fault_fails_the_nodes_with_its_reason_and_tries_no_other_bucket(code: str, remaining: int) -> None:
    world = three()
    world.ec2.capacity(remaining, instance_type=EC2[A], code=code)
    ended = driven(world, 3)
    assert (ended.succeeded, ended.failed) == (remaining, 3 - remaining)
    assert code in ended.error
    assert world.ec2.calls["CreateFleet"] == 1
    assert status(world)["lastCapacityFailure"] < 0
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("remaining", [0, 1])
@pytest.mark.parametrize("code", ["InvalidSubnetID.NotFound", "InvalidInstanceType", "NeverHeardOf"])
def test_a_code_that_nobody_has_listed_is_no_reason_to_give_up(code: str, remaining: int) -> None:
    world = three()
    world.ec2.capacity(remaining, instance_type=EC2[A], code=code)
    operation, _ = world.create(3)
    world.step("launch", operation.id)
    assert {node.status_message for node in world.nodes()[remaining:]} == {f"no capacity for {A} ({code})"}
    assert world.drive(operation).state is SUCCEEDED
    assert launched_types(world) == Counter({EC2[A]: remaining, EC2[B]: 3 - remaining}) + Counter()
    assert status(world)["lastCapacityFailure"] >= 0
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("whole", [False, True])
def test_a_type_that_no_zone_of_the_node_array_offers_gives_way_to_the_next(*, whole: bool) -> None:
    world = three()
    world.ec2.offering(EC2[A], "*", offered=False, refuses_whole_fleet=whole)
    assert driven(world, 3).state is SUCCEEDED
    assert placed(world) == [(B, "Ready")] * 3
    assert status(world)["lastCapacityFailure"] >= 0
    ended = driven(world, 1, definition={"machineType": A})
    assert ended.state is FAILED
    assert "InvalidFleetConfiguration: " in ended.error
    assert "not supported in your requested Availability Zone" in ended.error
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("whole", [False, True])
def test_a_zone_that_does_not_offer_the_type_does_not_spoil_the_others(*, whole: bool) -> None:
    world = three()
    world.ec2.zones({EAST: "us-east-1a", WEST: "us-east-1b"})
    world.ec2.offering(EC2[A], "us-east-1a", offered=False, refuses_whole_fleet=whole)
    assert driven(world, 3).state is SUCCEEDED
    assert launched_types(world) == {EC2[A]: 3}
    assert status(world)["lastCapacityFailure"] < 0
    assert invariants.at_rest(world) == []


def test_a_virtual_cluster_does_not_ask_for_ever_for_what_is_not_offered() -> None:
    """The node type is in two node arrays: nodes never leave theirs, so the next launch must be elsewhere."""
    world = World(nodearray("a", bucket(A)), nodearray("b", bucket(B)))
    world.ec2.offering(EC2[A], "*", offered=False)
    world.want("team", x4c8g=2)
    world.drive_all()
    world.settle()
    assert len(world.held("team").node_instances) == 2
    assert launched_types(world) == {EC2[B]: 2}
    assert world.ec2.calls["CreateFleet"] == 2
    assert invariants.at_rest(world) == []


# Zones.


@pytest.mark.parametrize("code", ["InsufficientFreeAddressesInSubnet", "InsufficientInstanceCapacity"])
def test_all_subnets_of_a_zone_are_used_one_after_another(code: str) -> None:
    north, south = "subnet-00000003", "subnet-00000004"
    world = World()
    world.ec2.zones({EAST: "us-east-1a", WEST: "us-east-1a", north: "us-east-1b", south: "us-east-1a"})
    array = nodearray("ondemand", bucket(A), bucket(B), subnetIds=[EAST, WEST, north, south])
    world.put({"nodearrays": [array]}, world.revision())
    for subnet_id, room in {EAST: 1, north: 2, WEST: 3}.items():
        world.ec2.capacity(room, subnet_id=subnet_id, code=code)
    assert driven(world, 10).state is SUCCEEDED
    subnets = Counter(one["subnet_id"] for one in world.ec2.snapshot()["instances"].values())
    assert subnets == {EAST: 1, north: 2, WEST: 3, south: 4}
    assert launched_types(world) == {EC2[A]: 10}
    assert world.ec2.calls["CreateFleet"] == 3
    assert status(world)["lastCapacityFailure"] < 0
    assert {node.launch_place for node in world.nodes()} == {0}
    assert invariants.at_rest(world) == []


def test_the_next_bucket_begins_with_the_first_subnets_again() -> None:
    world = World()
    world.ec2.zones({EAST: "us-east-1a", WEST: "us-east-1a"})
    world.put({"nodearrays": [nodearray("ondemand", bucket(A), bucket(B))]}, world.revision())
    world.ec2.capacity(0, instance_type=EC2[A])
    assert driven(world, 2).state is SUCCEEDED
    assert world.ec2.calls["CreateFleet"] == 3
    assert {one["subnet_id"] for one in world.ec2.snapshot()["instances"].values()} == {EAST}
    world.ec2.capacity(0)
    ended = driven(world, 1)
    assert (ended.state, world.ec2.calls["CreateFleet"]) == (FAILED, 7)
    assert ended.error.count(f"no capacity for {B}") == 1
    world.ec2.capacity(None)
    world.ec2.capacity(None, instance_type=EC2[A])
    retry_failed(world.store, world.workflows, CLUSTER)
    world.drive_all()
    assert {node.status for node in world.nodes()} == {NodeStatus.READY}
    assert invariants.at_rest(world) == []


# What is remembered.


def test_the_status_says_how_long_ago_each_bucket_had_too_little() -> None:
    world = three()
    short(world, a=0)
    operation, _ = world.create(1)
    world.step("launch", operation.id)
    world.clock.advance(100)
    assert 100 <= status(world, A)["lastCapacityFailure"] < 101
    assert status(world, B)["lastCapacityFailure"] < 0


def test_a_refusal_leaves_what_is_available_as_it_is_unless_the_node_array_throttles() -> None:
    world = three(a={"maxCount": 5})
    short(world, a=0)
    driven(world, 1)
    assert status(world, A)["availableCount"] == 5


def test_a_node_array_that_throttles_offers_nothing_for_five_minutes_after_a_refusal() -> None:
    world = three(a={"maxCount": 5}, array={"throttleCapacity": True})
    short(world, a=0)
    operation, _ = world.create(1, definition={"machineType": A})
    world.step("launch", operation.id)
    assert (status(world, A)["maxCount"], status(world, A)["availableCount"]) == (5, 0)
    assert status(world, B)["availableCount"] > 0
    _, [none] = world.create(2, definition={"machineType": A})
    assert none.count == 0
    assert "no capacity" in none.message
    world.clock.advance(299)
    assert status(world, A)["availableCount"] == 0
    world.clock.advance(1)
    assert status(world, A)["availableCount"] == 5
    assert world.create(5, definition={"machineType": A})[1][0].count == 5


def test_nodes_do_not_move_to_a_bucket_that_is_throttled() -> None:
    world = three(array={"throttleCapacity": True}, c={"maxCount": 0})
    short(world, a=0, b=0)
    driven(world, 1, definition={"machineType": B})
    world.ec2.calls.clear()
    world.create(1)
    world.drive_all()
    assert world.ec2.calls["CreateFleet"] == 1
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize(("seconds", "chosen"), [(170, B), (181, A)])
def test_buckets_refused_in_the_last_three_minutes_are_chosen_last(seconds: int, chosen: str) -> None:
    world = three()
    short(world, a=0)
    driven(world, 1, definition={"machineType": A})
    failed_at = world.repository.ledger(CLUSTER)
    assert failed_at is not None
    since = failed_at.capacity_failures[bucket_id(CLUSTER, "ondemand", A)]
    world.clock.advance(seconds - (world.clock.now() - since) / SECOND_NS)
    operation, _ = world.create(2)
    assert {node.spec.machine_type for node in world.repository.nodes_made_by(operation)} == {chosen}


def test_where_all_were_refused_the_order_stays() -> None:
    world = three()
    world.ec2.capacity(0)
    driven(world, 1)
    operation, _ = world.create(1)
    assert [node.spec.machine_type for node in world.repository.nodes_made_by(operation)] == [A]


# Whatever the cloud has.

ROOM = st.none() | st.integers(0, 6)
CAPACITY = st.fixed_dictionaries(
    {
        "machine": st.sampled_from([A, B, C]),
        "subnet": st.sampled_from([EAST, WEST]),
        "remaining": st.integers(0, 6),
        "code": st.sampled_from(
            ["InsufficientInstanceCapacity", "VcpuLimitExceeded", "RequestLimitExceeded", "InvalidParameter"]
        ),
    }
)
SETS = st.lists(
    st.tuples(
        st.integers(0, 8), st.none() | st.sampled_from([A, B, C]), st.none() | st.sampled_from(["p", "q"])
    ),
    min_size=1,
    max_size=4,
)


@settings(deadline=None, max_examples=80)
@given(
    limits=st.fixed_dictionaries({letter: st.fixed_dictionaries({"maxCount": ROOM}) for letter in "abc"}),
    most=st.none() | st.integers(0, 40),
    throttles=st.booleans(),
    capacities=st.lists(CAPACITY, max_size=8),
    creates=st.lists(SETS, min_size=1, max_size=3),
    ended=st.sets(st.integers(0, 12)),
)
def test_whatever_the_cloud_has_the_books_are_right_in_the_end(
    *,
    limits: dict[str, dict[str, Any]],
    most: int | None,
    throttles: bool,
    capacities: list[dict[str, Any]],
    creates: list[list[tuple[int, str | None, str | None]]],
    ended: set[int],
) -> None:
    array = {"throttleCapacity": throttles, "maxCoreCount": most}
    world = three(**{**limits, "b": {**limits["b"], "vcpuCount": 6}, "array": array})
    for one in capacities:
        world.ec2.capacity(
            one["remaining"], instance_type=EC2[one["machine"]], subnet_id=one["subnet"], code=one["code"]
        )
    operations = [world.create_sets(*map(_line, sets))[0] for sets in creates]
    for operation in operations:
        if operation.is_running:
            world.step("launch", operation.id)
    doomed = [node.id for place, node in enumerate(world.nodes()) if place in ended]
    world.terminate(ids=doomed)
    assert invariants.always(world) == []
    world.drive_all()
    world.reconcile()
    assert invariants.at_rest(world) == []
    asked = {operation.id: operation.total for operation in operations}
    assert all(count <= asked[key] for key, count in invariants.launched(world).items())


def _line(drawn: tuple[int, str | None, str | None]) -> dict[str, Any]:
    count, machine, group = drawn
    line: dict[str, Any] = {"count": count, "nodearray": "ondemand", "placementGroupId": group}
    return {**line, "definition": {"machineType": machine}} if machine else line


def test_a_launch_that_is_done_again_leaves_alone_nodes_that_are_tried_again_by_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(nodearray("ondemand", bucket(maxCount=1)))
    create, _ = world.create(1)
    world.ec2.capacity(0)
    commit, launch = world.repository.commit, world.compute.launch

    def cut_off(*writes: Write) -> None:
        if world.nodes()[0].status is NodeStatus.FAILED:
            raise StoreThrottled("not now")
        commit(*writes)

    with monkeypatch.context() as patch:
        patch.setattr(world.repository, "commit", cut_off)
        with pytest.raises(StoreThrottled):
            world.step("launch", create.id)
    world.ec2.capacity(None)
    again = retry_failed(world.store, world.workflows, CLUSTER)

    def overtaken(request: LaunchRequest) -> LaunchResult:
        monkeypatch.undo()
        result = launch(request)
        world.step("launch", create.id)
        return result

    monkeypatch.setattr(world.compute, "launch", overtaken)
    assert world.drive(again).state is OperationState.SUCCEEDED
    world.drive_all()
    assert [node.status for node in world.nodes()] == [NodeStatus.READY]
    assert invariants.at_rest(world) == []
