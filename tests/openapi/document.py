"""The OpenAPI document of every route: what the template serves, in terms of the models that validate.

Routes, methods and path parameters are those of template.yaml and ``paddock.http.routes``; bodies and queries
are the models' own schemas; errors come from the table of ``paddock.http.errors``, and the gateway's from the
template. The rest is in ``routes`` and ``replies``. Examples of requests are the events in ``events/api``.
"""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from openapi_pydantic import OpenAPI
from pydantic import TypeAdapter

from paddock.errors import RevisionConflict
from paddock.http.errors import CLUSTERS, NODES, VIRTUAL_CLUSTERS
from paddock.model.definition import ValidClusterName, Word
from paddock.requests.bodies import ValidVirtualClusterId
from tests.emulator.template import ROOT, load_template
from tests.fakes.api import HANDLERS
from tests.openapi.routes import ETAG, FACTS, LOCATION, PASSING, ROUTES, TAGS
from tests.openapi.schemas import REF, markdown, ref, schemas_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from paddock.http.errors import Surface
    from tests.openapi.routes import JsonSchema, Query, Route

FILE = ROOT / "functions" / "api" / "openapi.json"
VERSION = "0.1.0"

_NAMES: Mapping[str, tuple[Any, str]] = {
    "cluster": (ValidClusterName, "The name of a cluster."),
    "nodearray": (Word, "The name of a node array."),
    "operation": (str, "The id of an operation."),
    "virtualCluster": (ValidVirtualClusterId, "The id of a virtual cluster."),
}
# The surfaces that have a shape of their own, by the word that begins their errors' names.
_SHAPES: tuple[tuple[Surface, str], ...] = (
    (CLUSTERS, "Clusters"),
    (NODES, "Clusters"),
    (VIRTUAL_CLUSTERS, "VirtualClusters"),
)
_INTERNAL_ERROR, _UNAVAILABLE = "InternalError", "Unavailable"
# Answers that nearly every route can give are written once.
_SHARED = (401, 403, 413, 429, 500, 503, 504)
# Routes that are not behind the gateway's own authorization by Basic credentials.
_WORD, _MESSAGE = "<word>", "<message>"
_SECURITY: Mapping[str, list[dict[str, list[str]]]] = {"get_health": [], "get_self": [{"iam": []}]}
_HEADERS: Mapping[str, dict[str, Any]] = {
    ETAG: {"description": "The revision, in quotation marks.", "schema": {"type": "string"}},
    LOCATION: {
        "description": "Where the operation can be watched, as an absolute URL.",
        "schema": {"type": "string", "format": "uri"},
    },
    "Retry-After": {"description": "Seconds after which to try again.", "schema": {"type": "string"}},
    "WWW-Authenticate": {
        "description": "That Basic credentials are asked for.",
        "schema": {"type": "string"},
    },
}


def document() -> dict[str, Any]:
    """The document as plain JSON."""
    paths: dict[str, Any] = {}
    for (method, path), handler in HANDLERS.items():
        paths.setdefault(path, {})[method.lower()] = _operation(method, path, handler.split(".")[1])
    made = {
        "openapi": "3.1.0",
        "info": {
            "title": "Paddock",
            "version": VERSION,
            "summary": "A serverless control plane for fleets of EC2 nodes.",
            "description": "Bodies are JSON whatever their `Content-Type` says. Unknown fields are refused, "
            "with the nearest known name; a known field that is null counts as left out. A path works with "
            "and without a slash at its end.",
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": ".", "description": "Where this document is served from."}],
        "security": [{"basic": []}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": dict(sorted({**_models(), **_error_schemas(), **_gateway_schemas()}.items())),
            "responses": _shared_responses(),
            "headers": dict(_HEADERS),
            "securitySchemes": {
                "basic": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "The user name and password of the stack's secret.",
                },
                "iam": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "AWS Signature Version 4, service `execute-api`, by an instance's role.",
                    "x-amazon-apigateway-authtype": "awsSigv4",
                },
            },
        },
    }
    # Refuses what is not in the shape of OpenAPI 3.1.
    OpenAPI.model_validate(made)
    return made


def text() -> str:
    """The document as it is kept in the repository and served."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def _operation(method: str, path: str, name: str) -> dict[str, Any]:
    if name not in ROUTES:
        message = f"tests/openapi/routes.py must have {name}, for {method} {path}"
        raise LookupError(message)
    route = ROUTES[name]
    first, *words = name.split("_")
    operation: dict[str, Any] = {
        "operationId": first + "".join(word.title() for word in words),
        "tags": [route.tag],
        "summary": _summary(name),
    }
    if route.text:
        operation["description"] = route.text
    if name in _SECURITY:
        operation["security"] = _SECURITY[name]
    event = _event(name)
    if parameters := [*_path_parameters(path), *_query_parameters(route, event), *_header_parameters(route)]:
        operation["parameters"] = parameters
    if route.body is not None:
        content: dict[str, Any] = {"schema": ref(route.body)}
        if event.get("body"):
            content["example"] = json.loads(event["body"])
        operation["requestBody"] = {"required": route.needs_body, "content": {"application/json": content}}
    return {**operation, "responses": _responses(name, route)}


def _summary(name: str) -> str:
    """The first line of the handler's module, without the route: ``All clusters with their definitions``."""
    source = (ROOT / "functions" / "api" / f"{name}.py").read_text(encoding="utf-8")
    line = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
    told = markdown(line).partition(": ")[2].rstrip(".")
    return told[:1].upper() + told[1:]


