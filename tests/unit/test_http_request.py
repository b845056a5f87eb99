"""Reading a request from the gateway's event."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from paddock.errors import InvalidRequest, MalformedBody, PaddockError
from paddock.http.request import Request, parse_json
from paddock.model.identity import OperationId
from paddock.requests.bodies import NodeCreationRequest, ScaleRequest, VirtualClusterWrite
from tests.fakes.world import World

BODY = '{"virtualClusterId":"Grüße"}'


def desired(**event: Any) -> VirtualClusterWrite:
    return Request(event).body(VirtualClusterWrite)


def deep(levels: int) -> str:
    """A create whose attributes are nested that deeply."""
    nested = "[" * levels + "]" * levels
    return f'{{"sets":[{{"count":1,"nodearray":"ondemand","nodeAttributes":{{"x":{nested}}}}}]}}'


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/json", "application/xml", ""])
@pytest.mark.parametrize("encoded", [False, True])
def test_a_body_is_json_whatever_its_content_type(content_type: str | None, *, encoded: bool) -> None:
    text = '{"virtualClusterId":"vc"}'
    body = base64.b64encode(text.encode()).decode() if encoded else text
    headers = {"Content-Type": content_type} if content_type is not None else None
    found = desired(body=body, isBase64Encoded=encoded, headers=headers)
    assert found.virtual_cluster_id == "vc"


@pytest.mark.parametrize(
    ("body", "encoded"),
    [
        (None, False),
        ("", False),
        ("   ", False),
        ("not json", False),
        ("{", False),
        ("{}}", False),
        ("{'a': 1}", False),
        ('{"a": 1,}', False),
        ("virtualClusterId=vc", False),
        ("<xml/>", False),
        ('{"a":"\\ud800"}', False),
        ('{"\\udfff":1}', False),
        ("\ufeff{}", False),
        ("9" * 5_000, False),
        ("{}", True),
        ("\u00e9", True),
        (base64.b64encode(b"\xff\xfe{}").decode(), True),
        ("", True),
        ("[" * 100_000, False),
        ("[" * 100_000 + "]" * 100_000, False),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, False),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_no_json_is_malformed(body: str | None, *, encoded: bool) -> None:
    with pytest.raises(MalformedBody) as error:
        desired(body=body, isBase64Encoded=encoded)
    assert 0 < len(error.value.message) < 300


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a":-Infinity}', "1e400", '{"a":[-1e400]}'])
def test_json_has_no_number_that_is_not_finite(text: str) -> None:
    with pytest.raises(MalformedBody):
        parse_json(text)


@pytest.mark.parametrize("number", [2**63, -(2**64), 10**400])
def test_huge_whole_numbers_are_read_exactly(number: int) -> None:
    assert parse_json(f'{{"a":{number}}}') == {"a": number}


@pytest.mark.parametrize("levels", [10, 100, 150, 190, 200, 220, 240, 260, 300, 500, 900, 1_000, 5_000])
def test_what_is_nested_too_deeply_is_refused_and_what_is_not_can_be_stored(levels: int) -> None:
    world = World()
    try:
        body = Request({"body": deep(levels)}).body(NodeCreationRequest)
    except PaddockError:
        assert levels > 30
        return
    [line] = body.model_dump(by_alias=True)["sets"]
    [node] = world.ready(1, nodeAttributes=line["nodeAttributes"])
    assert node.attributes == line["nodeAttributes"]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "junk",
    [
        "x" * 1_000_000,
        '"' + "x" * 1_000_000 + '"',
        "[" + "0," * 500_000 + "0]",
        '{"' + "x" * 1_000_000 + '":1}',
        "{" + ",".join(f'"{number}":0' for number in range(90_000)) + "}",
        "{" + ",".join(f'"{number}":0' for number in range(90_000)) + ',"89999":1}',
        '{"sets":[' + ",".join(['{"count":"1","x":2}'] * 50_000) + "]}",
        '{"sets":"' + "x" * 1_000_000 + '"}',
        '{"sets":[{"count":1,"nodearray":"a","nodeAttributes":{"x":"' + "y" * 1_000_000 + '"}}]}',
        '{"sets":[{"count":' + "9" * 1_000_000 + ',"nodearray":"a"}]}',
        "{" * 1_000_000,
        "\x00" * 1_000_000,
        '{"virtualClusterId":"' + "-" * 1_000_000 + '"}',
    ],
    ids=lambda junk: junk[:20].encode("unicode_escape").decode(),
)
def test_a_megabyte_of_junk_is_refused_soon_and_briefly(junk: str) -> None:
    for model in (NodeCreationRequest, VirtualClusterWrite):
        with pytest.raises((MalformedBody, InvalidRequest)) as error:
            Request({"body": junk}).body(model)
        assert len(error.value.message) < 1_000


# Revisions.


@pytest.mark.parametrize(
    ("headers", "query", "in_body", "revision"),
    [
        (None, None, None, None),
        ({"If-Match": '"7"'}, None, None, 7),
        ({"if-match": 'W/"7"'}, None, None, 7),
        ({"IF-MATCH": " 7 "}, None, None, 7),
        (None, {"revision": "7"}, None, 7),
        (None, None, 7, 7),
        (None, None, 0, 0),
        ({"If-Match": '"7"'}, {"revision": "7"}, 7, 7),
        ({"If-Match": '"1735000000123456"'}, None, 1735000000123456, 1735000000123456),
    ],
)
def test_a_revision_comes_in_a_header_in_the_query_or_in_the_body(
    headers: dict[str, str] | None, query: dict[str, str] | None, in_body: int | None, revision: int | None
) -> None:
    request = Request({"headers": headers, "queryStringParameters": query})
    assert request.revision(in_body) == revision


@pytest.mark.parametrize(
    ("headers", "query", "in_body"),
    [
        ({"If-Match": '"7"'}, None, 8),
        ({"If-Match": '"7"'}, None, 0),
        ({"If-Match": '"7"'}, {"revision": "8"}, None),
        (None, {"revision": "8"}, 7),
        ({"If-Match": "*"}, None, None),
        ({"If-Match": '"7", "8"'}, None, None),
        ({"If-Match": '"-7"'}, None, None),
        ({"If-Match": '"7.0"'}, None, None),
        ({"If-Match": '"٣"'}, None, None),
        ({"If-Match": "9" * 5_000}, None, None),
        (None, {"revision": ""}, None),
        (None, {"revision": "latest"}, None),
    ],
)
def test_revisions_that_differ_or_are_none_are_refused(
    headers: dict[str, str] | None, query: dict[str, str] | None, in_body: int | None
) -> None:
    with pytest.raises(InvalidRequest):
        Request({"headers": headers, "queryStringParameters": query}).revision(in_body)


# Paths and queries.


def test_path_parameters_are_decoded_and_may_be_missing() -> None:
    request = Request({"pathParameters": {"cluster": "my%20demo", "plain": "a b"}})
    assert [request.path(name) for name in ("cluster", "plain", "none")] == ["my demo", "a b", ""]
    assert Request({"pathParameters": None}).path("cluster") == ""


@pytest.mark.parametrize(
    ("text", "flag"),
    [(None, False), ("", False), ("true", True), ("TRUE", True), ("1", True), ("false", False), ("0", False)],
)
def test_a_flag_is_true_or_false(text: str | None, *, flag: bool) -> None:
    event = {"queryStringParameters": None if text is None else {"nodes": text}}
    assert Request(event).flag("nodes") is flag


@pytest.mark.proves("DELETE /virtual_clusters/{virtualCluster}: 400")
@pytest.mark.parametrize("text", ["yes", "2", "tru", "x" * 10_000])
def test_a_flag_that_is_neither_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="nodes must be true or false"):
        Request({"queryStringParameters": {"nodes": text}}).flag("nodes")


@pytest.mark.parametrize(("text", "limit"), [(None, None), ("1", 1), ("1000", 1_000), ("007", 7)])
def test_a_limit_is_a_whole_number(text: str | None, limit: int | None) -> None:
    event = {"queryStringParameters": None if text is None else {"maxResults": text}}
    assert Request(event).limit("maxResults", 1_000) == limit


@pytest.mark.parametrize("text", ["0", "1001", "-1", "1.0", "", "x", "1e2", "٣", "9" * 5_000])
def test_a_limit_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="maxResults must be"):
        Request({"queryStringParameters": {"maxResults": text}}).limit("maxResults", 1_000)


@pytest.mark.parametrize(("text", "count"), [(None, None), ("0", 0), ("1000000000", 10**9)])
def test_a_count_is_a_whole_number_and_may_be_0(text: str | None, count: int | None) -> None:
    event = {"queryStringParameters": None if text is None else {"total": text}}
    assert Request(event).count("total") == count


@pytest.mark.parametrize("text", ["1000000001", "-1", "1.0", "", "x", "٣", "9" * 5_000])
def test_a_count_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="total must be a whole number from 0"):
        Request({"queryStringParameters": {"total": text}}).count("total")


@pytest.mark.parametrize(
    ("body", "in_query", "expected"),
    [
        (None, {}, (None, None)),
        ("", {"totalNodeCount": 3}, (3, None)),
        ("{}", {"totalNodeCount": 0, "totalCoreCount": None}, (0, None)),
        ('{"totalNodeCount": 3}', {"totalNodeCount": None}, (3, None)),
        ('{"totalNodeCount": 3}', {"totalNodeCount": 3}, (3, None)),
        ('{"totalNodeCount": null}', {"totalNodeCount": 3}, (3, None)),
        ('{"totalNodeCount": null}', {"totalCoreCount": 3}, (None, 3)),
    ],
)
def test_fields_may_stand_in_the_query_or_in_the_body(
    body: str | None, in_query: dict[str, Any], expected: tuple[int | None, int | None]
) -> None:
    found = Request({"body": body}).body(ScaleRequest, in_query)
    assert (found.total_node_count, found.total_core_count) == expected


@pytest.mark.proves("POST /clusters/{cluster}/scale/{nodearray}: 409")
@pytest.mark.parametrize(
    ("body", "in_query", "told"),
    [
        ('{"totalNodeCount": 3}', {"totalNodeCount": 4}, "totalNodeCount must be the same"),
        ('{"totalNodeCount": 0}', {"totalNodeCount": 4}, "totalNodeCount must be the same"),
        ('{"totalNodeCount": 3}', {"totalCoreCount": 3}, "not both"),
        ('{"totalNodeCount": 3, "totalCoreCount": 3}', {}, "not both"),
        (None, {"totalNodeCount": 0, "totalCoreCount": 0}, "not both"),
        ('{"totalNodeCount": true}', {"totalNodeCount": 1}, "totalNodeCount"),
        ('{"totalNodeCount": "1"}', {}, "totalNodeCount"),
        ("[]", {"totalNodeCount": 1}, "the body"),
        ("null", {}, "the body"),
        ('{"requestId": "a"}', {"requestId": "b"}, "requestId must be the same"),
        (None, {"requestId": "ü"}, "requestId"),
    ],
)
def test_fields_that_contradict_or_break_a_rule_are_refused_wherever_they_stand(
    body: str | None, in_query: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidRequest, match=told):
        Request({"body": body}).body(ScaleRequest, in_query)


def test_a_body_that_is_no_json_is_malformed_also_where_none_is_needed() -> None:
    with pytest.raises(MalformedBody):
        Request({"body": "totalNodeCount=3"}).body(ScaleRequest, {})


HOST = "id.execute-api.us-east-1.amazonaws.com"


def creation(path: str, base: str, **headers: str) -> dict[str, Any]:
    """A create as API Gateway tells of it, under a stage or a custom domain's base path."""
    return {
        "resource": "/clusters/{cluster}/nodes/create",
        "path": path,
        "headers": {"Host": HOST, "X-Forwarded-Proto": "https", **headers},
        "requestContext": {"path": f"{base}{path}", "domainName": HOST},
    }


