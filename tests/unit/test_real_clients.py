"""What programs that exist look for: host names, phrases, times, and messages without Python in them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from paddock.model.identity import VirtualClusterId
from paddock.model.virtual_cluster import TOMBSTONE_NS
from tests.fakes.api import HANDLERS, ask, event, handle, handler_of, serve
from tests.fakes.world import CLUSTER, World, bucket, nodearray
from tests.unit.test_answers import CASES, filled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DEMO = {"cluster": CLUSTER}
STATUS, NODES = "/clusters/{cluster}/status", "/clusters/{cluster}/nodes"
HELD = "/virtual_clusters/{virtualCluster}"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(nodearray("ondemand", bucket(maxCount=4)))
    serve(world, monkeypatch)
    return world


# A PBS autoscaler takes a host only by a name that it expects.


def has_standalone_dns(record: Mapping[str, Any]) -> bool:
    """As the autoscaler reads it: nested objects, and true where nothing is said."""
    configuration: Any = record.get("Configuration", {})
    for name in ("cyclecloud", "hosts", "standalone_dns"):
        configuration = configuration.get(name, {})
    return bool(configuration.get("enabled", True))


def is_taken(node: Mapping[str, Any]) -> bool:
    pattern = "^ip-[0-9A-Za-z]{8}$" if has_standalone_dns(node) else ".+"
    return re.match(pattern, node["Hostname"] or "") is not None


def array_and_nodes(world: World) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    world.drive_all()
    status = ask("GET", STATUS, DEMO, {"nodes": "true"})[1]
    listed = ask("GET", NODES, DEMO)[1]["nodes"]
    assert [node["Configuration"] for node in status["nodes"]] == [node["Configuration"] for node in listed]
    return status["nodearrays"][0]["nodearray"], sorted(listed, key=lambda node: str(node["Name"]))


def test_the_host_name_of_every_ready_node_is_taken(world: World) -> None:
    world.create(1)
    world.create(1, nodeAttributes={"Configuration": {"cyclecloud": {"hosts": {"domain": "x"}}}})
    array, nodes = array_and_nodes(world)
    assert not has_standalone_dns(array)
    assert [is_taken(node) for node in nodes] == [True, True]
    assert nodes[1]["Configuration"]["cyclecloud"]["hosts"]["domain"] == "x"


def test_what_a_definition_or_a_set_says_of_host_names_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"cyclecloud": {"hosts": {"standalone_dns": {"enabled": True}, "domain": "x"}}}
    world = World(nodearray(configuration=own))
    serve(world, monkeypatch)
    off = {"cyclecloud": {"hosts": {"standalone_dns": {"enabled": False}}}}
    world.create(1)
    world.create(1, nodeAttributes={"Configuration": off})
    array, nodes = array_and_nodes(world)
    assert has_standalone_dns(array)
    assert [has_standalone_dns(node) for node in nodes] == [True, False]
    # The set says one thing, and leaves the rest as its node array has it.
    assert nodes[1]["Configuration"]["cyclecloud"]["hosts"]["domain"] == "x"


@pytest.mark.parametrize("own", [{"cyclecloud": None}, {"cyclecloud": {"hosts": None}}, {"a": [1]}])
def test_null_says_nothing_of_host_names(own: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(nodearray(configuration=own))
    serve(world, monkeypatch)
    assert not has_standalone_dns(array_and_nodes(world)[0])


# Ray's virtual clusters.


def write(body: dict[str, Any]) -> tuple[int, Any]:
    return ask("POST", "/virtual_clusters", {}, None, {"virtualClusterId": "vc", **body})


@pytest.mark.usefixtures("world")
def test_too_few_nodes_are_told_in_upstream_s_words_with_what_is_missing_in_json() -> None:
    status, answer = write({"replicaSets": {"4c8g": 6}, "provision": False, "divisible": "False"})
    assert status == 409
    assert "No enough nodes to add to the virtual cluster" in answer["msg"]
    assert '{"4c8g": 6}' in answer["msg"]
    assert answer["data"]["replicaSetsToRecommend"] == {"4c8g": 0}


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("revision", [0, 7, "7"])
def test_an_expired_revision_is_told_in_upstream_s_words(revision: int | str) -> None:
    current = write({"replicaSets": {}})[1]["data"]["revision"]
    status, answer = write({"replicaSets": {}, "revision": revision})
    assert (status, answer["data"]["revision"]) == (409, current)
    assert f"The revision ({revision}) is expired" in answer["msg"]
    assert answer["msg"].endswith(f" is {current}")
    assert ("send the revision that you read" in answer["msg"]) is (revision == 0)


@pytest.mark.usefixtures("world")
def test_an_update_without_a_revision_is_told_to_send_the_one_that_was_read() -> None:
    current = write({"replicaSets": {}})[1]["data"]["revision"]
    status, answer = write({"replicaSets": {}})
    assert status == 409
    assert answer["msg"] == (
        "The revision (0) is expired, send the revision that you read: "
        f"the latest revision of the virtual cluster vc is {current}"
    )


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_what_does_not_exist_is_told_in_upstream_s_words(method: str) -> None:
    status, answer = ask(method, HELD, {"virtualCluster": "vc"})
    assert (status, answer["data"]["code"]) == (404, "NotFound")
    assert answer["msg"].endswith("vc does not exist.")


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("given", "told"), [(True, True), ("true", True), ("True", True), (False, False), ("False", False)]
)
def test_divisible_is_taken_as_upstream_tells_it_and_told_again(given: Any, told: bool) -> None:
    assert write({"divisible": given})[1]["data"]["divisible"] is told
    found = ask("GET", HELD, {"virtualCluster": "vc"})[1]["data"]
    assert (found["divisible"], found["allocationMode"]) == (told, "exclusive" if told else "mixed")
    assert write({"divisible": str(told).lower(), "revision": found["revision"]})[0] == 200
    again = ask("GET", HELD, {"virtualCluster": "vc"})[1]["data"]
    assert write({"divisible": not told, "revision": again["revision"]})[0] == 409


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("given", ["yes", "1", 1, "", [], "truefalse"])
def test_divisible_is_no_other_word(given: Any) -> None:
    assert write({"divisible": given})[0] == 400


@pytest.mark.usefixtures("world")
def test_a_create_of_an_id_that_was_never_used_may_bear_any_revision() -> None:
    status, answer = write({"replicaSets": {}, "revision": 1735000000000000})
    assert (status, answer["result"]) == (200, True)


@pytest.mark.parametrize("pause_ns", [0, TOMBSTONE_NS + 1])
def test_an_id_that_was_deleted_is_updated_by_nobody_also_when_its_tombstone_is_gone(
    world: World, pause_ns: int
) -> None:
    revision = write({"replicaSets": {}})[1]["data"]["revision"]
    assert ask("DELETE", HELD, {"virtualCluster": "vc"})[0] == 200
    if pause_ns:
        gone = world.repository.virtual_cluster(VirtualClusterId("vc"))
        assert gone is not None
        world.clock.advance(pause_ns // 1_000_000_000 + 1)
        world.forget(gone)
    status, answer = write({"replicaSets": {}, "revision": revision})
    assert (status, answer["data"]["code"], answer["data"]["revision"]) == (409, "RevisionConflict", 0)
    assert f"The revision ({revision}) is expired" in answer["msg"]
    assert write({"replicaSets": {}, "revision": 0})[0] == 200


# Times.

TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+.*")
UTC = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


def texts(document: Any) -> Iterator[str]:
    if isinstance(document, str):
        yield document
    elif isinstance(document, dict):
        for name, value in document.items():
            yield from (name, *texts(value))
    elif isinstance(document, list):
        for value in document:
            yield from texts(value)


def test_every_time_in_every_reply_ends_in_z(world: World) -> None:
    operation, _ = world.create(2, request_id="used")
    world.drive(operation)
    write({"replicaSets": {"4c8g": 1}})
    names = {**DEMO, "operation": operation.id, "virtualCluster": "vc", "nodearray": "ondemand"}
    times = 0
    for method, route in sorted(HANDLERS):
        query = {"request_id": "used"} if route == "/operations" else None
        if method == "GET" and route != "/self":
            found = [text for text in texts(ask(method, route, names, query)[1]) if TIME.fullmatch(text)]
            assert [text for text in found if not UTC.fullmatch(text)] == [], route
            times += len(found)
    assert times > 6


# Messages.

PYTHON = re.compile(
    r"[\[({]\s*'|'\s*[\])}]|': |\bNone\b|\bTrue\b|\bFalse\b|<class|\b(dict|list|set|Counter|tuple)\("
    r"|\btuple\b|dictionary|Decimal|Error:|object at 0x|<\w+\.\w+: "
)
BODIES: tuple[Any, ...] = (
    *(None, [], "{", 1),
    *({"x": 1}, '{"a": 1, "a": 2}', {"revision": True}, {"revision": [None]}),
)
VC, CREATE = "/virtual_clusters", "/clusters/{cluster}/nodes/create"
END, SCALE = "/clusters/{cluster}/nodes/terminate", "/clusters/{cluster}/scale/{nodearray}"
ARRAY = nodearray()
WISHES: tuple[Any, ...] = (
    {"replicaSets": {"none": 1, "other's": 2}},
    {"replicaSets": {"none": 1}},
    {"replicaSets": {"4c8g": 9}, "provision": False},
    {"replicaSets": {"4c8g": 9_999}},
    {"replicaSets": {"4c8g": None}},
    {"replicaSets": {"4c8g": {"a": None}}},
    {"replicaSets": [1]},
    {"allocationMode": "x"},
    {"divisible": "x"},
    {"divisible": True, "allocationMode": "mixed"},
    {"cluster": "it's"},
    {"cluster": {}},
    {"virtualClusterId": "held", "revision": 1},
    {"virtualClusterId": ["held"]},
)
LINES: tuple[Any, ...] = (
    {"nodearray": "it's"},
    {"count": "1"},
    {"count": True},
    {"count": -1},
    {"definition": {"machineType": "none"}},
    {"definition": ["c7i-xlarge"]},
    {"nameFormat": "%d%d"},
    {"nameFormat": "ondemand-1"},
    {"count": 9_999},
    {"nodeAttributes": {"KeepAlive": None}},
    {"nodeAttributes": {"ShutdownPolicy": "Stop"}},
    {"nodeAttributes": {"Configuration": [1]}},
    {"nodeAttributes": None, "nodeattributes": {}},
)
SELECTIONS: tuple[Any, ...] = (
    {"filter": "Status === 'Ready'"},
    {"filter": "Status ==="},
    {"filter": 1},
    {"names": "x"},
    {"names": [None]},
    {"ids": {"a": True}},
    {"names": ["ondemand-1"], "force": "true"},
)
CHANGES: tuple[Any, ...] = (
    {"buckets": [bucket(), bucket()]},
    {"buckets": []},
    {"buckets": {}},
    {"buckets": [bucket("p9x-large", vcpuCount=None)]},
    {"subnetIds": "subnet-1"},
    {"subnetIds": ["x"]},
    {"launchTemplate": None},
    {"interruptible": "yes"},
    {"configuration": [None]},
    {"name": True},
)
WRONG: tuple[tuple[str, str, Mapping[str, str], dict[str, str] | None, Any], ...] = (
    *(
        (
            method,
            route,
            {**DEMO, "nodearray": "none", "virtualCluster": "it's", "operation": "no"},
            None,
            body,
        )
        for method, route in sorted({*HANDLERS, *(("PATCH", route) for _, route in HANDLERS)})
        if route not in ("/self", "/{proxy+}")
        for body in BODIES
    ),
    *(("POST", VC, {}, None, {"virtualClusterId": "new", **body}) for body in WISHES),
    *(
        ("POST", CREATE, DEMO, None, {"sets": [{"count": 1, "nodearray": "ondemand", **line}]})
        for line in LINES
    ),
    *(("POST", END, DEMO, None, body) for body in SELECTIONS),
    *(
        ("GET", NODES, DEMO, {name: "it's"}, None)
        for name in ("maxResults", "nextToken", "operation", "request_id")
    ),
    ("GET", STATUS, DEMO, {"nodes": "it's"}, None),
    ("GET", "/clusters/{cluster}/usage", DEMO, {"timeframe": "custom", "from": "x", "to": "y"}, None),
    ("GET", "/clusters/{cluster}/usage", DEMO, {"granularity": "x"}, None),
    ("POST", SCALE, {**DEMO, "nodearray": "ondemand"}, {"totalNodeCount": "None"}, None),
    ("POST", SCALE, {**DEMO, "nodearray": "it's"}, {"totalNodeCount": "1"}, None),
    ("DELETE", HELD, {"virtualCluster": "held"}, {"revision": "1"}, None),
    *(
        ("PUT", "/clusters/{cluster}", {"cluster": "new"}, None, {"nodearrays": [{**ARRAY, **change}]})
        for change in CHANGES
    ),
    ("PUT", "/clusters/{cluster}", {"cluster": "new"}, None, {"nodearrays": [ARRAY, ARRAY]}),
    ("PATCH", "/clusters/{cluster}", DEMO, None, None),
)


def messages(answer: Any) -> list[str]:
    """All sentences of an answer, those about single sets, nodes and operations too."""
    if isinstance(answer, list):
        return [text for one in answer for text in messages(one)]
    if not isinstance(answer, dict):
        return []
    told = ("Message", "msg", "message", "error", "StatusMessage", "reason")
    own = [answer[name] for name in told if isinstance(answer.get(name), str)]
    return own + [text for value in answer.values() for text in messages(value)]


def test_no_message_has_python_in_it(world: World) -> None:
    operation, _ = world.create(3, request_id="used")
    world.drive(operation)
    write({"virtualClusterId": "held", "replicaSets": {"4c8g": 1}})
    seen = set()
    for method, route, names, query, body in WRONG:
        answer = handle(handler_of(method, route), event(method, route, names, query, body))
        found = messages(json.loads(answer["body"]))
        assert answer["statusCode"] < 500, (method, route, body, answer)
        assert [text for text in found if PYTHON.search(text)] == []
        seen |= set(found)
    assert len(seen) > 60


@pytest.mark.parametrize("case", [case for case in CASES if case[2] >= 400], ids=str)
def test_no_documented_refusal_has_python_in_it(world: World, case: tuple[str, str, int]) -> None:
    world.create(1, request_id="used")
    names, query, body = CASES[case]
    names, body = filled(world, names, body)
    _, answer = ask(case[0], case[1], names, query, body)
    assert [text for text in messages(answer) if PYTHON.search(text)] == []


@pytest.mark.parametrize(
    "text",
    ["{'4c8g': 2} are missing", "one of ['GET']", "must be None", "('a',)", "<Kind.A: 'a'>", "not True"],
)
def test_python_is_known_where_it_stands(text: str) -> None:
    assert PYTHON.search(text)
