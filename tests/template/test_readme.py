"""The README tells of each route, error, parameter, event, metric and alarm that there is."""

from __future__ import annotations

import inspect
import re

import pytest

from paddock import errors
from paddock.observability import Metric
from tests.emulator.template import ROOT, load_template

README = (ROOT / "README.md").read_text(encoding="utf-8")
TEMPLATE = load_template()
ROUTES = sorted(
    {
        (event["Properties"]["Method"], event["Properties"]["Path"])
        for resource in TEMPLATE["Resources"].values()
        for event in resource["Properties"].get("Events", {}).values()
        if event["Type"] == "Api" and event["Properties"]["Method"] != "ANY"
    }
)
ERRORS = [
    name
    for name, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.PaddockError) and kind is not errors.PaddockError
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_each_route_is_told(method: str, path: str) -> None:
    assert f"| {method} `{path}` |" in README


@pytest.mark.parametrize("name", ERRORS)
def test_each_error_is_told(name: str) -> None:
    assert f"`{name}`" in README


@pytest.mark.parametrize("name", TEMPLATE["Parameters"])
def test_each_parameter_is_told(name: str) -> None:
    assert f"| `{name}` |" in README


@pytest.mark.parametrize("path", sorted((ROOT / "events").rglob("*.json")), ids=lambda path: path.stem)
def test_each_event_is_told(path: object) -> None:
    assert f"{path}".rsplit("/", 1)[-1] in README


@pytest.mark.parametrize("name", Metric)
def test_each_metric_is_told(name: str) -> None:
    assert f"`{name}`" in README


ALARMS = [name for name, one in TEMPLATE["Resources"].items() if one["Type"] == "AWS::CloudWatch::Alarm"]


@pytest.mark.parametrize("name", ALARMS)
def test_each_alarm_is_told_with_what_it_means_and_what_to_do(name: str) -> None:
    [row] = re.findall(rf"^\| .*`{name}`.* \| (.+) \| (.+) \|$", README, re.MULTILINE)
    assert all(len(cell) > 20 for cell in row)
