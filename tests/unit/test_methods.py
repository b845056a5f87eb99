"""A method that a path does not take is refused by whichever function serves it, before it does anything."""

from __future__ import annotations

import json

import pytest

from paddock.http.routes import METHODS
from tests.fakes.api import event, handle, handler_of, serve
from tests.fakes.world import World

ALL = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
STRAY = [(method, path) for path, methods in METHODS.items() for method in ALL if method not in methods]


@pytest.mark.parametrize(("method", "path"), STRAY)
def test_a_wrong_method_is_told_the_right_ones_and_changes_nothing(
    method: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    serve(world, monkeypatch)
    before = world.repository.clusters("")
    names = dict.fromkeys(("cluster", "nodearray", "operation", "virtualCluster"), "none")
    answer = handle(handler_of(method, path), event(method, path, names, body="{}"))
    assert answer["statusCode"] == 405
    assert answer["headers"]["Allow"] == ", ".join(METHODS[path])
    assert json.loads(answer["body"]).keys() >= {"Message", "Detail", "result", "msg", "data"}
    assert world.repository.clusters("") == before