def _event(name: str) -> dict[str, Any]:
    event: dict[str, Any] = json.loads((ROOT / "events" / "api" / f"{name}.json").read_text(encoding="utf-8"))
    return event


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _NAMES[name][1],
            "schema": TypeAdapter(_NAMES[name][0]).json_schema(),
        }
        for name in re.findall(r"{(\w+)}", path)
    ]


def _query_parameters(route: Route, event: Mapping[str, Any]) -> list[dict[str, Any]]:
    given = event.get("queryStringParameters") or {}
    made = [_query_parameter(name, query.schema, query) for name, query in route.query.items()]
    if route.query_model is not None:
        fields = schemas_of([route.query_model])[route.query_model.__name__]["properties"]
        made += [_model_parameter(name, dict(schema)) for name, schema in fields.items()]
    for parameter in made:
        if parameter["name"] in given:
            text = given[parameter["name"]]
            parameter["example"] = int(text) if text.isdigit() else text
    return made


def _query_parameter(name: str, schema: Mapping[str, Any], query: Query) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "required": query.required,
        "description": query.text,
        "schema": dict(schema),
    }


def _model_parameter(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A field of a model as a query parameter, which cannot be null."""
    text = schema.pop("description")
    about = {key: schema.pop(key) for key in ("default",) if key in schema}
    options = [option for option in schema.pop("anyOf", [schema]) if option != {"type": "null"}]
    [only] = options
    return {
        "name": name,
        "in": "query",
        "required": False,
        "description": text,
        "schema": {**only, **about},
    }


def _header_parameters(route: Route) -> list[dict[str, Any]]:
    if not route.takes_if_match:
        return []
    return [
        {
            "name": "If-Match",
            "in": "header",
            "required": False,
            "description": "The revision that you read, as `ETag` gave it.",
            "schema": {"type": "string", "pattern": '^(W/)?"?[0-9]{1,16}"?$'},
        }
    ]


def _responses(name: str, route: Route) -> dict[str, Any]:
    made: dict[int, dict[str, Any]] = {}
    for status, model in route.replies.items():
        schema: dict[str, Any] = ref(model)
        made[status] = {
            "description": markdown(model.__doc__ or ""),
            "headers": {header: {"$ref": f"#/components/headers/{header}"} for header in route.headers},
            "content": _json({"type": "array", "items": schema} if route.is_list else schema),
        }
        if not route.headers:
            del made[status]["headers"]
    for status, schemas in _error_statuses(name, route).items():
        shared = _shared_name(status, schemas)
        made[status] = (
            {"$ref": f"#/components/responses/{shared}"} if shared else _error_response(status, schemas)
        )
    return {str(status): made[status] for status in sorted(made)}


def _error_response(status: int, schemas: Sequence[str]) -> dict[str, Any]:
    options = [{"$ref": schema} for schema in schemas]
    headers = {401: ["WWW-Authenticate"], 429: ["Retry-After"], 503: ["Retry-After"]}.get(status, [])
    if any(schema.endswith(RevisionConflict.__name__) for schema in schemas):
        headers = [ETAG]
    made: dict[str, Any] = {
        "description": HTTPStatus(status).phrase,
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in headers},
        "content": _json(options[0] if len(options) == 1 else {"oneOf": options}),
    }
    if not headers:
        del made["headers"]
    return made


def _shared_name(status: int, schemas: Sequence[str]) -> str:
    """The name of a response that stands once in the document; empty for one that does not."""
    if status not in _SHARED:
        return ""
    # The surface's shape, where it is not the gateway alone that gives this answer.
    first = schemas[0].rsplit("/", 1)[-1]
    shape = next((shape for _, shape in _SHAPES if first.startswith(shape)), "")
    return shape + _phrase(status)


def _shared_responses() -> dict[str, Any]:
    found = [
        (status, schemas)
        for name, route in ROUTES.items()
        for status, schemas in _error_statuses(name, route).items()
    ]
    made = {_shared_name(*answer): _error_response(*answer) for answer in found if _shared_name(*answer)}
    return dict(sorted(made.items()))


def _error_statuses(name: str, route: Route) -> dict[int, list[str]]:
    """Which errors' schemas each status of a route can have: the function's and the gateway's."""
    found: dict[int, list[str]] = {}
    for kind in route.errors:
        found.setdefault(route.surface.status_of(kind), []).append(_schema_ref(route.surface, kind.__name__))
    if route.uses_aws:
        found.setdefault(503, []).append(_schema_ref(route.surface, _UNAVAILABLE))
    found.setdefault(500, []).append(_schema_ref(route.surface, _INTERNAL_ERROR))
    for status in _gateway():
        if status == HTTPStatus.UNAUTHORIZED and name in _SECURITY:
            continue
        if status == HTTPStatus.NOT_FOUND and name != "get_self":
            # Each of these paths exists.
            continue
        found.setdefault(status, []).append(REF.format(model=_gateway_name(status)))
    return found


def _schema_ref(surface: Surface, word: str) -> str:
    shape = next(shape for one, shape in _SHAPES if one is surface)
    return REF.format(model=f"{shape}{word}")


def _models() -> dict[str, Any]:
    routes = ROUTES.values()
    bodies = {model for route in routes for model in (*route.replies.values(), route.body) if model}
    queries = {route.query_model for route in routes if route.query_model} - bodies
    schemas = schemas_of(sorted(bodies | queries, key=lambda model: model.__name__))
    # Queries are parameters, and the fields of a query have none of their own.
    left_out = {model.__name__ for model in queries}
    return {name: schema for name, schema in schemas.items() if name not in left_out}


def _error_schemas() -> dict[str, Any]:
    kinds = {kind for route in ROUTES.values() for kind in route.errors}
    passing = {"enum": [kind.__name__ for kind in PASSING]}
    made = {}
    for surface, shape in ((CLUSTERS, "Clusters"), (VIRTUAL_CLUSTERS, "VirtualClusters")):
        for kind in kinds:
            # What follows tells of the attributes, which have descriptions of their own.
            text = markdown((kind.__doc__ or "").partition("\n")[0])
            made[f"{shape}{kind.__name__}"] = _error_schema(
                surface, {"const": kind.__name__}, text, FACTS.get(kind, {})
            )
        made[f"{shape}{_INTERNAL_ERROR}"] = _error_schema(
            surface, {"const": _INTERNAL_ERROR}, "A bug; the log has it.", {}
        )
        made[f"{shape}{_UNAVAILABLE}"] = _error_schema(
            surface, passing, "AWS or other writers were in the way; try again.", {}
        )
    used = {
        schema
        for name, route in ROUTES.items()
        for schemas in _error_statuses(name, route).values()
        for schema in schemas
    }
    return {name: schema for name, schema in made.items() if REF.format(model=name) in used}


def _error_schema(
    surface: Surface, word: JsonSchema, text: str, facts: Mapping[str, JsonSchema]
) -> JsonSchema:
    """The shape of an error: the surface's own, around schemas of the word, the message and the facts."""
    schemas = {
        _WORD: {**word, "description": "The error's lasting word."},
        _MESSAGE: {"type": "string", "description": "What must be true."},
    }
    body = surface.body(_WORD, _MESSAGE, {name.rstrip("?"): schema for name, schema in facts.items()})
    optional = {name.rstrip("?") for name in facts if name.endswith("?")}
    return {"description": text, **_shape(body, schemas, optional)}


def _shape(
    body: Mapping[str, Any], schemas: Mapping[str, JsonSchema], optional: Collection[str]
) -> JsonSchema:
    """The closed schema of an object like this one, in which facts are schemas already."""
    properties: dict[str, Any] = {}
    for name, value in body.items():
        if isinstance(value, str):
            properties[name] = schemas[value]
        elif isinstance(value, bool):
            properties[name] = {"const": value}
        elif "type" in value:
            properties[name] = value
        else:
            properties[name] = _shape(value, schemas, optional)
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


@cache
def _gateway() -> dict[int, list[str]]:
    """The statuses that API Gateway answers by itself, each with its words, as the template has them."""
    responses = load_template()["Resources"]["Api"]["Properties"]["GatewayResponses"]
    found: dict[int, list[str]] = {}
    for response in responses.values():
        text = response["ResponseTemplates"]["application/json"]
        word = re.findall(r'"Detail": "(\w+)"', text)[0]
        if (status := response.get("StatusCode")) and word not in found.setdefault(status, []):
            found[status].append(word)
    # What has no status of its own: a signature that is wrong, for one, and a fault of the gateway.
    found[HTTPStatus.FORBIDDEN].append("InvalidRequest")
    found[HTTPStatus.INTERNAL_SERVER_ERROR] = [_INTERNAL_ERROR]
    return found


def _gateway_name(status: int) -> str:
    return f"Gateway{_phrase(status)}"


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase.title().replace(" ", "").replace("-", "")


def _gateway_schemas() -> dict[str, Any]:
    """Both surfaces' shapes at once, for the gateway cannot tell whose client it answers."""
    text = {"type": "string", "description": "What must be true."}
    made = {}
    for status, words in _gateway().items():
        word = {"enum": words, "description": "The error's lasting word."}
        made[_gateway_name(status)] = {
            "description": "API Gateway's own answer.",
            "type": "object",
            "properties": {
                "Message": text,
                "Detail": word,
                "result": {"const": False},
                "msg": text,
                "data": {
                    "type": "object",
                    "properties": {"code": word},
                    "required": ["code"],
                    "additionalProperties": False,
                },
            },
            "required": ["Message", "Detail", "result", "msg", "data"],
            "additionalProperties": False,
        }
    return made


def _json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": dict(schema)}}
