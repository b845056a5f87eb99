"""Whatever a client names, nothing is looked up under a key that DynamoDB refuses: that would be a 500."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.fakes.api import HANDLERS, ask, serve
from tests.fakes.world import CLUSTER, World

ROUTES = sorted(HANDLERS)
# More bytes than a key may have, and the same in the fewest characters; and no byte at all.
NAMES = {"long": "x" * 3_000, "wide": "\U0001f40e" * 256, "empty": ""}
QUERY = ("nextToken", "operation", "operation_id", "request_id", "revision", "maxResults", "from", "to")


@pytest.fixture(autouse=True)
def _served(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(World(), monkeypatch)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize(("method", "route"), ROUTES)
def test_no_name_in_a_path_or_query_is_too_much(method: str, route: str, name: str) -> None:
    places = re.findall(r"{(\w+)}", route)
    assert ask(method, route, dict.fromkeys(places, name))[0] < 500
    usual = {place: CLUSTER if place == "cluster" else "usual" for place in places}
    for one in QUERY:
        assert ask(method, route, usual, {one: name})[0] < 500, one


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_no_name_in_a_body_is_too_much(name: str) -> None:
    line = {"count": 1, "nodearray": "ondemand"}
    selections: list[dict[str, Any]] = [
        {one: [name]} for one in ("ids", "names", "hostnames", "ip_addresses")
    ]
    asked: list[tuple[str, str, Any]] = [
        ("POST", "/clusters/{cluster}/nodes/create", {"sets": [line], "requestId": name}),
        ("POST", "/clusters/{cluster}/nodes/create", {"sets": [{**line, "nodearray": name}]}),
        ("POST", "/clusters/{cluster}/nodes/create", {"sets": [{**line, "placementGroupId": name}]}),
        *(("POST", "/clusters/{cluster}/nodes/terminate", one) for one in selections),
        ("POST", "/virtual_clusters", {"virtualClusterId": name, "replicaSets": {"4c8g": 1}}),
        ("POST", "/virtual_clusters", {"virtualClusterId": "a", "replicaSets": {"4c8g": 1}, "cluster": name}),
        ("POST", "/virtual_clusters", {"virtualClusterId": "a", "replicaSets": {name: 1}}),
    ]
    for method, route, body in asked:
        status, answer = ask(method, route, {"cluster": CLUSTER} if "{" in route else {}, None, body)
        assert status < 500, (body, answer)


@pytest.mark.proves("GET /clusters: 400")
def test_a_token_that_no_reply_gave_is_refused() -> None:
    status, answer = ask("GET", "/clusters", {}, {"nextToken": "no name!"})
    assert (status, answer["Detail"]) == (400, "InvalidRequest")
