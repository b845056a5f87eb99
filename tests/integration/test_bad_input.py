"""Wrong input at every verb: a clear 4xx, never a 5xx, and nothing changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.fakes.world import nodearray
from tests.integration.story import new_cluster, nodes

if TYPE_CHECKING:
    from tests.emulator.client import Client

# The status that a body which is no JSON, and one that breaks a rule, gets at each verb that takes one.
WRITES = {
    "create": ("POST", "/clusters/{cluster}/nodes/create", 400, 409),
    "terminate": ("POST", "/clusters/{cluster}/nodes/terminate", 400, 409),
    "cluster": ("PUT", "/clusters/{cluster}", 400, 400),
    "virtual cluster": ("POST", "/virtual_clusters", 400, 400),
}
NOT_JSON = {
    "nothing": "",
    "text": "count=1",
    "half": '{"sets": [',
    "two": "{} {}",
    "NaN": '{"count": NaN}',
    "twice": '{"requestId": "a", "requestId": "b"}',
    "deep": "[" * 100_000,
    "long number": '{"count": ' + "9" * 5_000 + "}",
    "half a character": r'{"requestId": "\ud800"}',
    "bytes": bytes(range(128, 256)),
    "1 MB of junk": "junk" * 250_000,
}
BROKEN: dict[str, list[Any]] = {
    "create": [
        {},
        [],
        {"sets": []},
        {"sets": {}},
        {"sets": [{"nodearray": "ondemand"}]},
        {"sets": [{"count": "1", "nodearray": "ondemand"}]},
        {"sets": [{"count": 1.0, "nodearray": "ondemand"}]},
        {"sets": [{"count": True, "nodearray": "ondemand"}]},
        {"sets": [{"count": -1, "nodearray": "ondemand"}]},
        {"sets": [{"count": 1, "nodearray": "nowhere"}]},
        {"sets": [{"count": 1, "nodearray": "ondemand", "definition": {"machineType": "none"}}]},
        {"sets": [{"count": 1, "nodearray": "ondemand", "nameFormat": "%s"}]},
        {"sets": [{"count": 1, "nodearray": "ondemand", "placementGroupId": "a/b"}]},
        {"sets": [{"count": 1, "nodearray": "ondemand", "nodeAttributes": {"KeepAlive": "yes"}}]},
        {"sets": [{"count": 1, "nodearray": "ondemand", "colour": "red"}]},
        {"sets": [{"count": 1, "nodearray": "ondemand"}], "requestId": "x" * 200},
        {"sets": [{"count": 1, "nodearray": "ondemand", "nodeAttributes": {"x": "y" * 20_000}}]},
    ],
    "terminate": [
        {},
        {"names": "ondemand-1"},
        {"ids": [1]},
        {"ids": [None]},
        {"everything": True},
        {"filter": "x"},
    ],
    "cluster": [
        {},
        {"nodearrays": "none"},
        {"nodearrays": [{}]},
        {"nodearrays": [nodearray(), nodearray()]},
        {"nodearrays": [nodearray("a", {"machineType": "t99-huge"})]},
        {"nodearrays": [nodearray(region="mars-1")]},
        {"nodearrays": [nodearray(subnetIds=[])]},
        {"nodearrays": [nodearray()], "maxCount": 1.5},
        {"nodearrays": [nodearray()], "name": "another"},
        {"nodearrays": [nodearray()], "revision": -1},
    ],
    "virtual cluster": [
        {},
        {"virtualClusterId": ""},
        {"virtualClusterId": "a##b"},
        {"virtualClusterId": "x" * 129},
        {"virtualClusterId": "a", "replicaSets": {"4c8g": 1.5}},
        {"virtualClusterId": "a", "replicaSets": {"4c8g": True}},
        {"virtualClusterId": "a", "replicaSets": {"4c8g": "1"}},
        {"virtualClusterId": "a", "replicaSets": {"4c8g": -1}},
        {"virtualClusterId": "a", "replicaSets": [1]},
        {"virtualClusterId": "a", "allocationMode": "shared"},
        {"virtualClusterId": "a", "allocationMode": "mixed", "divisible": True},
        {"virtualClusterId": "a", "revision": "1e3"},
        {"virtualClusterId": "a", "revision": 2**70},
        {"virtualClusterId": "a", "replica_sets": {}},
        {"virtualClusterId": "a", "replicaSets": {"99c": 1}},
    ],
}


@pytest.fixture(scope="module")
def cluster(client: Client) -> str:
    return new_cluster(client)


@pytest.mark.proves(
    "POST /clusters/{cluster}/nodes/create: 400",
    "POST /clusters/{cluster}/nodes/terminate: 400",
)
@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize("body", NOT_JSON.values(), ids=NOT_JSON)
def test_what_is_not_json_is_a_400_that_says_so(
    client: Client, cluster: str, verb: str, body: str | bytes
) -> None:
    method, path, status, _ = WRITES[verb]
    reply = client.request(method, path.format(cluster=cluster), body)
    assert reply.status == status
    assert "JSON" in reply.body.decode() or "UTF-8" in reply.body.decode()


@pytest.mark.proves(
    "PUT /clusters/{cluster}: 400",
    "POST /clusters/{cluster}/nodes/create: 409",
    "POST /clusters/{cluster}/nodes/terminate: 409",
    "POST /virtual_clusters: 400",
)
@pytest.mark.parametrize(("verb", "body"), [(verb, body) for verb in BROKEN for body in BROKEN[verb]])
def test_a_body_that_breaks_a_rule_is_told_which(client: Client, cluster: str, verb: str, body: Any) -> None:
    method, path, _, status = WRITES[verb]
    if isinstance(body, dict) and verb == "virtual cluster":
        body = {"cluster": cluster, **body}
    before = client.get(f"/clusters/{cluster}")
    headers = {"If-Match": before.headers["etag"]} if verb == "cluster" else {}
    reply = client.request(method, path.format(cluster=cluster), body, headers)
    assert reply.status == status, reply.body
    answer = reply.json()
    assert answer.get("Message") or answer.get("msg")
    assert nodes(client, cluster) == []
    assert client.get(f"/clusters/{cluster}").body == before.body


def test_an_unknown_field_is_told_the_nearest_known_one(client: Client) -> None:
    reply = client.post("/virtual_clusters", {"virtualClusterId": "a", "replicaSet": {}})
    assert "replicaSets" in reply.json()["msg"]


@pytest.mark.proves(
    "GET /clusters/{cluster}: 404",
    "DELETE /clusters/{cluster}: 404",
    "GET /clusters/{cluster}/status: 404",
    "POST /clusters/{cluster}/nodes/create: 404",
    "POST /clusters/{cluster}/nodes/terminate: 404",
    "GET /virtual_clusters/{virtualCluster}: 404",
    "DELETE /virtual_clusters/{virtualCluster}: 404",
)
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/clusters/none", None),
        ("DELETE", "/clusters/none", None),
        ("GET", "/clusters/none/status", None),
        ("GET", "/clusters/none/nodes", None),
        ("POST", "/clusters/none/nodes/create", {"sets": [{"count": 1, "nodearray": "ondemand"}]}),
        ("POST", "/clusters/none/nodes/terminate", {"ids": []}),
        ("GET", "/operations/none", None),
        ("GET", f"/clusters/{'x' * 2_000}", None),
        ("GET", "/clusters/%00", None),
        ("GET", "/clusters/%FF%FE/status", None),
        ("GET", "/operations/00000000-0000-4000-8000-000000000000", None),
        ("GET", "/virtual_clusters/none", None),
        ("GET", f"/virtual_clusters/{'x' * 2_000}", None),
        ("DELETE", "/virtual_clusters/none", None),
        ("DELETE", "/virtual_clusters/a%23%23b", None),
        ("POST", "/virtual_clusters", {"virtualClusterId": "a", "cluster": "none"}),
    ],
)
def test_what_is_not_there_is_a_404(client: Client, method: str, path: str, body: Any) -> None:
    assert client.request(method, path, body).status == 404


@pytest.mark.proves(
    "GET /clusters/{cluster}/status: 400",
    "GET /clusters/{cluster}/nodes: 400",
    "GET /operations: 400",
    "GET /virtual_clusters: 400",
)
@pytest.mark.parametrize(
    "path",
    [
        "/operations",
        "/operations?request_id=",
        "/virtual_clusters?maxResults=0",
        "/virtual_clusters?maxResults=many",
        "/virtual_clusters?maxResults=" + "9" * 5_000,
        "/clusters/{cluster}/status?nodes=perhaps",
        "/clusters/{cluster}/nodes?operation=a&request_id=b",
    ],
)
def test_a_query_that_breaks_a_rule_is_a_400(client: Client, cluster: str, path: str) -> None:
    assert client.get(path.format(cluster=cluster)).status == 400


@pytest.mark.proves("GET /clusters/{cluster}/nodes: 404", "GET /operations: 200")
def test_an_unknown_request_id_is_told_in_the_words_that_clients_look_for(
    client: Client, cluster: str
) -> None:
    reply = client.get(f"/clusters/{cluster}/nodes?request_id=none")
    assert reply.status == 404
    assert "No operation found for request id" in reply.json()["Message"]
    assert client.get("/operations/?request_id=none").json() == []
