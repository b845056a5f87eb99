"""A virtual cluster of thousands, last of all: its cluster would keep the reconciler busy under others.

1,100 nodes take more than one call of each kind: the largest has 1,000 instances. `make soak` takes 5,000.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.story import create, finished, new_cluster, nodes
from tests.integration.test_elastic import get, wanted

if TYPE_CHECKING:
    from tests.emulator.client import Client


@pytest.mark.timeout(600)
@pytest.mark.parametrize("large", [1_100, pytest.param(5_000, marks=pytest.mark.soak)])
def test_thousands_of_nodes_are_one_virtual_cluster(client: Client, large: int) -> None:
    cluster = new_cluster(client)
    made = create(client, cluster, large + 10).json()
    assert finished(client, made["operationId"], seconds=400)["state"] == "Succeeded"
    body = wanted(cluster, large, provision=False)
    created = client.post("/virtual_clusters", body)
    assert created.status == 200, created.body
    first = get(client, body)
    assert first == created.json()["data"]
    assert len(first["nodeInstances"]) == large
    more = {**body, "revision": first["revision"], "replicaSets": {"4c8g": large + 10}}
    grown = client.post("/virtual_clusters", more).json()["data"]
    assert len(grown["nodeInstances"]) == large + 10
    assert first["nodeInstances"].items() <= grown["nodeInstances"].items()
    path = f"/virtual_clusters/{body['virtualClusterId']}"
    assert client.request("DELETE", path).status == 200
    assert client.get(path).status == 404
    assert {node["VirtualCluster"] for node in nodes(client, cluster, "maxResults=10000")} == {None}
