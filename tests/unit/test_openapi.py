"""The OpenAPI document is that of the code, and every reply of every route is as it says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate
from pydantic import BaseModel

from paddock import bootstrap
from paddock.errors import MethodNotAllowed, PaddockError, StoreThrottled
from paddock.http.errors import STATUS
from paddock.http.routes import METHODS
from paddock.model.identity import ClusterName
from tests import pages
from tests.fakes.api import event, handle, handler_of, serve
from tests.fakes.world import World, nodearray
from tests.openapi import replies
from tests.openapi.document import FILE, document, text
from tests.openapi.routes import ROUTES
from tests.openapi.schemas import field_texts
from tests.unit.test_answers import CASES, filled
from tests.unit.test_answers import world as world  # noqa: PLC0414 - a fixture

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENT = document()
SCHEMAS = DOCUMENT["components"]["schemas"]
# Answers of the gateway, or of a fault; the tables of the docs do not repeat them for each route.
ANYWHERE = {"401", "403", "413", "429", "500", "503", "504"}


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_the_document_in_the_repository_is_that_of_the_code() -> None:
    assert FILE.read_text(encoding="utf-8") == text(), "run `make openapi`"


def test_the_document_is_valid() -> None:
    validate(DOCUMENT)


def test_each_route_is_described_and_no_other() -> None:
    described = {(method, path) for method, path, _ in operations()}
    assert described == {(method, path) for path, methods in METHODS.items() for method in methods}
    assert len(ROUTES) == len(described)


def test_each_route_has_the_statuses_that_the_docs_tell() -> None:
    told = {
        (method, path, int(status))
        for method, path, operation in operations()
        for status in operation["responses"].keys() - ANYWHERE
    }
    assert told == pages.documented()


def test_each_route_asks_for_the_credentials_that_the_template_asks_for() -> None:
    own = {path: operation["security"] for _, path, operation in operations() if "security" in operation}
    assert own == {"/healthz": [], "/self": [{"iam": []}]}
    assert DOCUMENT["security"] == [{"basic": []}]


def test_everything_has_a_description() -> None:
    for method, path, operation in operations():
        assert operation["summary"], (method, path)
        assert all(parameter["description"] for parameter in operation.get("parameters", ())), (method, path)
    for name, schema in SCHEMAS.items():
        assert schema.get("description"), name
        if not name.startswith(("Clusters", "VirtualClusters", "Gateway")):
            missing = [
                key for key, value in schema.get("properties", {}).items() if "description" not in value
            ]
            assert missing == [], name


def test_each_example_of_a_body_is_one() -> None:
    bodies = 0
    for _, path, operation in operations():
        for media in operation.get("requestBody", {}).get("content", {}).values():
            if "example" in media:
                assert problems(media["example"], media["schema"]) == [], path
                bodies += 1
    assert bodies > 8


def problems(reply: Any, schema: dict[str, Any]) -> list[str]:
    """What of the reply is not as the schema says."""
    whole = {**schema, "components": DOCUMENT["components"]}
    validator = OAS31Validator(whole, format_checker=OAS31Validator.FORMAT_CHECKER)
    return [f"{error.json_path}: {error.message[:300]}" for error in validator.iter_errors(reply)]


def response(method: str, path: str, status: int) -> dict[str, Any]:
    """What the document says of an answer."""
    found: dict[str, Any] = DOCUMENT["paths"][path][method.lower()]["responses"][str(status)]
    if "$ref" in found:
        return dict(DOCUMENT["components"]["responses"][found["$ref"].rsplit("/", 1)[-1]])
    return found


def check(method: str, path: str, answer: dict[str, Any]) -> None:
    """Hold an answer to the document, its headers too."""
    told = response(method, path, answer["statusCode"])
    body = json.loads(answer["body"])
    assert problems(body, told["content"]["application/json"]["schema"]) == []
    # A node's own attributes may be anything, and these nodes have none.
    for node in nodes_in(body):
        assert node.keys() <= SCHEMAS["Node"]["properties"].keys()
    ours = answer["headers"].keys() - {"Content-Type", "Cache-Control", "Vary"}
    assert ours <= told.get("headers", {}).keys()


def nodes_in(body: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body.get("nodes", []) if isinstance(body, dict) else []
    return [node for node in found if "NodeId" in node]


@pytest.mark.parametrize("case", sorted(CASES), ids=lambda case: "-".join(map(str, case)))
def test_each_answer_is_as_documented(world: World, case: tuple[str, str, int]) -> None:
    method, path, _ = case
    names, query, body = CASES[case]
    names, body = filled(world, names, body)
    check(method, path, handle(handler_of(method, path), event(method, path, names, query, body)))


@pytest.mark.parametrize(
    "error",
    [StoreThrottled("the store is busy"), RuntimeError("a bug")],
    ids=lambda error: type(error).__name__,
)
def test_each_fault_is_as_documented(world: World, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    class Broken:
        def __getattr__(self, _: str) -> Any:
            raise error

    asked = [
        (method, path, query, *filled(world, names, body))
        for (method, path, status), (names, query, body) in CASES.items()
        if status < 300
    ]
    monkeypatch.setattr(bootstrap, "repository", Broken)
    for method, path, query, names, body in asked:
        check(method, path, handle(handler_of(method, path), event(method, path, names, query, body)))


@pytest.mark.parametrize(
    ("case", "word"),
    [
        (
            ("PUT", "/clusters/{cluster}", {"cluster": "demo"}, {"nodearrays": [], "revision": "<r>"}),
            "NodesInUse",
        ),
        (("DELETE", "/clusters/{cluster}", {"cluster": "demo"}, None), "NodesInUse"),
        (("DELETE", "/clusters/{cluster}", {"cluster": "empty"}, {"revision": 1}), "RevisionConflict"),
        (("POST", "/virtual_clusters", {}, {"virtualClusterId": "held"}), "RevisionConflict"),
        (
            (
                "POST",
                "/virtual_clusters",
                {},
                {"virtualClusterId": "held", "revision": "<h>", "allocationMode": "exclusive"},
            ),
            "ImmutableAttribute",
        ),
        (
            (
                "POST",
                "/virtual_clusters",
                {},
                {"virtualClusterId": "new", "replicaSets": {"4c8g": 9}, "provision": False},
            ),
            "InsufficientNodes",
        ),
        (
            ("POST", "/virtual_clusters", {}, {"virtualClusterId": "new", "replicaSets": {"x": 9}}),
            "InvalidRequest",
        ),
    ],
    ids=str,
)
def test_each_error_is_told_with_what_comes_with_it(world: World, case: Any, word: str) -> None:
    method, path, names, body = case
    cluster = world.repository.cluster(ClusterName("demo"))
    assert cluster is not None
    known = {"<r>": cluster.revision, "<h>": world.held("held").revision}
    if body and body.get("revision") in known:
        body = {**body, "revision": known[body["revision"]]}
    answer = handle(handler_of(method, path), event(method, path, names, None, body))
    told = json.loads(answer["body"])
    assert told.get("Detail", told.get("data", {}).get("code")) == word
    check(method, path, answer)


def test_each_error_that_a_request_can_cause_is_in_the_document() -> None:
    named = {kind for route in ROUTES.values() for kind in route.errors}
    own = {kind for kind in STATUS if issubclass(kind, PaddockError)}
    own -= {kind for kind in own if kind.__name__ in SCHEMAS_OF_FAULTS}
    # Neither is answered by a route with its own method; launches are done by the workflow.
    assert own - named - {MethodNotAllowed} == set()


SCHEMAS_OF_FAULTS = {
    *SCHEMAS["ClustersUnavailable"]["properties"]["Detail"]["enum"],
    "LaunchRefused",
}


@pytest.mark.parametrize(
    "model",
    [kind for kind in vars(replies).values() if isinstance(kind, type) and issubclass(kind, BaseModel)],
    ids=lambda model: model.__name__,
)
def test_only_what_says_so_takes_further_fields(model: type[BaseModel]) -> None:
    is_open = model in (BaseModel, replies.Node, replies.OpenApiDocument)
    assert is_open or model.model_config["extra"] == "forbid"


def test_a_field_s_text_is_that_below_it() -> None:
    assert field_texts(replies.Health) == {"status": "Always `ok`."}
    assert "message" in field_texts(replies.UsageTotal) or field_texts(replies.UsageTotal).keys() == {
        "hours",
        "cost",
        "category",
    }


@pytest.mark.proves("GET /openapi.json: 200")
def test_the_document_is_served_as_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(World(nodearray()), monkeypatch)
    answer = handle("api.get_openapi.handler", event("GET", "/openapi.json", {}))
    assert json.loads(answer["body"]) == DOCUMENT
    assert answer["headers"]["ETag"].startswith('"')
