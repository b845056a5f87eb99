"""Many at once, over HTTP: one winner, and every loser is told."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.integration.story import (
    bucket,
    create,
    finished,
    new_cluster,
    nodes,
    only_bucket,
    ready_nodes,
    together,
)

if TYPE_CHECKING:
    from tests.emulator.client import Client, Reply


def statuses(replies: list[Reply]) -> Counter[int]:
    return Counter(reply.status for reply in replies)


@pytest.mark.proves("two quick updates: the second is refused with 409")
def test_of_eight_writers_with_one_revision_one_wins(client: Client) -> None:
    cluster = new_cluster(client)
    ready_nodes(client, cluster, 8)
    desired = {"virtualClusterId": f"team-{uuid4().hex}", "cluster": cluster, "replicaSets": {"4c8g": 1}}
    revision = client.post("/virtual_clusters", desired).json()["data"]["revision"]
    replies = together(
        8,
        lambda number: client.post(
            "/virtual_clusters", {**desired, "revision": revision, "replicaSets": {"4c8g": number}}
        ),
    )
    assert statuses(replies) == {200: 1, 409: 7}
    current = next(reply for reply in replies if reply.status == 200).json()["data"]["revision"]
    assert {reply.json()["data"]["revision"] for reply in replies} == {current}


def test_of_eight_creates_of_one_virtual_cluster_one_wins(client: Client) -> None:
    cluster = new_cluster(client)
    ready_nodes(client, cluster, 2)
    desired = {"virtualClusterId": f"team-{uuid4().hex}", "cluster": cluster, "replicaSets": {"4c8g": 1}}
    assert statuses(together(8, lambda _: client.post("/virtual_clusters", desired))) == {200: 1, 409: 7}


def test_virtual_clusters_that_compete_for_nodes_share_none(client: Client) -> None:
    cluster = new_cluster(client)
    ready_nodes(client, cluster, 6)

    def claim(number: int) -> Reply:
        name = f"team-{number}-{uuid4().hex}"
        desired = {
            "virtualClusterId": name,
            "cluster": cluster,
            "replicaSets": {"4c8g": 2},
            "provision": False,
        }
        return client.post("/virtual_clusters", desired)

    replies = together(8, claim)
    assert statuses(replies) == {200: 3, 409: 5}
    given = [node for one in replies if one.status == 200 for node in one.json()["data"]["nodeInstances"]]
    assert len(given) == len(set(given)) == 6
    assert {one.json()["data"]["code"] for one in replies if one.status == 409} == {"InsufficientNodes"}


@pytest.mark.proves("a request sent twice: one launch")
def test_of_eight_creates_with_one_request_id_one_is_done(client: Client) -> None:
    cluster = new_cluster(client)
    replies = together(8, lambda _: create(client, cluster, 2, requestId="same"))
    assert statuses(replies) == {202: 1, 409: 7}
    operation_id = next(reply for reply in replies if reply.status == 202).json()["operationId"]
    assert {reply.json()["operationId"] for reply in replies} == {operation_id}
    finished(client, operation_id)
    assert len(nodes(client, cluster)) == 2


@pytest.mark.proves("more than the maximum asked for: `added` is less")
def test_sixteen_creates_for_ten_places_add_ten(client: Client) -> None:
    cluster = new_cluster(client, bucket(maxCount=10))
    replies = together(16, lambda _: create(client, cluster, 1))
    assert statuses(replies) == {202: 16}
    assert sum(reply.json()["sets"][0]["added"] for reply in replies) == 10
    for reply in replies:
        finished(client, reply.json()["operationId"])
    names = [node["Name"] for node in nodes(client, cluster)]
    assert sorted(names) == sorted(f"ondemand-{number}" for number in range(1, 11))
    assert only_bucket(client, cluster)["availableCount"] == 0


def test_scales_at_one_time_reach_their_total_and_do_not_exceed_it(client: Client) -> None:
    cluster = new_cluster(client)
    path = f"/clusters/{cluster}/scale/ondemand"
    replies = together(8, lambda number: client.post(f"{path}?totalNodeCount={number}"))
    assert statuses(replies) == {202: 8}
    assert len(nodes(client, cluster)) == 7
    assert client.post(path, {"totalCoreCount": 29}).json()["sets"] == [{"added": 1}]
    assert client.post(f"{path}?totalCoreCount=4", {"totalNodeCount": 1}).status == 409
    assert client.post(f"/clusters/{cluster}/scale/none", {"totalNodeCount": 1}).status == 404
    assert finished(client, replies[7].json()["operationId"])["state"] == "Succeeded"
    assert len(nodes(client, cluster)) == 8
