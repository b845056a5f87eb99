"""Every status that the docs document for a route, asked for through its handler."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from paddock import bootstrap
from paddock.errors import ComputeUnavailable, StoreThrottled
from paddock.model.identity import RequestId
from paddock.observability import logger
from tests import pages
from tests.fakes.api import ACCOUNT, HANDLERS, ask, event, handle, serve
from tests.fakes.world import CLUSTER, World, bucket, nodearray

NOT_JSON = "count=1"
CURRENT = "<the revision that the cluster has>"
if TYPE_CHECKING:
    from collections.abc import Mapping

DEFINITION = {"nodearrays": [nodearray(), nodearray("closed", bucket(maxCount=0))]}
SET = {"sets": [{"count": 1, "nodearray": "ondemand"}]}
CREATE, SCALE = "/clusters/{cluster}/nodes/create", "/clusters/{cluster}/scale/{nodearray}"
ONE, NODES = "/clusters/{cluster}", "/clusters/{cluster}/nodes"
STATUS, USAGE = "/clusters/{cluster}/status", "/clusters/{cluster}/usage"
CLAIM = {"virtualClusterId": "new", "replicaSets": {"4c8g": 1}}
HELD = "/virtual_clusters/{virtualCluster}"
HISTORY = f"{HELD}/history"
DEMO, NONE, EMPTY = {"cluster": CLUSTER}, {"cluster": "none"}, {"cluster": "empty"}
SESSION = f"arn:aws:sts::{ACCOUNT}:assumed-role/compute/"
EVENTS = Path(__file__).parents[2] / "events" / "api"
# The actions on nodes, each with the body of its example in events/.
ACTIONS = {
    route: json.loads(json.loads((EVENTS / f"{handler.split('.')[1]}.json").read_text())["body"])
    for (_, route), handler in HANDLERS.items()
    if route.startswith(f"{NODES}/") and route != CREATE
}

# Method and route; status; names in the path, query, body.
CASES: dict[tuple[str, str, int], tuple[Mapping[str, str], dict[str, str] | None, Any]] = {
    ("GET", "/healthz", 200): ({}, None, None),
    ("GET", "/openapi.json", 200): ({}, None, None),
    ("GET", "/self", 200): ({"caller": CURRENT}, None, None),
    ("GET", "/self", 404): ({"caller": f"{SESSION}i-0123456789abcdef0"}, None, None),
    ("GET", "/clusters", 200): ({}, None, None),
    ("GET", "/clusters", 400): ({}, {"nextToken": "no name!"}, None),
    ("PUT", ONE, 200): (DEMO, None, {**DEFINITION, "revision": CURRENT}),
    ("PUT", ONE, 201): (NONE, None, DEFINITION),
    ("PUT", ONE, 400): (DEMO, None, {"nodearrays": "none"}),
    ("PUT", ONE, 409): (DEMO, None, DEFINITION),
    ("GET", ONE, 200): (DEMO, None, None),
    ("GET", ONE, 404): (NONE, None, None),
    ("DELETE", ONE, 200): (EMPTY, None, None),
    ("DELETE", ONE, 400): (EMPTY, {"revision": "latest"}, None),
    ("DELETE", ONE, 404): (NONE, None, None),
    ("DELETE", ONE, 409): (DEMO, None, None),
    ("GET", USAGE, 200): (DEMO, None, None),
    ("GET", USAGE, 400): (DEMO, {"timeframe": "yesterday"}, None),
    ("GET", USAGE, 404): (NONE, None, None),
    ("GET", STATUS, 200): (DEMO, {"nodes": "true"}, None),
    ("GET", STATUS, 400): (DEMO, {"nodes": "perhaps"}, None),
    ("GET", STATUS, 404): (NONE, None, None),
    ("GET", NODES, 200): (DEMO, {"request_id": "used"}, None),
    ("GET", NODES, 400): (DEMO, {"maxResults": "0"}, None),
    ("GET", NODES, 404): (DEMO, {"request_id": "new"}, None),
    ("POST", CREATE, 202): (DEMO, None, SET),
    ("POST", CREATE, 400): (DEMO, None, NOT_JSON),
    ("POST", CREATE, 404): (NONE, None, SET),
    ("POST", CREATE, 409): (DEMO, None, {**SET, "requestId": "used"}),
    **{
        ("POST", route, status): case
        for route, body in ACTIONS.items()
        for status, case in (
            (202, (DEMO, None, body)),
            (400, (DEMO, None, NOT_JSON)),
            (404, (NONE, None, body)),
            (409, (DEMO, None, {})),
        )
    },
    ("POST", "/cloud/actions/retry/{cluster}", 200): (DEMO, None, None),
    ("POST", "/cloud/actions/retry/{cluster}", 404): (NONE, None, None),
    ("POST", SCALE, 202): ({**DEMO, "nodearray": "ondemand"}, {"totalNodeCount": "9"}, None),
    ("POST", SCALE, 400): ({**DEMO, "nodearray": "ondemand"}, None, NOT_JSON),
    ("POST", SCALE, 404): ({**DEMO, "nodearray": "none"}, {"totalNodeCount": "9"}, None),
    ("POST", SCALE, 409): (
        {**DEMO, "nodearray": "ondemand"},
        {"totalNodeCount": "9", "totalCoreCount": "9"},
        None,
    ),
    ("GET", "/operations", 200): ({}, {"request_id": "used"}, None),
    ("GET", "/operations", 400): ({}, None, None),
    ("GET", "/operations/{operation}", 200): ({"operation": CURRENT}, None, None),
    ("GET", "/operations/{operation}", 404): ({"operation": "none"}, None, None),
    ("POST", "/virtual_clusters", 200): ({}, None, CLAIM),
    ("POST", "/virtual_clusters", 202): ({}, None, {**CLAIM, "replicaSets": {"4c8g": 5}}),
    ("POST", "/virtual_clusters", 400): ({}, None, {**CLAIM, "replicaSets": {"4c8g": "1"}}),
    ("POST", "/virtual_clusters", 404): ({}, None, {**CLAIM, "cluster": "none"}),
    ("POST", "/virtual_clusters", 409): ({}, None, {**CLAIM, "virtualClusterId": "held"}),
    ("GET", "/virtual_clusters", 200): ({}, None, None),
    ("GET", "/virtual_clusters", 400): ({}, {"maxResults": "0"}, None),
    ("GET", HELD, 200): ({"virtualCluster": "held"}, None, None),
    ("GET", HELD, 404): ({"virtualCluster": "none"}, None, None),
    ("GET", HISTORY, 200): ({"virtualCluster": "held"}, None, None),
    ("GET", HISTORY, 400): ({"virtualCluster": "held"}, {"nextToken": "x"}, None),
    ("GET", HISTORY, 404): ({"virtualCluster": "none"}, None, None),
    ("DELETE", HELD, 200): ({"virtualCluster": "held"}, None, None),
    ("DELETE", HELD, 400): ({"virtualCluster": "held"}, {"terminate": "perhaps"}, None),
    ("DELETE", HELD, 404): ({"virtualCluster": "none"}, None, None),
    ("DELETE", HELD, 409): ({"virtualCluster": "held"}, {"revision": "1"}, None),
}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A cluster with four nodes, one of them in a virtual cluster, and an empty cluster."""
    world = World(*DEFINITION["nodearrays"])
    operation, _ = world.create(4, request_id="used")
    world.drive(operation)
    world.claim("held", x4c8g=1)
    world.put({"nodearrays": []}, name="empty")
    serve(world, monkeypatch)
    return world


