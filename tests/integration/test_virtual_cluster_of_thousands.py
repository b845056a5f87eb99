"""A virtual cluster of 5,000 nodes, last of all: its cluster would keep the reconciler busy under others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.story import create, finished, new_cluster, nodes
from tests.integration.test_elastic import get, wanted

if TYPE_CHECKING:
    from tests.emulator.client import Client

LARGE = 5_000


@pytest.mark.timeout(600)
def test_five_thousand_nodes_are_one_virtual_cluster(client: Client) -> None:
    cluster = new_cluster(client)
    made = create(client, cluster, LARGE + 10).json()
    assert finished(client, made["operationId"], seconds=400)["state"] == "Succeeded"
    body = wanted(cluster, LARGE, provision=False)
    created = client.post("/virtual_clusters", body)
    assert created.status == 200, created.body
    first = get(client, body)
    assert first == created.json()["data"]
    assert len(first["nodeInstances"]) == LARGE
    more = {**body, "revision": first["revision"], "replicaSets": {"4c8g": LARGE + 10}}
    grown = client.post("/virtual_clusters", more).json()["data"]
    assert len(grown["nodeInstances"]) == LARGE + 10
    assert first["nodeInstances"].items() <= grown["nodeInstances"].items()
    path = f"/virtual_clusters/{body['virtualClusterId']}"
    assert client.request("DELETE", path).status == 200
    assert client.get(path).status == 404
    assert {node["VirtualCluster"] for node in nodes(client, cluster, "maxResults=10000")} == {None}
