"""The README and docs tell of each route, error, parameter, event, metric and alarm that there is."""

from __future__ import annotations

import ast
import inspect
import re

import pytest

from paddock import errors
from paddock.http.routes import METHODS
from paddock.observability import Metric
from tests import pages
from tests.emulator.template import ROOT, load_template
from tests.fakes.transitions import TRANSITIONS

TEMPLATE = load_template()
ROUTES = sorted((method, path) for path, methods in METHODS.items() for method in methods)
ERRORS = [
    name
    for name, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.PaddockError) and kind is not errors.PaddockError
]
ANSWERS = pages.rows("endpoint", "status", "held by")
CHANGES = pages.rows("what", "from", "to", "held by")
FAULTS = pages.rows("what happened to others, and the answer here", "held by")


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_each_route_is_told(method: str, path: str) -> None:
    assert f"| {method} `{path}` |" in pages.TEXT


@pytest.mark.parametrize("name", ERRORS)
def test_each_error_is_told(name: str) -> None:
    assert f"`{name}`" in pages.TEXT


@pytest.mark.parametrize("name", TEMPLATE["Parameters"])
def test_each_parameter_is_told(name: str) -> None:
    assert f"| `{name}` |" in pages.TEXT


@pytest.mark.parametrize("path", sorted((ROOT / "events").rglob("*.json")), ids=lambda path: path.stem)
def test_each_event_is_told(path: object) -> None:
    assert f"{path}".rsplit("/", 1)[-1] in pages.TEXT


def test_each_answer_of_each_route_is_held_by_a_test() -> None:
    held = {
        (*route, int(status))
        for told, statuses, _ in ANSWERS
        for route in pages.routes(told)
        for status in statuses.split(", ")
    }
    assert held == pages.documented()


def test_each_status_that_any_route_may_answer_is_held_by_a_test() -> None:
    told = "".join(
        status for _, status, _ in pages.rows("word", "status", "what it means, and what comes with it")
    )
    own = {status for _, statuses, _ in ANSWERS for status in statuses.split(", ")}
    assert set(re.findall(r"\d{3}", told)) | {"401", "404", "413", "429", "504"} <= own


def test_each_change_of_state_is_held_by_a_test() -> None:
    assert sorted(tuple(row[:3]) for row in CHANGES) == sorted(TRANSITIONS)


@pytest.mark.parametrize("cell", sorted({row[-1] for row in (*ANSWERS, *CHANGES, *FAULTS)}))
def test_each_test_that_is_named_exists(cell: str) -> None:
    named = [one.strip("`").split("::") for one in cell.split("<br>")]
    for path, name in named:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, cell


@pytest.mark.parametrize("name", Metric)
def test_each_metric_is_told(name: str) -> None:
    assert f"`{name}`" in pages.TEXT


ALARMS = [name for name, one in TEMPLATE["Resources"].items() if one["Type"] == "AWS::CloudWatch::Alarm"]


@pytest.mark.parametrize("name", ALARMS)
def test_each_alarm_is_told_with_what_it_means_and_what_to_do(name: str) -> None:
    [row] = re.findall(rf"^\| .*`{name}`.* \| (.+) \| (.+) \|$", pages.TEXT, re.MULTILINE)
    assert all(len(cell) > 20 for cell in row)
