"""Creating nodes: what is added, under which names, and what is refused."""

from __future__ import annotations

from hashlib import shake_256
from time import process_time
from typing import TYPE_CHECKING, Any

import pytest

from paddock.errors import DuplicateRequest, InvalidRequest, NotFound, RecordTooLarge, StoreThrottled
from paddock.model.definition import MAX_BUCKETS
from paddock.model.identity import ClusterName, RequestId, is_id
from paddock.model.limits import count_bucket
from paddock.model.node import NodeStatus
from paddock.model.operation import OperationState
from paddock.nodes.create import create_nodes
from paddock.nodes.read import list_nodes
from paddock.operations.read import find_operation
from paddock.requests.bodies import MAX_SETS, NodeCreationRequest
from tests.fakes import invariants
from tests.fakes.world import CLUSTER, World, bucket, nodearray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.node import Node
    from paddock.ports.repository import Write

SMALL, LARGE = "c7i-large", "c7i-xlarge"


def two_buckets(**changes: Any) -> World:
    return World(nodearray("ondemand", bucket(SMALL, maxCount=2), bucket(LARGE, maxCount=5), **changes))


def in_order(world: World) -> list[Node]:
    """The nodes in the order in which they were asked for; their ids order those of one request alone."""
    return sorted(world.nodes(), key=lambda node: (node.managed_at, node.id))


def names(world: World) -> list[str]:
    return [node.name for node in in_order(world)]


def machines(world: World) -> list[str]:
    return [node.spec.machine_type for node in in_order(world)]


def added(world: World, *sets: dict[str, Any]) -> list[int]:
    lines = [{"nodearray": "ondemand", **one} for one in sets]
    return [one.count for one in world.create_sets(*lines)[1]]


@pytest.mark.proves(
    "POST /clusters/{cluster}/nodes/create: 202",
    "node: nothing → Acquiring",
    "operation: nothing → Running",
)
def test_nodes_can_be_read_as_soon_as_they_are_asked_for() -> None:
    world = World()
    # The PUT of the cluster has asked for its subnets.
    world.ec2.calls.clear()
    operation, [one] = world.create(3, request_id="r")
    assert (one.count, one.message) == (3, "")
    assert operation.is_running
    assert is_id(operation.id)
    for query in ((None, None), (operation.id, None), (None, "r")):
        nodes, _ = list_nodes(world.repository, CLUSTER, *query)
        assert [node.name for node in nodes] == ["ondemand-1", "ondemand-2", "ondemand-3"]
    assert all(node.status is NodeStatus.ACQUIRING for node in world.nodes())
    assert invariants.always(world) == []
    assert world.ec2.calls == {}


@pytest.mark.proves("more than the maximum asked for: `added` is less")
def test_sets_are_clamped_one_after_another_in_their_order() -> None:
    world = World(nodearray("a", maxCount=3), nodearray("b", maxCount=3), maxCount=5)
    sets = [("a", 2), ("b", 1), ("a", 2), ("b", 2), ("b", 0)]
    operation, result = world.create_sets(*({"nodearray": array, "count": n} for array, n in sets))
    assert [one.count for one in result] == [2, 1, 1, 1, 0]
    assert [bool(one.message) for one in result] == [False, False, True, True, False]
    assert operation.total == 5
    assert names(world) == ["a-1", "a-2", "b-1", "a-3", "b-2"]


def test_all_sets_of_a_request_are_of_one_operation_and_launch() -> None:
    world = two_buckets()
    sets = [
        {"count": 2, "definition": {"machineType": one}, "nodearray": "ondemand"} for one in (SMALL, LARGE)
    ]
    operation, _ = world.create_sets(*sets)
    assert world.drive(operation).state is OperationState.SUCCEEDED
    assert {node.created_by for node in world.nodes()} == {operation.id}
    assert machines(world) == [SMALL, SMALL, LARGE, LARGE]
    instances = world.ec2.snapshot()["instances"]
    assert [instances[node.instance_id]["instance_type"] for node in world.nodes()] == [
        *["c7i.large"] * 2,
        *["c7i.xlarge"] * 2,
    ]


# Choosing a bucket.


@pytest.mark.parametrize(
    ("count", "expected"),
    [(2, [SMALL] * 2), (3, [LARGE] * 3), (5, [LARGE] * 5), (6, [SMALL] * 2)],
)
def test_without_a_definition_the_first_bucket_that_takes_the_whole_set_is_used(
    count: int, expected: list[str]
) -> None:
    world = two_buckets()
    assert added(world, {"count": count}) == [len(expected)]
    assert machines(world) == expected


