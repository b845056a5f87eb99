"""Virtual clusters over HTTP: launched, healed, of any size, and under many clients at once."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from tests.integration.story import (
    ENDED,
    INTERRUPTED,
    bucket,
    eventually,
    finished,
    new_cluster,
    nodes,
    only_bucket,
    ready_nodes,
    tell,
    together,
)

if TYPE_CHECKING:
    from tests.emulator.client import Client
    from tests.emulator.stack import Stack


def wanted(cluster: str, count: int, **more: Any) -> dict[str, Any]:
    """The body of a virtual cluster of so many nodes, with a name of its own."""
    name = f"team-{uuid4().hex}"
    return {"virtualClusterId": name, "cluster": cluster, "replicaSets": {"4c8g": count}, **more}


def get(client: Client, body: dict[str, Any]) -> dict[str, Any]:
    data: dict[str, Any] = client.get(f"/virtual_clusters/{body['virtualClusterId']}").json()["data"]
    return data


@pytest.mark.proves("POST /virtual_clusters: 202")
def test_what_is_missing_is_launched_and_joins(client: Client) -> None:
    cluster = new_cluster(client)
    ready_nodes(client, cluster, 1)
    body = wanted(cluster, 3)
    dry = client.post("/virtual_clusters", {**body, "dryRun": True})
    assert (dry.status, dry.json()["data"]["pendingReplicaSets"]) == (202, {"4c8g": 2})
    assert client.get(f"/virtual_clusters/{body['virtualClusterId']}").status == 404
    reply = client.post("/virtual_clusters", body)
    data = reply.json()["data"]
    assert (reply.status, data["pendingReplicaSets"]) == (202, {"4c8g": 2})
    assert len(data["nodeInstances"]) == 1
    assert finished(client, data["operationId"])["state"] == "Succeeded"
    after = get(client, body)
    assert len(after["nodeInstances"]) == 3
    assert all(one["hostname"] for one in after["nodeInstances"].values())
    assert (after["pendingReplicaSets"], after["conditions"][0]["status"]) == ({}, "True")
    assert after["revision"] > data["revision"]
    stale = client.post("/virtual_clusters", {**body, "revision": data["revision"]})
    assert (stale.status, stale.json()["data"]["revision"]) == (409, after["revision"])


def test_what_cannot_be_launched_is_a_conflict_that_says_what_can(client: Client) -> None:
    cluster = new_cluster(client, bucket(maxCount=2))
    reply = client.post("/virtual_clusters", wanted(cluster, 3))
    data = reply.json()["data"]
    assert (reply.status, data["code"]) == (409, "InsufficientNodes")
    assert data["replicaSetsToRecommend"] == {"4c8g": 2}
    assert nodes(client, cluster) == []


@pytest.mark.proves("GET /virtual_clusters/{virtualCluster}/history: 200")
def test_a_node_that_is_taken_by_force_is_replaced_and_the_history_says_so(
    client: Client, stack: Stack
) -> None:
    cluster = new_cluster(client)
    ready_nodes(client, cluster, 3)
    body = wanted(cluster, 2)
    held = client.post("/virtual_clusters", body).json()["data"]
    taken = min(held["nodeInstances"])
    path = f"/clusters/{cluster}/nodes/terminate"
    refused = client.post(path, {"ids": [taken]}).json()["nodes"][0]
    assert refused["status"] == "Error"
    assert body["virtualClusterId"] in refused["error"]
    assert client.post(path, {"ids": [taken], "force": True}).json()["nodes"][0]["status"] == "OK"
    left = get(client, body)
    assert taken not in left["nodeInstances"]
    assert left["conditions"][0]["reason"] == "NodesLost"
    stack.invoke("Reconcile", {})
    eventually(lambda: len(get(client, body)["nodeInstances"]) == 2)
    history = client.get(f"/virtual_clusters/{body['virtualClusterId']}/history").json()["data"]
    assert [(one["action"], one["by"]) for one in history["changes"]] == [
        ("NodesJoined", None),
        ("NodesLost", None),
        ("Created", "admin"),
    ]
    page = client.get(f"/virtual_clusters/{body['virtualClusterId']}/history?maxResults=2").json()["data"]
    rest = client.get(
        f"/virtual_clusters/{body['virtualClusterId']}/history?nextToken={page['nextToken']}"
    ).json()["data"]
    assert page["changes"] + rest["changes"] == history["changes"]


@pytest.mark.parametrize("sample", [ENDED, INTERRUPTED], ids=["ended", "interrupted"])
def test_a_node_whose_instance_goes_is_replaced_as_soon_as_ec2_tells(
    client: Client, stack: Stack, sample: dict[str, Any]
) -> None:
    cluster = new_cluster(client, interruptible=True)
    ready_nodes(client, cluster, 2)
    body = wanted(cluster, 2)
    held = client.post("/virtual_clusters", body).json()["data"]
    by_id = {node["NodeId"]: node["InstanceId"] for node in nodes(client, cluster)}
    gone = min(held["nodeInstances"])
    if sample is ENDED:
        stack.ec2_control("end", instance_id=by_id[gone])
    tell(stack, sample, by_id[gone])

    def is_whole_again() -> bool:
        now = get(client, body)["nodeInstances"]
        return gone not in now and len(now) == 2

    eventually(is_whole_again)
    assert get(client, body)["revision"] > held["revision"]


@pytest.mark.parametrize(
    ("clients", "pool_size", "seconds"), [(6, 11, 20), pytest.param(16, 30, 60, marks=pytest.mark.soak)]
)
def test_clients_over_one_pool_leave_it_as_it_was(
    client: Client, clients: int, pool_size: int, seconds: int
) -> None:
    """They create, change and delete; no node is ever in two, and in the end none is lost.

    The pool has fewer nodes than they want at times: some 3 for each client, changed to up to 5.
    """
    cluster = new_cluster(client)
    pool = {node["NodeId"] for node in ready_nodes(client, cluster, pool_size)}
    until = time.monotonic() + seconds
    done: Counter[tuple[str, int]] = Counter()

    def work(number: int) -> Any:
        choose = random.Random(number)  # noqa: S311 - the same choices in each run
        replies: Counter[tuple[str, int]] = Counter()
        while time.monotonic() < until:
            body = wanted(cluster, choose.randint(1, 5), provision=False)
            made = client.post("/virtual_clusters", body)
            replies["create", made.status] += 1
            if made.status != 200:
                continue
            more = {**body, "replicaSets": {"4c8g": choose.randint(0, 5)}}
            changed = client.post("/virtual_clusters", {**more, "revision": made.json()["data"]["revision"]})
            replies["change", changed.status] += 1
            ended = client.request("DELETE", f"/virtual_clusters/{body['virtualClusterId']}")
            replies["delete", ended.status] += 1
        return replies

    def watch(_: int) -> Any:
        seen: Counter[tuple[str, int]] = Counter()
        while time.monotonic() < until:
            reply = client.get("/virtual_clusters")
            held = Counter(
                identity
                for one in reply.json()["data"]["virtualClusters"]
                if one["cluster"] == cluster
                for identity in one["nodeInstances"]
            )
            seen["read", reply.status] += 1
            seen["torn", 0] += sum(count > 1 for count in held.values())
        return seen

    for replies in together(clients + 1, lambda number: watch(0) if number == clients else work(number)):
        done += replies  # type: ignore[arg-type]
    assert done["delete", 200] >= clients
    assert {key for key in done if key[1] not in (0, 200, 409)} == set(), done
    assert done["torn", 0] == 0
    assert done["change", 409] + done["change", 200] == done["create", 200] == done["delete", 200]
    everything = nodes(client, cluster)
    assert {node["NodeId"] for node in everything} == pool
    assert {node["VirtualCluster"] for node in everything} == {None}
    assert only_bucket(client, cluster)["activeCount"] == len(pool)
    whole = wanted(cluster, len(pool), provision=False)
    assert client.post("/virtual_clusters", whole).status == 200
