"""Each route is in the template once, is served by its own file, and asks for credentials."""

from __future__ import annotations

import re
from typing import Any

from paddock.http.routes import METHODS
from tests.emulator.template import ROOT, load_template

TEMPLATE = load_template()
FUNCTIONS: dict[str, dict[str, Any]] = {
    name: resource["Properties"]
    for name, resource in TEMPLATE["Resources"].items()
    if resource["Type"] == "AWS::Serverless::Function"
}

API = ROOT / "functions" / "api"
# Each handler's file says first which route it serves, apart from the template and from METHODS.
SAYS = re.compile(r'"""([A-Z]+) (/[^?:\s]*?)/?(?:\?\S*)?: ')
ROUTES = {
    (says[1], says[2]): path.stem for path in API.glob("*.py") if (says := SAYS.match(path.read_text()))
}
# What API Gateway and SAM CLI take ANY for.
ANY = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
# The one route without credentials. It has no policy, so there is nothing that it could tell.
OPEN = ("GET", "/healthz")
# Machines sign; with no role to invoke by, a caller needs no permission for the function itself.
OWN_AUTH = {
    OPEN: {"Authorizer": "NONE"},
    ("GET", "/self"): {"Authorizer": "AWS_IAM", "InvokeRole": "NONE"},
}


def events() -> list[tuple[str, str, str]]:
    """Return method, path and handler of each API event."""
    return [
        (event["Properties"]["Method"], event["Properties"]["Path"], properties["Handler"])
        for properties in FUNCTIONS.values()
        for event in properties.get("Events", {}).values()
        if event["Type"] == "Api"
    ]


def served() -> dict[tuple[str, str], str]:
    """Return the handler of each method of each path, with ANY written out."""
    found: dict[tuple[str, str], str] = {}
    for method, path, handler in events():
        for one in ANY if method == "ANY" else [method]:
            assert (one, path) not in found, f"SAM CLI would let one of two functions win at {one} {path}"
            found[one, path] = handler
    return found


def test_each_method_of_each_path_is_served_once_and_each_route_by_the_function_named_for_it() -> None:
    paths = {path for _, path in ROUTES} | {"/", "/{proxy+}"}
    assert served().keys() == {(method, path) for path in paths for method in ANY}
    assert {route: served()[route] for route in ROUTES} == {
        route: f"api.{module}.handler" for route, module in ROUTES.items()
    }


def test_what_is_no_route_is_served_by_the_function_of_its_path_or_by_the_one_without_permissions() -> None:
    """The first refuses it before its handler hears of it."""
    for (method, path), handler in served().items():
        if (method, path) not in ROUTES:
            own = {f"api.{module}.handler" for (_, its_path), module in ROUTES.items() if its_path == path}
            assert handler == "api.unmatched.handler" or own == {handler}, (method, path)


def test_each_handler_s_file_says_which_route_it_serves() -> None:
    files = {path.stem for path in API.glob("*.py")} - {"__init__"}
    assert sorted(ROUTES.values()) == sorted(files - {"unmatched"})


def test_the_functions_know_the_methods_of_each_path() -> None:
    told = {(method, path) for path, methods in METHODS.items() for method in methods}
    assert told == ROUTES.keys()


def test_each_handler_file_has_one_function_and_each_function_a_file() -> None:
    files = {
        ".".join(path.relative_to(ROOT / "functions").with_suffix("").parts) + ".handler"
        for path in (ROOT / "functions").rglob("*.py")
        if path.name != "__init__.py"
    }
    handlers = [properties["Handler"] for properties in FUNCTIONS.values()]
    assert sorted(handlers) == sorted(files)


def test_no_route_but_one_is_open() -> None:
    auth = TEMPLATE["Resources"]["Api"]["Properties"]["Auth"]
    assert auth["DefaultAuthorizer"] == "Basic"
    assert auth["Authorizers"]["Basic"]["FunctionArn"] == {"Fn::GetAtt": ["BasicAuthorizer", "Arn"]}
    assert auth["Authorizers"]["Basic"]["FunctionPayloadType"] == "REQUEST"
    assert auth["Authorizers"]["Basic"]["Identity"] == {"Headers": ["Authorization"], "ReauthorizeEvery": 30}
    for properties in FUNCTIONS.values():
        for event in properties.get("Events", {}).values():
            if event["Type"] == "Api":
                route = (event["Properties"]["Method"], event["Properties"]["Path"])
                assert event["Properties"].get("Auth") == OWN_AUTH.get(route), "no other may choose its own"
                assert event["Properties"]["RestApiId"] == {"Ref": "Api"}


def test_the_open_route_is_held_to_a_few_calls_a_second() -> None:
    """Else anybody could use up the account's concurrent functions."""
    _whole_stage, settings = TEMPLATE["Resources"]["Api"]["Properties"]["MethodSettings"]
    assert (settings["HttpMethod"], settings["ResourcePath"].replace("~1", "")) == OPEN
    assert settings["ThrottlingRateLimit"] <= 10
    assert settings["ThrottlingBurstLimit"] <= 10


def test_the_gateway_decodes_compressed_answers_whatever_the_client_accepts() -> None:
    assert TEMPLATE["Resources"]["Api"]["Properties"]["BinaryMediaTypes"] == ["*/*"]


def test_api_functions_answer_before_the_gateway_gives_up() -> None:
    default = TEMPLATE["Globals"]["Function"]["Timeout"]
    for properties in FUNCTIONS.values():
        if properties["Handler"].startswith(("api.", "authorizer.")):
            assert properties.get("Timeout", default) < 29