@pytest.mark.parametrize("base", ["", "/v1", "/teams/hpc"])
@pytest.mark.parametrize("path", ["/clusters/my%20demo/nodes/create", "/clusters/demo/nodes/create/"])
def test_the_location_is_the_operations_url_from_whatever_address_was_used(base: str, path: str) -> None:
    location = Request(creation(path, base)).location_of(OperationId("the-id"))["Location"]
    assert location == f"https://{HOST}{base}/operations/the-id"


def test_the_location_has_the_scheme_that_the_gateway_was_asked_by() -> None:
    event = creation(
        "/clusters/demo/nodes/create", "", **{"X-Forwarded-Proto": "http", "Host": "127.0.0.1:3000"}
    )
    assert Request(event).location_of(OperationId("x"))["Location"] == "http://127.0.0.1:3000/operations/x"


def test_a_header_that_any_client_can_send_does_not_move_the_location() -> None:
    event = creation("/clusters/demo/nodes/create", "/v1", **{"X-Forwarded-Host": "elsewhere.example"})
    assert Request(event).location_of(OperationId("x"))["Location"] == f"https://{HOST}/v1/operations/x"


@pytest.mark.parametrize("public", ["https://hpc.example/paddock", "https://hpc.example/paddock/"])
def test_behind_a_proxy_the_location_is_at_the_address_that_the_deployment_says(
    public: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUBLIC_URL", public)
    event = creation("/clusters/demo/nodes/create", "/v1")
    assert (
        Request(event).location_of(OperationId("x"))["Location"] == "https://hpc.example/paddock/operations/x"
    )


def test_an_event_with_nothing_in_it_is_read_without_complaint() -> None:
    request = Request(json.loads("{}"))
    assert (request.method, request.resource, request.query("x"), request.revision()) == ("", "", None, None)


@pytest.mark.proves("DELETE /clusters/{cluster}: 400")
@pytest.mark.parametrize("tag", ["", " ", '""', "*", "W/", '"1" "2"'])
def test_a_precondition_that_cannot_be_read_is_refused_and_not_ignored(tag: str) -> None:
    with pytest.raises(InvalidRequest, match="If-Match must be a revision"):
        Request({"headers": {"If-Match": tag}}).revision()


def test_the_body_of_a_delete_may_name_the_revision() -> None:
    assert Request({"body": '{"revision": "5"}'}).deleted_revision() == 5
    assert Request({"body": ""}).deleted_revision() is None
    with pytest.raises(InvalidRequest):
        Request({"body": '{"revision": 5}', "headers": {"If-Match": '"6"'}}).deleted_revision()
    with pytest.raises(InvalidRequest):
        Request({"body": '{"revison": 5}'}).deleted_revision()