def test_a_definition_names_the_bucket() -> None:
    world = two_buckets()
    assert added(world, {"count": 3, "definition": {"machineType": SMALL}}) == [2]
    assert machines(world) == [SMALL] * 2


def test_each_set_chooses_by_what_the_sets_before_it_left() -> None:
    world = two_buckets()
    assert added(world, *[{"count": 2}] * 4) == [2, 2, 2, 0]
    assert machines(world) == [SMALL] * 2 + [LARGE] * 4


@pytest.mark.parametrize(
    ("change", "known"),
    [
        ({"nodearray": "none"}, "one of: ondemand"),
        ({"nodearray": "Ondemand"}, "one of: ondemand"),
        ({"definition": {"machineType": "c5-large"}}, SMALL),
    ],
)
def test_a_node_array_or_bucket_that_is_not_there_refuses_the_whole_request(
    change: dict[str, Any], known: str
) -> None:
    world = two_buckets()
    good = {"count": 1, "nodearray": "ondemand"}
    with pytest.raises(InvalidRequest, match=known):
        world.create_sets(good, {**good, **change}, request_id="r")
    assert world.nodes() == []
    assert world.repository.request(CLUSTER, RequestId("r")) is None
    assert world.create_sets(good, request_id="r")[1][0].count == 1


# Placement groups.


def test_a_placement_group_takes_as_many_as_its_size() -> None:
    world = World(nodearray("ondemand", bucket(maxPlacementGroupSize=3)))
    line = {"count": 2, "placementGroupId": "ring"}
    assert added(world, line, line, line, {**line, "placementGroupId": "other"}) == [2, 1, 0, 2]
    message = world.create(2, placementGroupId="ring")[1][0].message
    assert "placement group ring" in message
    assert [node.placement_group_id for node in world.nodes()] == ["ring"] * 3 + ["other"] * 2
    world.drive_all()
    assert invariants.at_rest(world) == []


def test_a_placement_group_has_room_again_once_nodes_are_gone() -> None:
    world = World(nodearray("ondemand", bucket(maxPlacementGroupSize=2)))
    world.ready(2, placementGroupId="ring")
    world.drive(world.terminate(names=["ondemand-1"])[0])
    assert added(world, {"count": 2, "placementGroupId": "ring"}) == [1]


def test_a_placement_group_has_one_machine_type() -> None:
    world = two_buckets()
    ring = {"count": 1, "placementGroupId": "ring"}
    assert added(world, {**ring, "definition": {"machineType": LARGE}}) == [1]
    assert added(world, {**ring, "definition": {"machineType": SMALL}}) == [0]
    assert added(world, ring) == [1]
    assert machines(world) == [LARGE] * 2


def test_a_placement_group_is_followed_also_where_it_cannot_take_the_whole_set() -> None:
    world = two_buckets()
    ring = {"placementGroupId": "ring"}
    assert added(world, {**ring, "count": 3, "definition": {"machineType": LARGE}}) == [3]
    assert added(world, {**ring, "count": 4}) == [2]
    assert machines(world) == [LARGE] * 5


def test_placement_groups_of_one_name_in_two_node_arrays_are_two() -> None:
    world = World(nodearray("a"), nodearray("b", bucket(SMALL)))
    for array in ("a", "b"):
        operation, _ = world.create(2, array, placementGroupId="ring")
        assert world.drive(operation).state is OperationState.SUCCEEDED
    groups = {one["group"] for one in world.ec2.snapshot()["instances"].values()}
    assert len(groups) == 2


# Names.


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"count": 2}, ["ondemand-1", "ondemand-2"]),
        ({"count": 2, "nameFormat": "n%d"}, ["n1", "n2"]),
        ({"count": 2, "nameFormat": "%d.x"}, ["1.x", "2.x"]),
        ({"count": 2, "nameFormat": "n-%d", "nameOffset": 7}, ["n-7", "n-8"]),
        ({"count": 2, "nameFormat": "n-%d", "nameOffset": 0}, ["n-0", "n-1"]),
        ({"count": 1, "nameFormat": "literal"}, ["literal"]),
    ],
)
def test_names_follow_their_format(line: dict[str, Any], expected: list[str]) -> None:
    world = World()
    assert added(world, line) == [len(expected)]
    assert names(world) == expected


def test_a_literal_name_is_given_once() -> None:
    world = World()
    literal = {"count": 1, "nameFormat": "login"}
    assert added(world, {**literal, "count": 3}, literal) == [1, 0]
    _, [one] = world.create(1, nameFormat="login")
    assert "login" in one.message
    assert names(world) == ["login"]


