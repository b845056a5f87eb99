"""The shapes that clients read, and crash on where a field is missing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from paddock.clusters.status import cluster_status
from paddock.http.views.cluster import cluster_view, status_view
from paddock.http.views.node import creation_view, management_view, node_list_view, node_view, operation_view
from paddock.http.views.virtual_cluster import envelope, virtual_cluster_view, virtual_clusters_view
from paddock.model.configuration import DEFAULT_CONFIGURATION
from paddock.model.operation import Action
from paddock.nodes.read import page_of_nodes
from paddock.requests.bodies import ClusterWrite
from tests.fakes.world import CLUSTER, REGION, World, bucket, nodearray

if TYPE_CHECKING:
    from collections.abc import Callable

STATUS = {"maxCount", "maxCoreCount", "nodearrays", "state", "targetState"}
ARRAY = {"name", "nodearray", "buckets", "maxCount", "maxCoreCount"}
BUCKET = {
    "bucketId",
    "definition",
    "maxCount",
    "maxCoreCount",
    "activeCount",
    "activeCoreCount",
    "availableCount",
    "availableCoreCount",
    "familyQuotaCoreCount",
    "familyConsumedCoreCount",
    "regionalQuotaCoreCount",
    "regionalConsumedCoreCount",
    "placementGroups",
    "valid",
    "virtualMachine",
    "quotaCount",
    "quotaCoreCount",
    "consumedCoreCount",
    "familyQuotaCount",
    "regionalQuotaCount",
    "maxPlacementGroupSize",
    "maxPlacementGroupCoreSize",
    "invalidReason",
    "lastCapacityFailure",
}
MACHINE = {"vcpuCount": int, "pcpuCount": int, "gpuCount": int, "memory": float, "infiniband": bool}
NODE = {
    "Name": str,
    "NodeId": str,
    "Template": str,
    "MachineType": str,
    "Status": str,
    "TargetState": str,
    "State": str,
    "StatusMessage": str,
    "CoreCount": int,
    "Memory": float,
    "Interruptible": bool,
    "KeepAlive": bool,
    "Configuration": dict,
}
NULLABLE = {"Hostname", "PrivateIp", "InstanceId", "PlacementGroupId", "RequestId"}


def status(world: World, *, nodes: bool = False) -> dict[str, Any]:
    view = status_view(cluster_status(world.store, CLUSTER, with_nodes=nodes), REGION)
    sent: dict[str, Any] = json.loads(json.dumps(view, allow_nan=False))
    return sent


def fresh() -> World:
    return World(nodearray("a", {"machineType": "c5-large"}), nodearray("b", interruptible=True))


def used() -> World:
    world = fresh()
    world.ready(2, array="a", placementGroupId="ring")
    world.create(1, array="b")
    return world


@pytest.mark.proves("GET /clusters/{cluster}/status: 200")
@pytest.mark.parametrize("make", [fresh, used])
def test_a_status_has_every_field_that_clients_read(make: Callable[[], World]) -> None:
    view = status(make())
    assert view.keys() == STATUS
    for array in view["nodearrays"]:
        assert array.keys() >= ARRAY
        assert array["nodearray"]["Region"] == REGION
        assert array["nodearray"]["SubnetId"] == "subnet-00000001"
        for one in array["buckets"]:
            assert one.keys() == BUCKET
            assert one["definition"].keys() == {"machineType"}
            assert isinstance(one["placementGroups"], list)
            assert {name: type(value) for name, value in one["virtualMachine"].items()} == MACHINE
            counts = {name: value for name, value in one.items() if name.endswith(("Count", "Size"))}
            assert all(type(value) is int and value >= 0 for value in counts.values())
            assert one["lastCapacityFailure"] < 0


def test_nodes_stand_in_a_status_only_when_they_are_asked_for() -> None:
    world = used()
    plain, full = status(world), status(world, nodes=True)
    assert "nodes" not in plain
    assert sorted(node["Name"] for node in full["nodes"]) == ["a-1", "a-2", "b-1"]
    names = [one["activeNodes"] for array in full["nodearrays"] for one in array["buckets"]]
    assert names == [["a-1", "a-2"], ["b-1"]]
    assert status(fresh(), nodes=True)["nodes"] == []


def test_counts_stand_in_nodes_and_in_cores() -> None:
    one = bucket(vcpuCount=32, quotaCoreCount=100, maxPlacementGroupSize=5)
    world = World(nodearray("a", one), maxCount=100, maxCoreCount=10_000)
    world.create(2, array="a", placementGroupId="ring")
    [array] = status(world)["nodearrays"]
    [found] = array["buckets"]
    expected = {
        "maxCount": 3,
        "maxCoreCount": 96,
        "activeCount": 2,
        "activeCoreCount": 64,
        "availableCount": 1,
        "availableCoreCount": 32,
        "quotaCount": 3,
        "quotaCoreCount": 100,
        "consumedCoreCount": 64,
        "familyQuotaCoreCount": 100,
        "familyConsumedCoreCount": 64,
        "regionalQuotaCoreCount": 100,
        "regionalConsumedCoreCount": 64,
        "maxPlacementGroupSize": 5,
        "maxPlacementGroupCoreSize": 160,
        "placementGroups": [{"name": "ring", "activeCount": 2, "activeCoreCount": 64}],
    }
    assert {name: found[name] for name in expected} == expected


def test_a_spot_bucket_has_a_family_quota_of_zero_that_limits_nothing() -> None:
    world = World(nodearray("spot", bucket(quotaCoreCount=16), interruptible=True))
    world.create(1, array="spot")
    [one] = status(world)["nodearrays"][0]["buckets"]
    family = [one[f"family{name}"] for name in ("QuotaCount", "QuotaCoreCount", "ConsumedCoreCount")]
    assert family == [0, 0, 0]
    assert (one["regionalQuotaCoreCount"], one["regionalConsumedCoreCount"]) == (16, 4)
    assert (one["maxCount"], one["availableCount"]) == (4, 3)


def test_the_accounts_quotas_stand_in_a_status() -> None:
    world = World(
        nodearray("spot", bucket(), interruptible=True),
        nodearray("a", bucket(), bucket("g5-xlarge"), bucket("hpc6a-48xlarge", vcpuCount=96)),
    )
    world.account(L_1216C47A=18, L_34B43A08=9, L_DB2E81BA=0)
    world.create(2, array="a")
    world.create(1, array="spot")
    found = {
        (array["name"], one["definition"]["machineType"]): [
            (one[f"{kind}uotaCount"], one[f"{kind}uotaCoreCount"], one[f"{consumed}onsumedCoreCount"])
            for kind, consumed in (("q", "c"), ("familyQ", "familyC"), ("regionalQ", "regionalC"))
        ]
        for array in status(world)["nodearrays"]
        for one in array["buckets"]
    }
    unlimited = 10_000 * 96
    on_demand = 18 + unlimited
    assert found == {
        ("a", "c7i-xlarge"): [(4, 18, 8), (4, 18, 8), (on_demand // 4, on_demand, 8)],
        ("a", "g5-xlarge"): [(0, 0, 0), (0, 0, 0), (on_demand // 4, on_demand, 8)],
        ("a", "hpc6a-48xlarge"): [
            *[(10_000, unlimited, 0), (10_000, unlimited, 0), (on_demand // 96, on_demand, 8)]
        ],
        ("spot", "c7i-xlarge"): [(2, 9, 4), (0, 0, 0), (2, 9, 4)],
    }


def test_autoscalers_that_share_quotas_among_buckets_do_not_cut_short_what_is_free() -> None:
    """They take the family's quota from a machine type's first bucket, and the Region's from a market's."""
    spot = nodearray("spot", bucket(quotaCoreCount=0), bucket("g5-xlarge"), interruptible=True)
    first = nodearray("first", bucket(quotaCoreCount=4), bucket("m5-large", quotaCoreCount=0))
    second = nodearray("second", bucket(quotaCoreCount=400), bucket("g5-xlarge"), bucket("m5-xlarge"))
    world = World(spot, first, second)
    world.account(L_1216C47A=40, L_DB2E81BA=80, L_3819A6DF=64)
    for array, count in (("first", 2), ("second", 3), ("spot", 1)):
        world.create(count, array=array)
    families: dict[str, tuple[int, int]] = {}
    regions: dict[bool, tuple[int, int]] = {}
    for array in status(world)["nodearrays"]:
        spot_array = array["nodearray"]["Interruptible"]
        for one in array["buckets"]:
            cores, free = one["virtualMachine"]["vcpuCount"], one["availableCoreCount"]
            pairs = {
                kind: (one[f"{kind}QuotaCoreCount"], one[f"{kind}ConsumedCoreCount"])
                for kind in ("family", "regional")
            }
            family = families.setdefault(one["definition"]["machineType"], pairs["family"])
            region = regions.setdefault(spot_array, pairs["regional"])
            for quota, consumed in [region] if spot_array else [family, region]:
                assert consumed <= quota
                assert (quota - consumed) // cores * cores >= free
            if array["name"] != "first" and one["quotaCoreCount"]:
                assert free > 0


def test_the_machine_type_has_no_dot_and_facts_left_out_are_what_the_cloud_says() -> None:
    [one] = status(fresh())["nodearrays"][0]["buckets"]
    assert one["definition"]["machineType"] == "c5-large"
    machine = {"vcpuCount": 2, "pcpuCount": 1, "gpuCount": 0, "memory": 4.0, "infiniband": False}
    assert one["virtualMachine"] == machine


def test_a_bucket_keeps_its_id_over_a_new_definition() -> None:
    world = World(nodearray("a", bucket("x-1"), bucket("x-2")))
    before = status(world)["nodearrays"][0]["buckets"][1]["bucketId"]
    stored = world.repository.cluster(CLUSTER)
    assert stored is not None
    world.put({"nodearrays": [nodearray("a", bucket("x-2", maxCount=1))]}, stored.revision)
    assert status(world)["nodearrays"][0]["buckets"][0]["bucketId"] == before


@pytest.mark.parametrize("ready", [False, True])
def test_a_node_has_every_field_that_clients_read(*, ready: bool) -> None:
    world = World()
    operation, _ = world.create(1, request_id="r")
    if ready:
        world.drive(operation)
    [view] = [json.loads(json.dumps(node_view(node))) for node in world.nodes()]
    assert {name: type(view[name]) for name in NODE} == NODE
    assert view.keys() >= NULLABLE
    assert [bool(view[name]) for name in ("Hostname", "PrivateIp", "InstanceId")] == [ready] * 3
    assert (view["Status"], view["State"]) == (("Ready", "Started") if ready else ("Acquiring",) * 2)
    assert (view["TargetState"], view["RequestId"], view["Template"]) == ("Started", "r", "ondemand")


def test_the_state_of_a_node_is_its_target_state_once_it_is_there() -> None:
    """Host factories compare the two, or wait for a state of ``Started``, and never look at the status."""
    world = World()
    [off] = world.ready(1, nodeAttributes={"StartAutomatically": False})
    [stopped] = world.ready(1)
    world.drive(world.manage(Action.DEALLOCATE, ids=[stopped.id])[0])
    [ready, ending] = world.ready(2)
    world.terminate(ids=[ending.id])
    views = {node.id: node_view(node) for node in world.nodes()}
    for node in (off, stopped, ready):
        assert views[node.id]["State"] == views[node.id]["TargetState"]
    assert (views[ending.id]["State"], views[ending.id]["TargetState"]) == ("Terminating", "Terminated")


def test_hostnames_of_live_nodes_are_unique_and_short() -> None:
    world = World()
    names = [node_view(node)["Hostname"] for node in world.ready(20)]
    assert len(set(names)) == 20
    assert not any("." in name for name in names)


def test_attributes_of_a_client_stand_beside_ours_and_never_in_their_place() -> None:
    world = World(nodearray(configuration={"a": 1, "b": 1}))
    attributes = {"Color": "red", "Status": "Off", "KeepAlive": True, "Configuration": {"b": 2}}
    [node] = world.ready(1, nodeAttributes=attributes)
    view = node_view(node)
    assert (view["Color"], view["Status"], view["KeepAlive"]) == ("red", "Ready", True)
    assert view["Configuration"] == {"a": 1, "b": 2, **DEFAULT_CONFIGURATION}


def test_a_creation_tells_its_operation_and_a_message_where_a_set_fell_short() -> None:
    world = World(nodearray(maxCount=3))
    view = creation_view(*world.create_sets(*[{"count": 2, "nodearray": "ondemand"}] * 3))
    assert view["operationId"]
    assert view["sets"][0] == {"added": 2}
    assert [one["added"] for one in view["sets"]] == [2, 1, 0]
    assert all(one["message"] for one in view["sets"][1:])


def test_a_management_result_says_of_each_node_how_it_went() -> None:
    world = World()
    world.ready(1)
    world.ready(1, nodeAttributes={"KeepAlive": True})
    view = management_view(*world.terminate(names=["ondemand-1", "ondemand-2", "unknown"]))
    by_name = {one["name"]: one for one in view["nodes"]}
    assert by_name.keys() == {"ondemand-1", "ondemand-2"}
    assert by_name["ondemand-1"].keys() == {"name", "id", "status"}
    assert by_name["ondemand-1"]["status"] == "OK"
    assert by_name["ondemand-2"]["status"] == "Error"
    assert "KeepAlive" in by_name["ondemand-2"]["error"]


@pytest.mark.proves("GET /operations/{operation}: 200")
def test_an_operation_tells_how_far_it_is() -> None:
    world = World()
    world.ec2.capacity(2)
    operation, _ = world.create(3, request_id="r")
    running = operation_view(operation, world.nodes())
    assert (running["action"], running["state"], running["finishTime"]) == ("create", "Running", None)
    assert running["startTime"].endswith("Z")
    assert running["progress"] == {"total": 3, "succeeded": 0, "failed": 0, "running": 3}
    assert (running["requestId"], len(running["nodes"])) == ("r", 3)
    ended = operation_view(world.drive(operation), world.nodes())
    assert ended["state"] == "PartiallySucceeded"
    assert ended["progress"] == {"total": 3, "succeeded": 2, "failed": 1, "running": 0}
    assert "InsufficientInstanceCapacity" in ended["error"]
    assert ended["finishTime"] >= ended["startTime"]


def test_a_list_of_nodes_has_the_operation_only_where_one_was_asked_for() -> None:
    world = World()
    operation, _ = world.create(1)
    assert node_list_view(page_of_nodes(world.repository, CLUSTER)).keys() == {"nodes"}
    view = node_list_view(page_of_nodes(world.repository, CLUSTER, operation.id))
    assert view.keys() == {"nodes", "operation"}
    assert view["operation"]["operationId"] == operation.id


@pytest.mark.proves("GET /clusters/{cluster}: 200")
def test_a_cluster_is_told_so_that_it_can_be_put_again() -> None:
    world = World(nodearray(configuration={"a": [1, None]}), maxCount=5)
    stored = world.repository.cluster(CLUSTER)
    assert stored is not None
    view = json.loads(json.dumps(cluster_view(stored)))
    body = ClusterWrite.model_validate(view)
    assert (body.name, body.revision, body.definition()) == (CLUSTER, stored.revision, stored.definition)


@pytest.mark.proves("GET /virtual_clusters: 200")
def test_virtual_clusters_stand_in_their_envelope() -> None:
    world = World()
    [node] = world.ready(1)
    one = virtual_cluster_view(world.claim("vc", x4c8g=1))
    assert one["nodeInstances"] == {node.id: {"hostname": node.dns_name, "templateId": "4c8g"}}
    assert one.keys() == {
        *("virtualClusterId", "allocationMode", "divisible", "nodeInstances", "revision"),
        *("replicaSets", "pendingReplicaSets", "cluster", "conditions"),
    }
    assert (one["allocationMode"], one["divisible"], one["cluster"]) == ("mixed", False, CLUSTER)
    assert envelope("done", one) == {"result": True, "msg": "done", "data": one}


def test_a_page_of_virtual_clusters_has_a_token_only_where_there_may_be_more() -> None:
    world = World()
    for name in ("a", "b"):
        world.claim(name)
    first = virtual_clusters_view(*world.repository.virtual_clusters(1))
    assert [one["virtualClusterId"] for one in first["virtualClusters"]] == ["a"]
    rest = virtual_clusters_view(*world.repository.virtual_clusters(1, first["nextToken"]))
    assert [one["virtualClusterId"] for one in rest["virtualClusters"]] == ["b"]
    assert "nextToken" not in rest
