"""Lists of a whole fleet, as the real handlers answer them, against what Lambda lets through."""

from __future__ import annotations

import base64
import gzip
import importlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from paddock import bootstrap
from paddock.adapters.dynamodb import keys
from paddock.clusters.usage import MAX_ENTRIES, ClusterUsage
from paddock.http.reply import Reply
from paddock.http.views.usage import usage_view
from paddock.model.base import MAX_NODES
from paddock.model.identity import InstanceId, NodeId, VirtualClusterId, new_operation_id, node_id
from paddock.model.node import NodeStatus
from paddock.model.time import HOUR_NS
from paddock.model.usage import UsageInterval, add_nodes, sum_by_machine
from paddock.model.virtual_cluster import NodeInstance, VirtualCluster
from paddock.settings import Settings
from tests.fakes.api import Context
from tests.fakes.clock import START
from tests.fakes.world import CLUSTER, REGION, World, nodearray

if TYPE_CHECKING:
    from collections.abc import Iterator

LAMBDA_LIMIT = 6 * 1024 * 1024
TEXT = {"Accept": "*/*", "Accept-Encoding": "identity"}
GZIP = {"Accept": "*/*", "Accept-Encoding": "gzip, deflate"}


def fleet(count: int = MAX_NODES) -> World:
    """A cluster with as many nodes as one may hold, all of them Ready, as they are after a launch."""
    world = World(nodearray(configuration={"slurm": {"autoscale": True, "partition": "hpc"}}))
    operation, _ = world.create(count, request_id="463270ca-abcd-1234-98d6-431ee3ef8ed5")
    for number, node in enumerate(world.nodes()):
        third, fourth = divmod(number, 250)
        ready = replace(
            node,
            status=NodeStatus.READY,
            instance_id=InstanceId(f"i-{number:017x}"),
            private_ip=f"10.0.{third}.{fourth}",
            hostname=f"ip-10-0-{third}-{fourth}",
            dns_name=f"ip-10-0-{third}-{fourth}.ec2.internal",
        )
        world.repository._records[keys.key_of(node)] = ready
    assert operation.total == count
    return world


@pytest.fixture(scope="module")
def largest() -> World:
    return fleet()