def test_the_lowest_free_numbers_are_given_over_all_nodes_that_exist() -> None:
    world = World()
    world.ready(5)
    operation, _ = world.terminate(names=["ondemand-2", "ondemand-4"])
    assert added(world, {"count": 1}) == [1]
    assert "ondemand-6" in names(world)
    world.drive(operation)
    assert added(world, {"count": 3}) == [3]
    assert sorted(names(world)) == [f"ondemand-{number}" for number in (1, 2, 3, 4, 5, 6, 7)]
    assert len({node.id for node in world.nodes()}) == 7


def test_a_failed_node_keeps_its_name() -> None:
    world = World()
    world.ec2.capacity(0)
    world.ready(1)
    world.create(1)
    assert names(world) == ["ondemand-1", "ondemand-2"]


def test_names_of_other_formats_are_not_in_the_way_but_the_very_same_are() -> None:
    world = World()
    assert added(
        world,
        {"count": 1, "nameFormat": "ondemand-2"},
        {"count": 1, "nameFormat": "ondemand-01"},
        {"count": 3},
    ) == [1, 1, 3]
    assert names(world) == ["ondemand-2", "ondemand-01", "ondemand-1", "ondemand-3", "ondemand-4"]


# Request ids.


@pytest.mark.proves("POST /clusters/{cluster}/nodes/create: 409", "a request sent twice: one launch")
def test_a_request_id_is_good_for_one_request() -> None:
    world = World()
    operation, _ = world.create(2, request_id="r")
    for _ in range(2):
        with pytest.raises(DuplicateRequest) as error:
            world.create(5, request_id="r")
        assert error.value.operation_id == operation.id
        assert operation.id in error.value.message
        world.drive_all()
    assert len(world.nodes()) == 2
    assert len(world.alive()) == 2


def test_a_request_id_belongs_to_its_cluster() -> None:
    world = World()
    world.put({"nodearrays": [nodearray()]}, name="other")
    mine, _ = world.create(1, request_id="r")
    world.clock.advance(1)
    body = NodeCreationRequest.model_validate(
        {"requestId": "r", "sets": [{"count": 1, "nodearray": "ondemand"}]}
    )
    other, _ = create_nodes(world.store, world.workflows, ClusterName("other"), body)
    assert mine.id != other.id
    found = find_operation(world.repository, RequestId("r"))
    assert found is not None
    assert found[0] == other


def test_without_a_request_id_each_request_is_new() -> None:
    world = World()
    assert world.create(1)[0].id != world.create(1)[0].id
    assert len(world.nodes()) == 2


# Nothing to add.


@pytest.mark.proves("operation: nothing → Failed")
def test_to_add_nothing_is_an_answer_with_a_reason_and_uses_the_request_id() -> None:
    world = World(maxCount=0)
    operation, [one] = world.create(3, request_id="r")
    assert one.count == 0
    assert one.message.startswith("0 of 3 added: ")
    assert (operation.state, operation.total) == (OperationState.FAILED, 0)
    assert operation.error
    assert operation.finish_time
    assert list_nodes(world.repository, CLUSTER, None, RequestId("r")) == ([], operation)
    with pytest.raises(DuplicateRequest):
        world.create(3, request_id="r")
    assert not world.workflows.live


@pytest.mark.proves("operation: nothing → Succeeded")
def test_to_ask_for_nothing_is_not_to_fail_without_a_reason() -> None:
    operation, [one] = World().create(0)
    assert (one.count, one.message) == (0, "")
    assert operation.state is OperationState.SUCCEEDED or operation.error


@pytest.mark.parametrize("cluster", ["other", "", "a#b", "demo\n", "x" * 1_000])
def test_a_cluster_that_does_not_exist_has_no_nodes_created(cluster: ClusterName) -> None:
    world = World()
    body = NodeCreationRequest.model_validate({"sets": [{"count": 1, "nodearray": "ondemand"}]})
    with pytest.raises(NotFound):
        create_nodes(world.store, world.workflows, cluster, body)


# What nodes are given.


def test_attributes_and_configuration_go_to_each_node_of_their_set() -> None:
    world = World(nodearray(configuration={"a": 1, "b": 1}))
    attributes = {"Color": "red", "KeepAlive": True, "Configuration": {"b": 2}}
    world.create_sets(
        {"count": 1, "nodearray": "ondemand", "nodeAttributes": attributes},
        {"count": 1, "nodearray": "ondemand"},
    )
    first, second = world.nodes()
    assert (first.attributes, first.keep_alive, first.configuration) == (
        {"Color": "red"},
        True,
        {"a": 1, "b": 2},
    )
    assert (second.attributes, second.keep_alive, second.configuration) == ({}, False, {"a": 1, "b": 1})


