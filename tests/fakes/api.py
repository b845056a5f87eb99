"""The API in memory: the real handlers over a ``World``, asked as API Gateway asks them."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from paddock import bootstrap
from paddock.http.routes import METHODS
from paddock.settings import Settings
from paddock.users.authentication import Authenticator
from tests.emulator.template import load_template
from tests.fakes.work_queue import FakeWorkQueue
from tests.fakes.world import CLUSTER, REGION

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from tests.fakes.world import World

# What the template serves, with ANY for each method that is not named beside it.
_SERVED: dict[tuple[str, str], str] = {
    (event["Properties"]["Method"], event["Properties"]["Path"]): resource["Properties"]["Handler"]
    for resource in load_template()["Resources"].values()
    for event in resource["Properties"].get("Events", {}).values()
    if event["Type"] == "Api"
}


def handler_of(method: str, route: str) -> str:
    """Return the handler to which the gateway gives a request, be it one that the route takes or not."""
    return _SERVED.get((method, route)) or _SERVED.get(("ANY", route), _SERVED["ANY", "/{proxy+}"])


HANDLERS = {
    (method, route): handler_of(method, route) for route, methods in METHODS.items() for method in methods
}
ACCOUNT = "123456789012"


@dataclass
class Context:
    """What Lambda tells a handler about itself."""

    function_name: str = "replay"
    memory_limit_in_mb: int = 128
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:replay"
    aws_request_id: str = "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"


class LocalCredentials:
    def read(self) -> tuple[str, str]:
        return "admin", "paddock-local"


def serve(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the handlers work on this world."""
    settings = Settings(
        table_name="", state_machine_arn="", default_cluster=CLUSTER, credentials_secret_arn="", region=REGION
    )
    for name, made in (
        ("settings", settings),
        ("clock", world.clock),
        ("repository", world.repository),
        ("compute", world.compute),
        ("patient_compute", world.compute),
        ("workflows", world.workflows),
        ("account_quotas", world.quotas),
        ("work_queue", FakeWorkQueue()),
        ("_authenticator", Authenticator(LocalCredentials(), world.clock)),
    ):
        monkeypatch.setattr(bootstrap, name, lambda made=made: made)


def handle(handler: str, document: dict[str, Any]) -> Any:
    """What the handler of the template answers."""
    return importlib.import_module(handler.removesuffix(".handler")).handler(document, Context())


def ask(
    method: str,
    route: str,
    names: Mapping[str, str],
    query: dict[str, str] | None = None,
    body: Any = None,
) -> tuple[int, Any]:
    """Status and body of the answer to a request; a body that is text is sent as it is."""
    answer = handle(handler_of(method, route), event(method, route, names, query, body))
    return answer["statusCode"], json.loads(answer["body"])


def event(
    method: str,
    route: str,
    names: Mapping[str, str],
    query: dict[str, str] | None = None,
    body: Any = None,
) -> dict[str, Any]:
    """What API Gateway makes of a request."""
    return {
        "httpMethod": method,
        "resource": route,
        "path": route.format(**names),
        "pathParameters": {name: quote(value) for name, value in names.items()},
        "queryStringParameters": query,
        "headers": {},
        "body": body if isinstance(body, str) or body is None else json.dumps(body),
        "isBase64Encoded": False,
        # As for a route that is authorized by IAM.
        "requestContext": {"accountId": ACCOUNT, "identity": {"userArn": names.get("caller")}},
    }
