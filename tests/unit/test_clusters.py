"""Clusters: written whole, on condition of their revision."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from paddock.clusters.status import cluster_status
from paddock.clusters.write import delete_cluster, put_cluster
from paddock.errors import ComputeThrottled, InvalidRequest, NodesInUse, NotFound, RevisionConflict
from paddock.http.views.cluster import cluster_view, status_view
from paddock.model.definition import ClusterDefinition
from paddock.model.identity import ClusterName
from paddock.model.operation import OperationState
from paddock.ports.repository import Put
from paddock.requests.bodies import ClusterWrite
from paddock.store.lookup import require_cluster
from tests.fakes import invariants
from tests.fakes.world import CLUSTER, REGION, World, bucket, nodearray

if TYPE_CHECKING:
    from paddock.model.cluster import Cluster


@pytest.fixture
def world() -> World:
    return World(nodearray("a", bucket("c7i-large"), bucket("c7i-xlarge")), nodearray("b"))


def stored(world: World) -> Cluster:
    return require_cluster(world.repository, CLUSTER)


def put(world: World, name: str, expected: int | None = None, /, **body: Any) -> tuple[Cluster, bool]:
    document = ClusterWrite.model_validate({"nodearrays": [nodearray()], **body})
    return put_cluster(world.store, world.compute, REGION, ClusterName(name), document, expected)


def delete(world: World, expected: int | None = None, name: str = CLUSTER) -> None:
    delete_cluster(world.store, ClusterName(name), expected)


@pytest.mark.proves("PUT /clusters/{cluster}: 200, 201")
def test_a_put_creates_and_then_replaces(world: World) -> None:
    first, is_new = put(world, "my demo")
    assert is_new
    second, is_new = put(world, "my demo", first.revision, maxCount=7)
    assert not is_new
    assert second.revision > first.revision
    assert require_cluster(world.repository, ClusterName("my demo")) == second
    assert second.definition.max_count == 7


def test_zero_is_the_revision_of_what_does_not_exist(world: World) -> None:
    assert put(world, "new", 0)[1]


def test_the_revision_grows_also_where_the_clock_stands_behind(world: World) -> None:
    before = stored(world)
    world.clock.advance(-3_600)
    after, _ = put(world, CLUSTER, before.revision, nodearrays=[nodearray("b")])
    assert after.revision == before.revision + 1


@pytest.mark.proves("PUT /clusters/{cluster}: 409", "two quick updates: the second is refused with 409")
@pytest.mark.parametrize("off", [None, -1, 1, "zero"])
def test_a_put_on_any_other_revision_is_refused_and_told_the_current_one(
    world: World, off: int | str | None
) -> None:
    before = stored(world)
    expected = before.revision + off if isinstance(off, int) else 0 if off else None
    with pytest.raises(RevisionConflict) as error:
        put(world, CLUSTER, expected)
    assert error.value.revision == before.revision
    assert stored(world) == before


@pytest.mark.parametrize("expected", [None, 0])
def test_a_put_without_a_revision_is_told_to_send_the_one_that_was_read(
    world: World, expected: int | None
) -> None:
    revision = stored(world).revision
    with pytest.raises(RevisionConflict) as error:
        put(world, CLUSTER, expected)
    assert error.value.message == (
        f'cluster "{CLUSTER}" is at revision {revision}, send the revision that you read'
    )


def test_a_put_with_a_revision_never_creates(world: World) -> None:
    with pytest.raises(RevisionConflict) as error:
        put(world, "new", 5)
    assert error.value.revision == 0
    with pytest.raises(NotFound):
        require_cluster(world.repository, ClusterName("new"))


def test_the_revision_is_judged_before_the_definition(world: World) -> None:
    with pytest.raises(RevisionConflict):
        put(world, CLUSTER, 1, nodearrays=[nodearray(region="mars-1")])


@pytest.mark.parametrize("name", ["", " x", "a#b", "a/b", "x" * 129])
def test_a_name_that_cannot_be_is_refused(world: World, name: str) -> None:
    with pytest.raises(InvalidRequest):
        put(world, name)


def test_the_name_in_the_body_is_that_of_the_path(world: World) -> None:
    with pytest.raises(InvalidRequest):
        put(world, "one", name="other")
    assert put(world, "one", name="one")[1]


def test_the_region_is_the_deployment_s(world: World) -> None:
    with pytest.raises(InvalidRequest, match=REGION):
        put(world, "new", nodearrays=[nodearray(region="eu-west-1")])
    assert put(world, "new", nodearrays=[nodearray(region=REGION)])[1]


# Machine facts.


def test_facts_left_out_are_what_the_cloud_says_and_those_given_win(world: World) -> None:
    array = nodearray("a", {"machineType": "p4d-24xlarge", "gpuCount": 7})
    [(_, one)] = put(world, "new", nodearrays=[array])[0].definition.buckets()
    assert (one.vcpu_count, one.pcpu_count, one.memory, one.gpu_count) == (96, 48, 1152.0, 7)
    assert one.infiniband is True


def test_an_instance_type_that_the_cloud_does_not_offer_is_refused(world: World) -> None:
    array = nodearray("a", {"machineType": "no-such"}, {"machineType": "c5-large"})
    with pytest.raises(InvalidRequest, match=r"no\.such") as error:
        put(world, "new", nodearrays=[array])
    assert "c5.large" not in error.value.message


def test_an_instance_type_that_the_cloud_does_not_offer_will_do_with_its_facts(world: World) -> None:
    array = nodearray("a", {"machineType": "no-such", "vcpuCount": 6, "memory": 3})
    [(_, one)] = put(world, "new", nodearrays=[array])[0].definition.buckets()
    assert (one.vcpu_count, one.pcpu_count, one.memory, one.gpu_count) == (6, 6, 3.0, 0)
    assert one.infiniband is False


def test_a_cloud_that_does_not_answer_leaves_everything_as_it_was(world: World) -> None:
    world.ec2.fail_next("DescribeInstanceTypes", "RequestLimitExceeded")
    with pytest.raises(ComputeThrottled):
        put(world, "new", nodearrays=[nodearray("a", {"machineType": "c5-large"})])
    with pytest.raises(NotFound):
        require_cluster(world.repository, ClusterName("new"))


# Nodes hold what they use.


@pytest.mark.proves("PUT /clusters/{cluster}: 409")
@pytest.mark.parametrize(
    "arrays",
    [[nodearray("b")], [nodearray("a", bucket("c7i-large")), nodearray("b")], []],
    ids=["array", "bucket", "everything"],
)
def test_what_nodes_use_cannot_be_taken_out_of_the_definition(
    world: World, arrays: list[dict[str, Any]]
) -> None:
    operation, _ = world.create(1, "a", definition={"machineType": "c7i-xlarge"})
    before = stored(world)
    for _ in range(2):
        with pytest.raises(NodesInUse):
            put(world, CLUSTER, before.revision, nodearrays=arrays)
        assert stored(world) == before
        world.drive(operation)
    world.drive(world.terminate(ids=[node.id for node in world.nodes()])[0])
    assert put(world, CLUSTER, before.revision, nodearrays=arrays)


def test_what_no_node_uses_can_go_and_limits_can_shrink(world: World) -> None:
    world.create(2, "a", definition={"machineType": "c7i-xlarge"})
    only = nodearray("a", bucket("c7i-xlarge", maxCount=1), maxCount=0)
    after, _ = put(world, CLUSTER, stored(world).revision, nodearrays=[only], maxCount=1)
    assert stored(world) == after
    world.drive_all()
    assert [node.status for node in world.nodes()] == ["Ready", "Ready"]
    assert world.create(1, "a")[1][0].count == 0
    assert invariants.at_rest(world, limits=False) == []


def test_a_failed_node_still_uses_its_bucket(world: World) -> None:
    world.ec2.capacity(0)
    world.ready(1, array="a")
    with pytest.raises(NodesInUse):
        put(world, CLUSTER, stored(world).revision, nodearrays=[nodearray("b")])


# Deleting.


@pytest.mark.proves(
    "DELETE /clusters/{cluster}: 200",
    "a name made again while its bearer ends: works once it is gone, and before that says why not",
)
def test_a_cluster_without_nodes_can_be_deleted_and_made_again(world: World) -> None:
    before = stored(world)
    delete(world, before.revision)
    with pytest.raises(NotFound):
        stored(world)
    assert world.repository.ledger(CLUSTER) is None
    again, is_new = put(world, CLUSTER)
    assert is_new
    assert again.revision > before.revision


def test_a_delete_need_not_name_a_revision(world: World) -> None:
    delete(world)
    with pytest.raises(NotFound):
        delete(world)


@pytest.mark.proves("DELETE /clusters/{cluster}: 409")
@pytest.mark.parametrize("expected", [0, 1])
def test_a_delete_on_another_revision_is_refused(world: World, expected: int) -> None:
    before = stored(world)
    with pytest.raises(RevisionConflict) as error:
        delete(world, expected)
    assert error.value.revision == before.revision
    assert stored(world) == before


@pytest.mark.proves("DELETE /clusters/{cluster}: 409")
def test_a_cluster_with_nodes_cannot_be_deleted(world: World) -> None:
    operation, _ = world.create(2, "a")
    for _ in range(2):
        with pytest.raises(NodesInUse) as error:
            delete(world)
        assert error.value.node_count == 2
        world.drive(operation)
    world.drive(world.terminate(ids=[node.id for node in world.nodes()])[0])
    delete(world)


@pytest.mark.parametrize("name", ["other", "", "a#b", "x" * 1_000])
def test_what_does_not_exist_cannot_be_deleted(world: World, name: str) -> None:
    with pytest.raises(NotFound):
        delete(world, name=name)


@pytest.mark.parametrize(
    "change", [{"vcpuCount": 1}, {"templateId": "other"}, {"instanceType": "c7i.2xlarge"}], ids=str
)
def test_a_bucket_with_nodes_stays_the_machine_that_they_were_counted_as(change: dict[str, Any]) -> None:
    world = World()
    world.create(1)
    current = world.repository.cluster(CLUSTER)
    assert current is not None
    changed = {"nodearrays": [nodearray("ondemand", bucket(**change))]}
    with pytest.raises(NodesInUse, match="c7i-xlarge in ondemand"):
        world.put(changed, current.revision)
    lowered = {"nodearrays": [nodearray("ondemand", bucket(maxCount=0, pricePerHour=1.0))]}
    world.put(lowered, current.revision)


def test_a_node_array_in_use_stays_on_demand_or_spot() -> None:
    """Its nodes would count against the wrong quota."""
    big = bucket("c7i-xlarge")
    world = World(nodearray("a", big), nodearray("b", big))
    world.ready(1, array="a")
    revision = require_cluster(world.repository, CLUSTER).revision
    with pytest.raises(NodesInUse, match=r"interruptible: c7i-xlarge in a$"):
        world.put({"nodearrays": [nodearray("a", big, interruptible=True), nodearray("b", big)]}, revision)
    world.put({"nodearrays": [nodearray("a", big), nodearray("b", big, interruptible=True)]}, revision)


# Subnets and their zones.


def test_the_zone_of_each_subnet_is_learned_and_shown(world: World) -> None:
    world.ec2.zones({"subnet-00000001": "us-east-1d", "subnet-00000002": "us-east-1f"})
    cluster, _ = put(world, "new")
    assert cluster.zones == {"subnet-00000001": "us-east-1d", "subnet-00000002": "us-east-1f"}
    status = cluster_status(world.store, ClusterName("new"), with_nodes=False)
    [array] = status_view(status, REGION)["nodearrays"]
    assert array["nodearray"]["AvailabilityZones"] == cluster.zones
    again = cluster_view(cluster)
    assert put(world, "new", again.pop("revision"), **again)[0].zones == cluster.zones


def test_a_subnet_that_the_cloud_does_not_know_is_refused(world: World) -> None:
    world.ec2.subnets(["subnet-00000001"])
    with pytest.raises(InvalidRequest, match=r"must be a subnet that EC2 knows here: subnet-00000002$"):
        put(world, "new")
    with pytest.raises(NotFound):
        require_cluster(world.repository, ClusterName("new"))


def test_a_subnet_is_named_once() -> None:
    twice = {"nodearrays": [nodearray(subnetIds=["subnet-00000001", "subnet-00000001"])]}
    with pytest.raises(ValidationError, match="must name each subnet once"):
        ClusterWrite.model_validate(twice)


def test_a_cluster_that_was_written_with_a_repeat_can_still_be_used(world: World) -> None:
    """Definitions were taken with repeats before, and without looking for zones."""
    twice = nodearray(subnetIds=["subnet-00000001", "subnet-00000001", "subnet-00000002"])
    definition = ClusterDefinition.model_validate({"nodearrays": [twice]})
    before = stored(world)
    old = replace(before, definition=definition, zones={})
    world.store.commit(Put(old, was=before))
    world.ec2.zones({"subnet-00000001": "us-east-1a", "subnet-00000002": "us-east-1a"})
    world.ec2.capacity(1, subnet_id="subnet-00000001")
    operation, _ = world.create(3)
    assert world.drive(operation).state is OperationState.SUCCEEDED
    assert [node["subnet_id"][-1] for node in world.ec2.snapshot()["instances"].values()] == ["1", "2", "2"]