def test_a_definition_written_meanwhile_does_not_change_what_is_launched() -> None:
    world = World()
    operation, _ = world.create(1)
    stored = world.repository.cluster(CLUSTER)
    assert stored is not None
    world.put({"nodearrays": [nodearray(subnetIds=["subnet-0000000f"])]}, stored.revision)
    world.drive(operation)
    [instance] = world.ec2.snapshot()["instances"].values()
    assert instance["subnet_id"] == "subnet-00000001"


def test_a_request_too_large_for_one_record_is_refused_whole() -> None:
    world = World()
    texts = [shake_256(bytes([number])).hexdigest(8_000) for number in range(100)]
    sets = [{"count": 1, "nodearray": "ondemand", "nodeAttributes": {"x": text}} for text in texts]
    with pytest.raises(RecordTooLarge):
        world.create_sets(*sets, request_id="r")
    assert world.nodes() == []
    assert world.create(1, request_id="r")[1][0].count == 1


def test_as_many_sets_as_are_allowed_fit_into_one_request() -> None:
    """A resume program sends a set for each node, with the node's very name."""
    world = World()
    sets = [
        {"count": 1, "nodearray": "ondemand", "nameFormat": f"hpc-partition-{number}"}
        for number in range(MAX_SETS)
    ]
    operation, added = world.create_sets(*sets)
    assert {one.count for one in added} == {1}
    assert world.drive(operation).state is OperationState.SUCCEEDED
    assert len(world.alive()) == MAX_SETS


def test_many_sets_over_many_buckets_are_decided_in_time() -> None:
    """API Gateway waits for 29 seconds; a set must not look at every bucket through every other one."""
    buckets = [bucket(f"c7i-xlarge_{number}", instanceType="c7i.xlarge") for number in range(MAX_BUCKETS)]
    world = World(nodearray("ondemand", *buckets))
    began = process_time()
    world.create_sets(*[{"count": 1, "nodearray": "ondemand"}] * 50)
    assert process_time() - began < 5


@pytest.mark.parametrize("order", [["a", "b"], ["b", "a"]])
def test_whoever_comes_second_gets_what_is_left(order: Sequence[str]) -> None:
    world = World(nodearray("a"), nodearray("b"), maxCoreCount=20)
    assert [world.create(3, array)[1][0].count for array in order] == [3, 2]


def test_a_request_that_is_on_record_succeeds_also_if_its_nodes_cannot_be_written_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Told that it failed, the client would ask again, and get twice as many."""
    world = World()
    commit, calls = world.repository.commit, []

    def throttled_after_the_first(*writes: Write) -> None:
        calls.append(writes)
        if len(calls) > 1:
            raise StoreThrottled("slow down")
        commit(*writes)

    monkeypatch.setattr(world.repository, "commit", throttled_after_the_first)
    operation, (one,) = world.create(3)
    assert one.count == 3
    monkeypatch.undo()
    assert world.drive(operation).state is OperationState.SUCCEEDED
    assert len(world.alive()) == 3
    assert invariants.at_rest(world) == []


def test_a_create_is_answered_in_time_also_where_the_store_is_slow() -> None:
    """The workflow writes the records that the request has no time for."""
    world = World(nodearray("ondemand", bucket(quotaCoreCount=400_000)))
    commit = world.repository.commit

    def slow(*writes: Write) -> None:
        world.clock.advance(0.5)
        commit(*writes)

    world.repository.commit = slow  # type: ignore[method-assign]
    began = world.clock.seconds()
    operation, [line] = world.create(5000)
    assert line.count == 5000
    assert world.clock.seconds() - began < 15
    world.repository.commit = commit  # type: ignore[method-assign]
    assert 0 < len(world.nodes()) < 5000
    world.drive(operation)
    assert world.operation(operation.id).succeeded == 5000
    assert invariants.at_rest(world) == []


def test_buckets_without_room_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    uses_limits = 0

    def counting(*given: Any) -> Any:
        nonlocal uses_limits
        uses_limits += 1
        return count_bucket(*given)

    monkeypatch.setattr("paddock.nodes.plan.count_bucket", counting)
    world = World(
        nodearray("ondemand", *(bucket(f"m{n}", instanceType="c7i.xlarge", maxCount=1) for n in range(50)))
    )
    _, added = world.create_sets(*({"nodearray": "ondemand", "count": 1},) * 200)
    assert sum(line.count for line in added) == 50
    assert uses_limits < 600
