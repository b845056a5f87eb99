"""The main job from end to end, over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote
from uuid import uuid4

import pytest

from tests.fakes.world import nodearray
from tests.integration.story import create, finished, new_cluster, nodes, only_bucket, ready_nodes

if TYPE_CHECKING:
    from tests.emulator.client import Client
    from tests.emulator.stack import Stack


def test_nodes_are_created_claimed_freed_and_ended(client: Client, stack: Stack) -> None:
    cluster = new_cluster(client)
    made = create(client, cluster, 3, requestId="story")
    assert made.status == 202
    operation_id = made.json()["operationId"]
    assert made.json()["sets"] == [{"added": 3}]

    assert len(nodes(client, cluster, "request_id=story")) == 3
    assert len(client.get(f"/clusters/{cluster}/status?nodes=true").json()["nodes"]) == 3
    assert finished(client, operation_id)["state"] == "Succeeded"
    assert [one["operationId"] for one in client.get("/operations/?request_id=story").json()] == [
        operation_id
    ]
    listed = nodes(client, cluster)
    assert [node["Name"] for node in listed] == ["ondemand-1", "ondemand-2", "ondemand-3"]
    assert {node["Status"] for node in listed} == {"Ready"}
    assert len({node["Hostname"] for node in listed}) == len({node["PrivateIp"] for node in listed}) == 3

    name = f"team-{uuid4().hex}"
    desired = {"virtualClusterId": name, "cluster": cluster, "replicaSets": {"4c8g": 2}}
    carved = client.post("/virtual_clusters", desired)
    assert carved.status == 200
    assert carved.json()["msg"] == "Virtual cluster created or updated."
    revision = carved.json()["data"]["revision"]
    assert carved.headers["etag"] == f'"{revision}"'
    assert len(carved.json()["data"]["nodeInstances"]) == 2

    fewer = {**desired, "replicaSets": {"4c8g": 1}}
    assert client.post("/virtual_clusters", {**fewer, "revision": str(revision)}).status == 200
    stale = client.post("/virtual_clusters", {**desired, "revision": revision})
    assert stale.status == 409
    assert stale.json()["data"]["code"] == "RevisionConflict"
    current = client.get(f"/virtual_clusters/{name}").json()["data"]["revision"]
    assert stale.json()["data"]["revision"] == current > revision
    everything = client.get("/virtual_clusters").json()["data"]["virtualClusters"]
    assert name in [one["virtualClusterId"] for one in everything]

    ids = [node["NodeId"] for node in listed]
    held = client.post(f"/clusters/{cluster}/nodes/terminate", {"ids": ids}).json()
    assert sorted(node["status"] for node in held["nodes"]) == ["Error", "OK", "OK"]
    assert finished(client, held["operationId"])["state"] == "Succeeded"
    assert client.delete(f"/virtual_clusters/{name}").json()["msg"] == f"Virtual cluster {name} removed."
    assert client.get(f"/virtual_clusters/{name}").status == 404
    assert client.post("/virtual_clusters", {**desired, "revision": current}).status == 409

    last = client.post(f"/clusters/{cluster}/nodes/terminate", {"names": [node["Name"] for node in listed]})
    assert finished(client, last.json()["operationId"])["state"] == "Succeeded"
    assert nodes(client, cluster) == []
    assert only_bucket(client, cluster)["activeCount"] == 0
    assert alive(stack, cluster) == 0
    assert client.delete(f"/clusters/{cluster}").status == 200


def test_the_location_of_a_create_leads_to_its_operation(client: Client, stack: Stack) -> None:
    cluster = new_cluster(client)
    for slash in ("", "/"):
        path = f"/clusters/{cluster}/nodes/create{slash}"
        made = client.post(path, {"sets": [{"count": 0, "nodearray": "ondemand"}]})
        operation = f"/operations/{made.json()['operationId']}"
        assert made.headers["location"] == f"{stack.base_url}{operation}"
        assert client.get(operation).json()["startTime"].endswith("Z")


def test_a_cluster_name_may_hold_a_blank(client: Client) -> None:
    name = f"my cluster {uuid4().hex[:8]}"
    path = f"/clusters/{quote(name)}"
    assert client.put(path, {"nodearrays": [nodearray()]}).status == 201
    assert client.get(path).json()["name"] == name
    made = create(client, quote(name), 1)
    assert finished(client, made.json()["operationId"])["cluster"] == name


def test_a_definition_is_written_on_condition_of_its_revision(client: Client) -> None:
    cluster = new_cluster(client)
    path, definition = f"/clusters/{cluster}", {"nodearrays": [nodearray()]}
    tag = client.get(path).headers["etag"]
    assert client.put(path, definition).status == 409
    assert client.put(path, definition, If_Match=tag).status == 200
    refused = client.put(path, definition, If_Match=tag)
    assert refused.status == 409
    assert refused.json()["revision"] == client.get(path).json()["revision"]
    assert refused.headers["etag"] == client.get(path).headers["etag"]


def test_machine_facts_that_are_left_out_come_from_ec2(client: Client) -> None:
    cluster = new_cluster(client, {"machineType": "hpc6a-48xlarge"})
    machine = only_bucket(client, cluster)["virtualMachine"]
    assert machine == {"vcpuCount": 96, "pcpuCount": 96, "gpuCount": 0, "memory": 384.0, "infiniband": True}


def test_what_ec2_refuses_ends_the_operation_truthfully(client: Client, stack: Stack) -> None:
    cluster = new_cluster(client, bucket_of("c7a-xlarge"))
    stack.ec2_control("capacity", remaining=2, instance_type="c7a.xlarge")
    operation = finished(client, create(client, cluster, 5).json()["operationId"])
    assert operation["state"] == "PartiallySucceeded"
    assert operation["progress"] == {"total": 5, "succeeded": 2, "failed": 3, "running": 0}
    assert "InsufficientInstanceCapacity" in operation["error"]
    assert only_bucket(client, cluster)["activeCount"] == 2
    assert alive(stack, cluster) == 2


@pytest.mark.proves("an instance ended by hand: noticed, and a later terminate succeeds")
def test_an_instance_that_was_ended_by_hand_does_not_hold_up_a_terminate(
    client: Client, stack: Stack
) -> None:
    cluster = new_cluster(client)
    node = ready_nodes(client, cluster, 1)[0]
    stack.ec2_control("end", instance_id=node["InstanceId"])
    done = client.post(f"/clusters/{cluster}/nodes/terminate", {"hostnames": [node["Hostname"]]})
    assert finished(client, done.json()["operationId"])["state"] == "Succeeded"
    assert nodes(client, cluster) == []


def bucket_of(machine_type: str) -> dict[str, object]:
    return {"machineType": machine_type, "vcpuCount": 4, "memory": 8.0}


def alive(stack: Stack, cluster: str) -> int:
    """How many instances of the cluster cost money."""
    filters = [
        {"Name": "tag:paddock:cluster", "Values": [cluster]},
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
    ]
    pages = stack.aws("ec2").get_paginator("describe_instances").paginate(Filters=filters)
    return sum(len(group["Instances"]) for page in pages for group in page["Reservations"])
