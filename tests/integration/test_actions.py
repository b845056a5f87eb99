"""Actions on nodes, over HTTP and the real workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.story import create, finished, new_cluster, nodes, only_bucket, ready_nodes

if TYPE_CHECKING:
    from tests.emulator.client import Client
    from tests.emulator.stack import Stack


def act(client: Client, cluster: str, action: str, *selected: dict[str, Any]) -> dict[str, Any]:
    reply = client.post(f"/clusters/{cluster}/nodes/{action}", {"ids": [node["NodeId"] for node in selected]})
    assert reply.status == 202
    assert {one["status"] for one in reply.json()["nodes"]} == {"OK"}
    operation = finished(client, reply.json()["operationId"])
    assert operation["state"] == "Succeeded", operation
    assert operation["action"] == action
    return operation


@pytest.mark.proves(
    "POST /clusters/{cluster}/nodes/deallocate: 202",
    "POST /clusters/{cluster}/nodes/start: 202",
    "POST /clusters/{cluster}/nodes/restart: 202",
    "POST /clusters/{cluster}/nodes/reimage: 202",
    "POST /clusters/{cluster}/nodes/remove: 202",
)
def test_a_node_is_deallocated_started_restarted_reimaged_and_removed(client: Client) -> None:
    cluster = new_cluster(client)
    [node] = ready_nodes(client, cluster, 1)
    act(client, cluster, "deallocate", node)
    [stopped] = nodes(client, cluster)
    assert (stopped["Status"], stopped["TargetState"]) == ("Deallocated", "Deallocated")
    assert stopped["InstanceId"] == node["InstanceId"]
    assert only_bucket(client, cluster)["activeCount"] == 0
    act(client, cluster, "start", node)
    act(client, cluster, "restart", node)
    [running] = nodes(client, cluster)
    assert (running["Status"], running["InstanceId"]) == ("Ready", node["InstanceId"])
    act(client, cluster, "reimage", node)
    [replaced] = nodes(client, cluster)
    assert (replaced["Status"], replaced["NodeId"]) == ("Ready", node["NodeId"])
    assert replaced["InstanceId"] != node["InstanceId"]
    act(client, cluster, "remove", node)
    assert nodes(client, cluster) == []


def test_a_fixed_node_that_does_not_start_automatically_is_started_and_shut_down(client: Client) -> None:
    cluster = new_cluster(client)
    attributes = {"Fixed": True, "StartAutomatically": False, "KeepAlive": False}
    line = {"count": 1, "nodearray": "ondemand", "nodeAttributes": attributes}
    made = client.post(f"/clusters/{cluster}/nodes/create", {"sets": [line]}).json()
    assert finished(client, made["operationId"])["state"] == "Succeeded"
    [node] = nodes(client, cluster)
    assert (node["Status"], node["TargetState"]) == ("Off", "Off")
    assert client.get(f"/clusters/{cluster}/status?nodes=true").json()["nodes"] == []
    act(client, cluster, "start", node)
    act(client, cluster, "shutdown", node)
    [off] = nodes(client, cluster)
    assert (off["Status"], off["NodeId"], off["InstanceId"]) == ("Off", node["NodeId"], None)


@pytest.mark.proves("POST /cloud/actions/retry/{cluster}: 200")
def test_nodes_that_failed_are_retried(client: Client, stack: Stack) -> None:
    cluster = new_cluster(client, {"machineType": "c7a-2xlarge", "vcpuCount": 8, "memory": 16.0})
    stack.ec2_control("capacity", remaining=0, instance_type="c7a.2xlarge")
    assert finished(client, create(client, cluster, 1).json()["operationId"])["state"] == "Failed"
    stack.ec2_control("capacity", remaining=None, instance_type="c7a.2xlarge")
    retried = client.post(f"/cloud/actions/retry/{cluster}")
    assert retried.status == 200
    assert finished(client, retried.json()["operationId"])["state"] == "Succeeded"
    assert [node["Status"] for node in nodes(client, cluster)] == ["Ready"]