def use(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(
        table_name="", state_machine_arn="", default_cluster=CLUSTER, credentials_secret_arn="", region=REGION
    )
    monkeypatch.setattr(bootstrap, "settings", lambda: settings)
    monkeypatch.setattr(bootstrap, "repository", lambda: world.repository)


def get(name: str, headers: dict[str, str], **query: str) -> tuple[dict[str, Any], int]:
    """What the function answers, as the client reads it, and the bytes that Lambda counted."""
    event = {
        "httpMethod": "GET",
        "headers": headers,
        "pathParameters": {"cluster": CLUSTER},
        "queryStringParameters": query or None,
    }
    answer = importlib.import_module(f"api.{name}").handler(event, Context())
    assert answer["statusCode"] == 200
    body = answer["body"]
    if answer["isBase64Encoded"]:
        body = gzip.decompress(base64.b64decode(body))
    return json.loads(body), len(json.dumps(answer).encode())


def pages(name: str, headers: dict[str, str], **query: str) -> Iterator[tuple[dict[str, Any], int]]:
    while True:
        body, size = get(name, headers, **query)
        yield body, size
        token = body.get("data", body).get("nextToken")
        if token is None:
            return
        query["nextToken"] = token


@pytest.mark.parametrize(("headers", "expected"), [(GZIP, 1), (TEXT, 2)], ids=["gzip", "text"])
@pytest.mark.parametrize("query", [{}, {"request_id": "463270ca-abcd-1234-98d6-431ee3ef8ed5"}], ids=str)
def test_ten_thousand_nodes_are_listed(
    largest: World,
    monkeypatch: pytest.MonkeyPatch,
    headers: dict[str, str],
    query: dict[str, str],
    expected: int,
) -> None:
    use(largest, monkeypatch)
    found = list(pages("list_nodes", headers, **query))
    assert max(size for _, size in found) < LAMBDA_LIMIT
    assert len(found) == expected
    names = [node["Name"] for body, _ in found for node in body["nodes"]]
    assert names == [f"ondemand-{number}" for number in range(1, MAX_NODES + 1)]
    for body, _ in found:
        assert ("operation" in body) is bool(query)
        if query:
            assert body["operation"]["progress"]["succeeded"] == MAX_NODES


@pytest.mark.parametrize("headers", [GZIP, TEXT], ids=["gzip", "text"])
def test_a_status_with_ten_thousand_nodes_is_told_and_goes_on_as_a_list(
    largest: World, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    use(largest, monkeypatch)
    status, size = get("get_cluster_status", headers, nodes="true")
    assert size < LAMBDA_LIMIT
    [bucket] = status["nodearrays"][0]["buckets"]
    assert len(bucket["activeNodes"]) == bucket["activeCount"] == MAX_NODES
    nodes = status["nodes"]
    assert ("nextToken" in status) is (headers is TEXT)
    if "nextToken" in status:
        for body, more in pages("list_nodes", headers, nextToken=status["nextToken"]):
            assert more < LAMBDA_LIMIT
            nodes += body["nodes"]
    assert [node["Name"] for node in nodes] == [f"ondemand-{number}" for number in range(1, MAX_NODES + 1)]


def test_a_list_in_one_reply_says_nothing_of_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    use(fleet(3), monkeypatch)
    for name, query in (("list_nodes", {}), ("get_cluster_status", {"nodes": "true"})):
        body, _ = get(name, GZIP, **query)
        assert len(body["nodes"]) == 3
        assert "nextToken" not in body
    assert "nodes" not in get("get_cluster_status", GZIP)[0]


def test_max_results_makes_pages_of_that_size(monkeypatch: pytest.MonkeyPatch) -> None:
    use(fleet(7), monkeypatch)
    found = [len(body["nodes"]) for body, _ in pages("list_nodes", TEXT, maxResults="3")]
    assert found == [3, 3, 1]


@pytest.mark.parametrize("headers", [GZIP, TEXT], ids=["gzip", "text"])
def test_nodes_with_all_the_attributes_that_they_may_have_are_listed_in_pages_that_fit(
    monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    world = fleet(1_000)
    for number, node in enumerate(world.nodes()):
        # Every other character is a quotation mark, which is escaped twice.
        attributes = {"x": f'{number}"' * 3_000}
        world.repository._records[keys.key_of(node)] = replace(node, attributes=attributes)
    use(world, monkeypatch)
    found = list(pages("list_nodes", headers))
    assert max(size for _, size in found) < LAMBDA_LIMIT
    assert sum(len(body["nodes"]) for body, _ in found) == 1_000


@pytest.mark.parametrize("headers", [GZIP, TEXT], ids=["gzip", "text"])
def test_virtual_clusters_with_a_hundred_thousand_nodes_are_listed_in_pages_that_fit(
    monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    world = World()
    for number in range(50):
        one = VirtualCluster(
            id=VirtualClusterId(f"team-{number:03}"),
            cluster=CLUSTER,
            revision=1,
            node_instances={
                NodeId(f"00000000-0000-4000-8000-{number:07}{index:05}"): NodeInstance(
                    hostname=f"ip-10-{number}-{index}.ec2.internal", template_id="4c8g"
                )
                for index in range(2_000)
            },
        )
        world.repository._records[keys.key_of(one)] = one
    use(world, monkeypatch)
    found = list(pages("list_virtual_clusters", headers))
    assert max(size for _, size in found) < LAMBDA_LIMIT
    told = [one["virtualClusterId"] for body, _ in found for one in body["data"]["virtualClusters"]]
    assert told == [f"team-{number:03}" for number in range(50)]
    assert all(body["result"] for body, _ in found)
    assert (len(found) == 1) is (headers is GZIP)


def test_clusters_with_large_definitions_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    large = nodearray(configuration={"script": "x" * 16_000})
    names = [f"cluster-{number:03}" for number in range(400)]
    for name in names:
        world.put({"nodearrays": [large]}, name=name)
    use(world, monkeypatch)
    found = list(pages("list_clusters", TEXT))
    assert len(found) == 2
    assert max(size for _, size in found) < LAMBDA_LIMIT
    assert [one["name"] for body, _ in found for one in body["clusters"]] == [*names, CLUSTER]


def test_usage_by_nodes_of_the_longest_names_fits() -> None:
    array, hours = "a" * 64, 25
    used = [
        UsageInterval(
            cluster=CLUSTER,
            node_id=node_id(new_operation_id(START), number),
            name=f"{array[:54]}{number:010}",
            node_array=array,
            machine_type="m" * 64,
            cores=448,
            price_per_hour=123.456789,
            interruptible=False,
            start=number * 1_234_567,
            end=hours * HOUR_NS - number * 7_654_321,
            revision=1,
        )
        for number in range((MAX_ENTRIES - 3 * hours) // hours)
    ]
    edges = [hour * HOUR_NS for hour in range(hours + 1)]
    slots = sum_by_machine(used, edges)
    add_nodes(slots, used, edges)
    answer = Reply(200, usage_view(ClusterUsage(slots=slots, has_nodes=True), REGION)).to_gateway()
    assert len(json.dumps(answer)) < LAMBDA_LIMIT