def filled(world: World, names: Mapping[str, str], body: Any) -> tuple[Mapping[str, str], Any]:
    """The request with what only the world knows."""
    cluster, used = world.repository.cluster(CLUSTER), world.repository.request(CLUSTER, RequestId("used"))
    assert cluster is not None
    assert used is not None
    if names.get("caller") == CURRENT:
        names = {"caller": SESSION + world.nodes()[0].instance_id}
    if names.get("operation") == CURRENT:
        names = {"operation": used.operation_id}
    if isinstance(body, dict) and body.get("revision") == CURRENT:
        body = {**body, "revision": cluster.revision}
    return names, body


@pytest.mark.proves(
    "GET /clusters: 200",
    "POST /clusters/{cluster}/nodes/shutdown: 400, 404, 409",
    "POST /clusters/{cluster}/nodes/deallocate: 400, 404, 409",
    "POST /clusters/{cluster}/nodes/start: 400, 404, 409",
    "POST /clusters/{cluster}/nodes/remove: 400, 404, 409",
    "POST /clusters/{cluster}/nodes/restart: 400, 404, 409",
    "POST /clusters/{cluster}/nodes/reimage: 400, 404, 409",
    "POST /cloud/actions/retry/{cluster}: 404",
    "POST /clusters/{cluster}/scale/{nodearray}: 400",
    "GET /operations: 200",
    "GET /virtual_clusters/{virtualCluster}/history: 400, 404",
)
@pytest.mark.parametrize("case", sorted(pages.documented()), ids=lambda case: "-".join(map(str, case)))
def test_each_documented_status_is_answered(world: World, case: tuple[str, str, int]) -> None:
    method, route, expected = case
    names, query, body = CASES[case]
    names, body = filled(world, names, body)
    status, answer = ask(method, route, names, query, body)
    assert status == expected, answer
    if route.startswith("/virtual_clusters"):
        assert answer["result"] is (status < 400)
        assert answer["msg"]
    elif status >= 400:
        assert answer["Message"]
        assert answer["Detail"]


