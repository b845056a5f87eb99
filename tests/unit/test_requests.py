"""What clients send is read strictly: a wrong type is refused, and never bent into the right one."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from paddock.errors import InvalidRequest, MalformedBody
from paddock.http.request import Request
from paddock.model.base import MAX_REVISION
from paddock.model.desired import DesiredNodes, NodeAttributes
from paddock.model.node import ShutdownPolicy
from paddock.model.virtual_cluster import AllocationMode
from paddock.requests.bodies import (
    ClusterWrite,
    NodeCreationRequest,
    NodeManagementRequest,
    ScaleRequest,
    VirtualClusterWrite,
    is_request_id,
    is_virtual_cluster_id,
)
from tests.fakes.world import bucket, nodearray

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pydantic import BaseModel


def read(model: type[BaseModel], document: Any) -> Any:
    """What a client's body becomes; text is sent as it is."""
    text = document if isinstance(document, str) else json.dumps(document)
    return Request({"body": text}).body(model)


def refused(model: type[BaseModel], document: Any) -> str:
    with pytest.raises((InvalidRequest, MalformedBody)) as error:
        read(model, document)
    assert error.value.message
    return error.value.message


def line(**changes: Any) -> dict[str, Any]:
    return {"sets": [{"count": 1, "nodearray": "ondemand", **changes}]}


def claim(**changes: Any) -> dict[str, Any]:
    return {"virtualClusterId": "vc", **changes}


# A value as Python writes it: quoted singly, in an enum, or one of its words.
PYTHON = re.compile(r"(?<!\w)'|<\w|\b(?:None|True|False|dict|tuple|[A-Z]\w+\.[A-Z]+)\b")
BODIES: dict[type[BaseModel], dict[str, Any]] = {
    ClusterWrite: {"name": "c", "revision": 1, "nodearrays": [nodearray("a", bucket())]},
    NodeCreationRequest: {
        "requestId": "r",
        "sets": [
            {
                "count": 1,
                "nodearray": "a",
                "definition": {"machineType": "m"},
                "nameFormat": "a-%d",
                "nameOffset": 1,
                "nodeAttributes": {"KeepAlive": True, "Configuration": {}, "ShutdownPolicy": "Terminate"},
                "placementGroupId": "p",
            }
        ],
    },
    NodeManagementRequest: {
        "requestId": "r",
        "force": True,
        "ids": ["a"],
        "ip_addresses": ["10.0.0.1"],
        "filter": 'Name === "a"',
    },
    ScaleRequest: {"requestId": "r", "totalCoreCount": 1},
    VirtualClusterWrite: {
        "virtualClusterId": "vc",
        "allocationMode": "mixed",
        "divisible": False,
        "replicaSets": {"a": 1},
        "revision": 1,
        "cluster": "c",
        "provision": True,
    },
}
WRONG: list[Any] = [None, True, -1, 1.5, 10**12, "", "?", [], ["?"], [True], {}, {"?": 1}, {"?": [{}]}]


