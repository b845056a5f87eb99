"""The API in memory as a WSGI application: what the gateway does with a request, and the real handlers."""

from __future__ import annotations

import base64
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote

from paddock.http.routes import METHODS
from tests.emulator.template import load_template
from tests.fakes.api import ACCOUNT, LocalCredentials, handle, handler_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from wsgiref.types import StartResponse

_GATEWAY: dict[str, Any] = load_template()["Resources"]["Api"]["Properties"]["GatewayResponses"]
_PATTERNS = {path: re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", path) + "/?") for path in METHODS}
_OPEN = ("GET", "/healthz")
_CREDENTIALS = "Basic " + base64.b64encode(":".join(LocalCredentials().read()).encode()).decode()


def application(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
    """Answer one request as API Gateway does."""
    method = environ["REQUEST_METHOD"]
    # What a server decodes, API Gateway does not.
    path = "/" + quote(environ["PATH_INFO"].lstrip("/").encode("latin-1"), safe="/~")
    found = {route: match for route, one in _PATTERNS.items() if (match := one.fullmatch(path))}
    route, names = next(((route, match.groupdict()) for route, match in found.items()), ("/{proxy+}", {}))
    if (method, route) != _OPEN and route != "/self" and environ.get("HTTP_AUTHORIZATION") != _CREDENTIALS:
        return _answered(_of_the_gateway("UNAUTHORIZED"), start_response)
    length = int(environ.get("CONTENT_LENGTH") or 0)
    query = dict(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
    event = {
        "httpMethod": method,
        "resource": route,
        "path": path,
        "pathParameters": names or None,
        "queryStringParameters": query or None,
        "headers": {
            name.removeprefix("HTTP_").replace("_", "-").title(): value
            for name, value in environ.items()
            # Clients of WSGI do not decode what is compressed.
            if name.startswith("HTTP_") and name != "HTTP_ACCEPT_ENCODING"
        },
        "body": base64.b64encode(environ["wsgi.input"].read(length)).decode() if length else None,
        "isBase64Encoded": bool(length),
        "requestContext": {"accountId": ACCOUNT, "authorizer": {"principalId": "admin"}},
    }
    return _answered(handle(handler_of(method, route), event), start_response)


def _of_the_gateway(name: str) -> dict[str, Any]:
    told = _GATEWAY[name]
    headers = told.get("ResponseParameters", {}).get("Headers", {})
    return {
        "statusCode": told["StatusCode"],
        "headers": {
            "Content-Type": "application/json",
            **{key: value.strip("'") for key, value in headers.items()},
        },
        "body": told["ResponseTemplates"]["application/json"],
        "isBase64Encoded": False,
    }


def _answered(answer: Mapping[str, Any], start_response: StartResponse) -> Iterable[bytes]:
    body = answer["body"].encode()
    if answer["isBase64Encoded"]:
        body = base64.b64decode(body)
    status = HTTPStatus(answer["statusCode"])
    start_response(f"{status.value} {status.phrase}", list(answer["headers"].items()))
    return [body]