@pytest.mark.parametrize("case", [case for case in CASES if case[0] == "POST" and case[2] == 202], ids=str)
def test_whoever_starts_an_operation_is_told_where_it_is(world: World, case: tuple[str, str, int]) -> None:
    method, route, _ = case
    names, query, body = CASES[case]
    answer = handle(HANDLERS[method, route], event(method, route, names, query, body))
    target = answer["headers"]["Location"]
    body = json.loads(answer["body"])
    assert target == f"https://localhost/operations/{body.get('data', body)['operationId']}"
    status, operation = ask("GET", "/operations/{operation}", {"operation": target.rsplit("/", 1)[-1]})
    assert status == 200
    assert operation["state"] in ("Running", "Succeeded")
    assert world.repository.operation(operation["operationId"])


@pytest.mark.parametrize("name", ["operation", "operation_id"])
def test_nodes_of_one_operation_are_listed_alone(world: World, name: str) -> None:
    made, _ = world.create(1)
    _, answer = ask("GET", NODES, DEMO, {name: made.id})
    assert [node["NodeId"] for node in answer["nodes"]] == made.ids()
    assert answer["operation"]["operationId"] == made.id


def test_every_case_is_documented() -> None:
    assert CASES.keys() == pages.documented()


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("route", sorted({route for _, route in HANDLERS if route.startswith("/c")}))
def test_a_method_that_a_route_does_not_have_is_a_405(route: str) -> None:
    names = dict.fromkeys(("cluster", "nodearray"), CLUSTER)
    status, answer = ask("PATCH", route, names)
    assert status == 405
    assert answer["allow"]


@pytest.mark.proves("every route: 500, 503")
@pytest.mark.parametrize(
    ("error", "status"), [(StoreThrottled("the store is busy"), 503), (RuntimeError("a bug"), 500)], ids=str
)
def test_what_is_not_the_clients_fault_is_a_5xx_at_every_route(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    class Broken:
        def __getattr__(self, _: str) -> Any:
            raise error

    well = [
        (method, route, query, *filled(world, names, body))
        for (method, route, expected), (names, query, body) in CASES.items()
        # These two ask nobody.
        if expected < 300 and route not in ("/healthz", "/openapi.json")
    ]
    monkeypatch.setattr(bootstrap, "repository", Broken)
    for method, route, query, names, body in well:
        assert ask(method, route, names, query, body)[0] == status, route


def test_a_history_that_never_was_is_not_found_from_wherever_it_is_asked_for(world: World) -> None:
    del world
    query = {"nextToken": "5"}
    assert ask("GET", HISTORY, {"virtualCluster": "nope"}, query, None)[0] == 404


def test_a_log_line_does_not_quote_all_of_a_body_that_is_wrong(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    del world
    log = StringIO()
    monkeypatch.setattr(logger.handlers[0], "stream", log)
    ask("POST", "/virtual_clusters", {}, None, {"x" * 100_000: "y" * 100_000})
    lines = log.getvalue().splitlines()
    assert any("InvalidRequest" in line for line in lines)
    assert max(map(len, lines)) < 5_000


@pytest.mark.proves("a slow EC2: no request about nodes waits for it")
@pytest.mark.parametrize("route", [CREATE, *ACTIONS])
def test_a_request_about_nodes_is_answered_though_ec2_does_not_answer(
    world: World, monkeypatch: pytest.MonkeyPatch, route: str
) -> None:
    """It records and starts the workflow, and so takes no longer where EC2 does."""

    def slow() -> None:
        raise ComputeUnavailable("no request may ask EC2")

    monkeypatch.setattr(bootstrap, "compute", slow)
    names, query, body = CASES["POST", route, 202]
    status, answer = ask("POST", route, names, query, body)
    assert status == 202
    assert answer["operationId"] in world.workflows.live