def places(document: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to each value in a document, the document itself first."""
    yield above
    steps: Iterable[tuple[Any, Any]] = ()
    if isinstance(document, dict):
        steps = document.items()
    elif isinstance(document, list):
        steps = enumerate(document)
    for step, value in steps:
        yield from places(value, (*above, step))


def replaced(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    """The document with another value in that place."""
    if not place:
        return value
    copy = json.loads(json.dumps(document))
    holder = copy
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = value
    return copy


@pytest.mark.parametrize("model", BODIES, ids=lambda model: model.__name__)
def test_no_refusal_has_a_value_as_python_writes_it(model: type[BaseModel]) -> None:
    read(model, BODIES[model])
    messages = set()
    for place in places(BODIES[model]):
        for wrong in WRONG:
            try:
                read(model, json.dumps(replaced(BODIES[model], place, wrong)))
            except InvalidRequest as error:
                messages.add(error.message)
    assert messages
    assert [
        message
        for message in messages
        if PYTHON.search(re.sub(r"match pattern '\S+( \S+)*?'(?=;|$)", "", message))
    ] == []


COUNTS: list[str] = [
    "1.0",
    "1.5",
    "1e0",
    "true",
    "false",
    '"1"',
    "null",
    "-1",
    "[]",
    "{}",
    "10" * 10,
]


@pytest.mark.parametrize("count", COUNTS)
def test_counts_are_whole_numbers_and_nothing_that_looks_like_one(count: str) -> None:
    assert "count" in refused(NodeCreationRequest, f'{{"sets":[{{"nodearray":"a","count":{count}}}]}}')
    text = f'{{"virtualClusterId":"vc","replicaSets":{{"4c8g":{count}}}}}'
    assert "replicaSets.4c8g" in refused(VirtualClusterWrite, text)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400"])
@pytest.mark.parametrize(
    "text",
    [
        '{"virtualClusterId":"vc","replicaSets":{"4c8g":%s}}',
        '{"sets":[{"count":1,"nodearray":"a","nodeAttributes":{"x":[%s]}}]}',
    ],
)
def test_what_is_no_number_of_json_is_no_number(text: str, number: str) -> None:
    for model in (VirtualClusterWrite, NodeCreationRequest):
        assert refused(model, text % number)


@pytest.mark.parametrize(
    "text",
    [
        '{"virtualClusterId":"a","virtualClusterId":"a"}',
        '{"virtualClusterId":"a","replicaSets":{"x":1,"x":1}}',
        '{"virtualClusterId":"a","replicaSets":{"x":1,"\\u0078":2}}',
    ],
)
def test_a_key_that_is_there_twice_is_refused_and_named(text: str) -> None:
    assert "there twice" in refused(VirtualClusterWrite, text)


@pytest.mark.parametrize("document", ["[]", "1", '"x"', "null", "true", "[{}]"])
@pytest.mark.parametrize(
    "model", [ClusterWrite, NodeCreationRequest, NodeManagementRequest, VirtualClusterWrite]
)
def test_a_body_that_is_no_object_is_refused(model: type[BaseModel], document: str) -> None:
    assert refused(model, document)


@pytest.mark.parametrize(
    ("model", "document", "where", "near"),
    [
        (VirtualClusterWrite, claim(replicaSet={}), "replicaSet:", "replicaSets"),
        (VirtualClusterWrite, claim(replica_sets={}), "replica_sets:", "replicaSets"),
        (VirtualClusterWrite, claim(allocationmode="mixed"), "allocationmode:", "allocationMode"),
        (NodeCreationRequest, {**line(), "requestID": "x"}, "requestID:", "requestId"),
        (NodeCreationRequest, line(nameformat="x"), "sets.0.nameformat:", "nameFormat"),
        (
            NodeCreationRequest,
            line(definition={"machineType": "a", "machinetype": "a"}),
            "sets.0.definition.machinetype:",
            "machineType",
        ),
        (NodeManagementRequest, {"names": ["a"], "hostname": ["a"]}, "hostname:", "hostnames"),
        (NodeManagementRequest, {"ipAddresses": ["10.0.0.1"]}, "ipAddresses:", "ip_addresses"),
        (
            ClusterWrite,
            {"nodearrays": [nodearray("a", bucket(maxcount=1))]},
            "nodearrays.0.buckets.0.maxcount:",
            "maxCount",
        ),
        (
            ClusterWrite,
            {"nodearrays": [nodearray(launchTemplate={"launchTemplateId": "lt-00000000", "versions": "1"})]},
            "nodearrays.0.launchTemplate.versions:",
            "version",
        ),
    ],
)
def test_an_unknown_field_is_named_with_the_nearest_known_one(
    model: type[BaseModel], document: Any, where: str, near: str
) -> None:
    message = refused(model, document)
    assert where in message
    assert f"the nearest known one is {near}" in message


def test_a_fault_of_an_item_is_not_told_as_a_fault_of_its_list_too() -> None:
    message = refused(NodeCreationRequest, line(count="1"))
    assert message.startswith("sets.0.count: ")
    assert "at least 1 item" not in message


def test_of_many_faults_the_first_few_are_told() -> None:
    message = refused(NodeCreationRequest, {"sets": [{"count": "1"}] * 1_000})
    assert "sets.0.count" in message
    assert message.endswith(" more")
    assert len(message) < 1_000


# Creating nodes.


def test_what_a_set_leaves_out_has_its_defaults() -> None:
    [one] = read(NodeCreationRequest, line()).sets
    assert (one.definition, one.name_format, one.name_offset, one.node_attributes) == (None, None, 1, {})
    assert one.placement_group_id is None


def test_a_set_becomes_the_nodes_that_it_asks_for() -> None:
    attributes = {
        "KeepAlive": True,
        "Fixed": True,
        "StartAutomatically": False,
        "ShutdownPolicy": "Deallocate",
        "Configuration": {"a": 1},
        "Color": "red",
    }
    machine = {"machineType": "c7i-large"}
    body = line(
        definition=machine,
        nameFormat="n-%d",
        nameOffset=5,
        nodeAttributes=attributes,
        placementGroupId="p",
    )
    [one] = read(NodeCreationRequest, body).sets
    assert one.desired() == DesiredNodes(
        count=one.count,
        node_array=one.nodearray,
        machine_type="c7i-large",
        name_format="n-%d",
        name_offset=5,
        attributes=NodeAttributes(
            keep_alive=True,
            fixed=True,
            start_automatically=False,
            shutdown_policy=ShutdownPolicy.DEALLOCATE,
            configuration={"a": 1},
            others={"Color": "red"},
        ),
        placement_group_id="p",
    )
    assert one.node_attributes == attributes


def test_a_set_with_count_and_node_array_alone_asks_for_nodes_with_the_defaults() -> None:
    [one] = read(NodeCreationRequest, line()).sets
    assert one.desired() == DesiredNodes(count=one.count, node_array=one.nodearray)


def test_null_is_the_same_as_left_out() -> None:
    """Some clients send each field that they know."""
    names = ("definition", "nameFormat", "nameOffset", "nodeAttributes", "placementGroupId")
    nulls = {**line(**dict.fromkeys(names)), "requestId": None}
    assert read(NodeCreationRequest, nulls) == read(NodeCreationRequest, line())
    assert read(VirtualClusterWrite, claim(replicaSets=None, provision=None)) == read(
        VirtualClusterWrite, claim()
    )
    assert "count" in refused(NodeCreationRequest, line(count=None))
    assert "colour" in refused(NodeCreationRequest, line(colour=None))


@pytest.mark.parametrize(
    "change",
    [
        {"nameFormat": ""},
        {"nameFormat": "%d-%d"},
        {"nameFormat": "%s"},
        {"nameFormat": "%03d"},
        {"nameFormat": "a%"},
        {"nameFormat": "a b"},
        {"nameFormat": "-a"},
        {"nameFormat": "x" * 64},
        {"nameOffset": -1},
        {"nameOffset": 1.0},
        {"nameOffset": 10**9},
        {"placementGroupId": "a.b"},
        {"placementGroupId": ""},
        {"definition": {}},
        {"definition": {"machineType": "c7i.xlarge"}},
        {"definition": "c7i-xlarge"},
        {"nodearray": "with blank"},
        {"nodeAttributes": []},
        {"nodeAttributes": {"KeepAlive": "true"}},
        {"nodeAttributes": {"KeepAlive": 1}},
        {"nodeAttributes": {"Configuration": "x"}},
        {"nodeAttributes": {"StartAutomatically": "false"}},
        {"nodeAttributes": {"Fixed": 1}},
        {"nodeAttributes": {"ShutdownPolicy": "Hibernate"}},
        {"nodeAttributes": {"ShutdownPolicy": ["Terminate"]}},
        {"nodeAttributes": {"x": "y" * 16_384}},
    ],
    ids=str,
)
def test_a_set_that_breaks_a_rule_is_refused(change: dict[str, Any]) -> None:
    assert f"sets.0.{next(iter(change))}" in refused(NodeCreationRequest, line(**change))


@pytest.mark.parametrize("name_format", ["%d", "a-%d", "%d.a", "literal", "A_1.b-c", "0"])
def test_name_formats_hold_at_most_one_number(name_format: str) -> None:
    [one] = read(NodeCreationRequest, line(nameFormat=name_format)).sets
    assert one.name_format == name_format


@pytest.mark.parametrize("sets", [[], None, {}, "x", [None], [{"count": 1}]], ids=str)
def test_a_create_has_sets(sets: Any) -> None:
    assert "sets" in refused(NodeCreationRequest, {"sets": sets})


@pytest.mark.parametrize(
    ("text", "legal"),
    [
        ("r", True),
        ("00000000-0000-4000-8000-000000000000", True),
        ("a b#c/d%e", True),
        ("x" * 128, True),
        ("", False),
        (" x", False),
        ("x ", False),
        ("x" * 129, False),
        ("é", False),
        ("x\n", False),
        ("a\tb", False),
    ],
)
def test_request_ids_are_short_and_can_be_seen(text: str, *, legal: bool) -> None:
    assert is_request_id(text) is legal
    document = {**line(), "requestId": text}
    if legal:
        assert read(NodeCreationRequest, document).request_id == text
    else:
        assert "requestId" in refused(NodeCreationRequest, document)


# Managing nodes.


@pytest.mark.parametrize("selectors", [{}, {"requestId": "r"}, {"names": None, "filter": None}])
def test_a_management_request_selects_something(selectors: dict[str, Any]) -> None:
    assert "must select nodes by" in refused(NodeManagementRequest, selectors)


@pytest.mark.parametrize("name", ["ids", "names", "hostnames", "ip_addresses"])
def test_a_selector_is_a_list_of_texts(name: str) -> None:
    assert read(NodeManagementRequest, {name: ["a", "b"]}).model_dump()[name] == ("a", "b")
    assert read(NodeManagementRequest, {name: []}).model_dump()[name] == ()
    for wrong in ("a", {"a": 1}, [1], [None], [""], ["x" * 257], [["a"]], 1):
        assert name in refused(NodeManagementRequest, {name: wrong})


def test_a_filter_is_checked_before_anything_is_done_and_the_refusal_says_where() -> None:
    assert read(NodeManagementRequest, {"filter": 'Name === "a"'}).filter == 'Name === "a"'
    message = refused(
        NodeManagementRequest, {"names": ["a"], "filter": 'Status === "Ready" && State === Status'}
    )
    assert message.startswith("filter: at character 33 there must be ")
    others: tuple[Any, ...] = ("", 1, ["Name"], {}, "x" * 100_000)
    for wrong in others:
        assert refused(NodeManagementRequest, {"filter": wrong}).startswith("filter: ")


# Virtual clusters.


def test_an_empty_wish_is_legal() -> None:
    one = read(VirtualClusterWrite, claim())
    assert (one.replica_sets, one.mode, one.revision, one.cluster) == (None, None, None, None)
    assert (one.provision, one.dry_run) == (True, False)
    assert read(VirtualClusterWrite, claim(replicaSets=None)).replica_sets is None
    assert read(VirtualClusterWrite, claim(replicaSets={"a": 0})).replica_sets == {"a": 0}


@pytest.mark.parametrize(
    ("text", "legal"),
    [
        ("vc", True),
        ("0.-_", True),
        ("x" * 128, True),
        ("", False),
        ("-x", False),
        (".x", False),
        ("a##b", False),
        ("a/b", False),
        ("a b", False),
        ("a\n", False),
        ("ä", False),
        ("x" * 129, False),
    ],
)
def test_virtual_cluster_ids_hold_what_urls_and_keys_can(text: str, *, legal: bool) -> None:
    assert is_virtual_cluster_id(text) is legal
    if not legal:
        assert "virtualClusterId" in refused(VirtualClusterWrite, {"virtualClusterId": text})


@pytest.mark.parametrize(
    ("fields", "mode"),
    [
        ({}, None),
        ({"allocationMode": "mixed"}, AllocationMode.MIXED),
        ({"allocationMode": "exclusive"}, AllocationMode.EXCLUSIVE),
        ({"divisible": False}, AllocationMode.MIXED),
        ({"divisible": True}, AllocationMode.EXCLUSIVE),
        ({"divisible": True, "allocationMode": "exclusive"}, AllocationMode.EXCLUSIVE),
        ({"divisible": False, "allocationMode": "mixed"}, AllocationMode.MIXED),
    ],
)
def test_the_allocation_mode_has_two_names(fields: dict[str, Any], mode: AllocationMode | None) -> None:
    assert read(VirtualClusterWrite, claim(**fields)).mode is mode


@pytest.mark.parametrize(
    "fields",
    [
        {"divisible": True, "allocationMode": "mixed"},
        {"divisible": False, "allocationMode": "exclusive"},
        {"divisible": 1},
        {"divisible": "yes"},
        {"allocationMode": "MIXED"},
        {"allocationMode": 1},
        {"allocationMode": ""},
        {"replicaSets": []},
        {"replicaSets": {"": 1}},
        {"replicaSets": {"a b": 1}},
        {"provision": "false"},
        {"dryRun": 1},
        {"cluster": ""},
        {"cluster": "a#b"},
    ],
    ids=str,
)
def test_a_wish_that_breaks_a_rule_is_refused(fields: dict[str, Any]) -> None:
    message = refused(VirtualClusterWrite, claim(**fields))
    assert next(iter(fields)) in message or "allocationMode" in message


@pytest.mark.parametrize(
    ("revision", "number"),
    [
        ("0", 0),
        ('"0"', 0),
        ("1735000000123456", 1735000000123456),
        ('"1735000000123456"', 1735000000123456),
        (str(MAX_REVISION), MAX_REVISION),
        ("null", None),
    ],
)
def test_a_revision_is_a_number_or_its_digits(revision: str, number: int | None) -> None:
    text = f'{{"virtualClusterId":"vc","revision":{revision}}}'
    assert read(VirtualClusterWrite, text).revision == number


@pytest.mark.parametrize(
    "revision",
    ['""', '"-1"', '"1.0"', '" 1"', '"٣"', '"0x1"', "-1", "1.0", "true", str(2**53), f'"{2**53}"', "9" * 50],
)
def test_what_is_no_revision_is_refused(revision: str) -> None:
    text = f'{{"virtualClusterId":"vc","revision":{revision}}}'
    assert "revision" in refused(VirtualClusterWrite, text)


def test_a_definition_written_back_as_it_was_read_is_the_same() -> None:
    one = read(ClusterWrite, {"nodearrays": [nodearray()], "maxCount": 3, "name": "demo", "revision": "7"})
    assert one.revision == 7
    again = {"nodearrays": one.model_dump(mode="json", by_alias=True)["nodearrays"], "maxCount": 3}
    assert read(ClusterWrite, again).definition() == one.definition()


@pytest.mark.parametrize(
    ("model", "document"),
    [
        (ClusterWrite, {"nodearrays": [nodearray("a", {"machineType": "p5.48xlarge"})]}),
        (
            NodeCreationRequest,
            {"sets": [{"count": 1, "nodearray": "a", "definition": {"machineType": "p5.48xlarge"}}]},
        ),
    ],
    ids=["bucket", "set"],
)
def test_a_machine_type_with_a_dot_is_told_how_to_write_it(model: type[BaseModel], document: Any) -> None:
    assert "machineType: a machine type has no dot: write p5-48xlarge" in refused(model, document)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"machineType": "p5-48xlarge", "instanceType": "p5-48xlarge"}, "write p5.48xlarge"),
        ({"machineType": "hpc", "instanceType": "u-6tb1-56xlarge"}, "such as c7i.xlarge"),
        ({"machineType": "large"}, "such as c7i.xlarge"),
    ],
)
def test_an_instance_type_without_a_dot_is_told_how_to_write_it(given: dict[str, str], told: str) -> None:
    message = refused(ClusterWrite, {"nodearrays": [nodearray("a", given)]})
    assert f"instanceType: an instance type has a dot: {told}" in message
