"""Usage over HTTP: of nodes that ended and of those that run, and what is no question about it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from tests.integration.story import bucket, finished, new_cluster, ready_nodes

if TYPE_CHECKING:
    from tests.emulator.client import Client


@pytest.mark.proves("GET /clusters/{cluster}/usage: 200")
def test_ended_and_running_nodes_are_in_the_usage_with_their_cost(client: Client) -> None:
    cluster = new_cluster(client, bucket(pricePerHour=3.0))
    ended, running = ready_nodes(client, cluster, 2)
    done = client.post(f"/clusters/{cluster}/nodes/terminate", {"ids": [ended["NodeId"]]}).json()
    assert finished(client, done["operationId"])["state"] == "Succeeded"

    # The test may run over midnight, into a new week or month.
    now = datetime.now(UTC)
    custom = {
        "timeframe": "custom",
        "from": (now - timedelta(hours=1)).isoformat(),
        "to": (now + timedelta(hours=1)).isoformat(),
    }
    reply = client.get(f"/clusters/{cluster}/usage?{urlencode({**custom, 'granularity': 'total'})}")
    assert reply.status == 200
    [slot] = reply.json()["usage"]
    array, *nodes = slot["breakdown"]
    assert (array["category"], array["node"]) == ("nodearray", "ondemand")
    assert sorted(node["nodeId"] for node in nodes) == sorted([ended["NodeId"], running["NodeId"]])
    assert all(node["hours"] > 0 and node["cost"] > 0 for node in nodes)
    assert slot["total"]["hours"] == pytest.approx(sum(node["hours"] for node in nodes))
    assert slot["total"]["cost"] == pytest.approx(3.0 * slot["total"]["hours"] / 4)
    assert array["details"][0]["vm_size"] == "c7i-xlarge"

    later = client.get(f"/clusters/{cluster}/usage/?{urlencode({**custom, 'granularity': 'hourly'})}").json()
    assert 3 <= len(later["usage"]) <= 4
    assert sum(one["total"]["hours"] for one in later["usage"]) > slot["total"]["hours"]
    for query in ("", "?timeframe=weekToDate", "?timeframe=lastMonth&granularity=hourly"):
        assert client.get(f"/clusters/{cluster}/usage{query}").status == 200


@pytest.mark.proves("GET /clusters/{cluster}/usage: 400")
@pytest.mark.parametrize(
    "query",
    [
        "timeframe=yearToDate",
        "granularity=weekly",
        "timeframe=custom",
        "timeframe=custom&from=2025-01-02&to=2025-01-01",
        "timeframe=custom&from=2025-01-01&to=x",
        "timeframe=custom&from=2025-01-01&to=2025-03-01&granularity=hourly",
        "timeframe=custom&from=2020-01-01&to=2025-03-01",
        "from=2025-01-01&to=2025-01-02",
    ],
)
def test_what_is_no_timeframe_is_a_400_that_states_the_rule(client: Client, query: str) -> None:
    reply = client.get(f"/clusters/demo/usage?{query}")
    assert reply.status == 400
    assert reply.json()["Detail"] == "InvalidRequest"
    assert reply.json()["Message"]


@pytest.mark.proves("GET /clusters/{cluster}/usage: 404")
def test_the_usage_of_an_unknown_cluster_is_a_404(client: Client) -> None:
    assert client.get("/clusters/nowhere/usage").status == 404
