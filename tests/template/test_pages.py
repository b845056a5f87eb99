"""The README and docs tell of each route, error, parameter, event, metric and alarm that there is."""

from __future__ import annotations

import ast
import inspect
import re
from typing import TYPE_CHECKING

import pytest

from paddock import errors
from paddock.http.routes import METHODS
from paddock.observability import Metric
from tests import pages
from tests.emulator.template import ROOT, load_template
from tests.fakes.transitions import TRANSITIONS

if TYPE_CHECKING:
    from pathlib import Path

TEMPLATE = load_template()
ROUTES = sorted((method, path) for path, methods in METHODS.items() for method in methods)
ERRORS = [
    name
    for name, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.PaddockError) and not kind.__subclasses__()
]
ANSWERS = pages.rows("endpoint", "status", "held by")
CHANGES = pages.rows("what", "from", "to", "held by")
FAULTS = pages.rows("event: what holds", "held by")


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
    told = "".join(status for _, status, _ in pages.rows("word", "status", "meaning, and what comes with it"))
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


ALARMS = {
    name: resource["Properties"]
    for name, resource in TEMPLATE["Resources"].items()
    if resource["Type"] == "AWS::CloudWatch::Alarm"
}
OPERATIONS = (pages.DOCS / "operations.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ALARMS)
def test_each_alarm_is_told_with_what_it_means_and_what_to_do(name: str) -> None:
    [section] = re.findall(rf"^## {name}\n(.*?)(?=^## )", OPERATIONS, re.MULTILINE | re.DOTALL)
    parts = re.fullmatch(
        r"\s*\*\*Fires when\*\* (.+?)\*\*Meaning\.\*\*(.+?)\*\*What to do\.\*\*(.+)", section, re.DOTALL
    )
    assert parts, section
    assert all(len(part.strip()) > 20 for part in parts.groups())


@pytest.mark.parametrize("name", ALARMS)
def test_each_alarm_is_told_with_its_metric_and_its_threshold(name: str) -> None:
    [told] = re.findall(rf"^## {name}\n\n\*\*Fires when\*\* (.+?)\n\n", OPERATIONS, re.MULTILINE | re.DOTALL)
    alarm = ALARMS[name]
    below = alarm["ComparisonOperator"] == "LessThanThreshold"
    assert f"`{alarm['MetricName']}`" in told
    assert (f"below {alarm['Threshold']}" if below else f"is {alarm['Threshold']} ") in told
    if alarm["EvaluationPeriods"] > 1 and "DatapointsToAlarm" not in alarm:
        number = {2: "two", 3: "three"}[alarm["EvaluationPeriods"]]
        assert f"in each of {number} periods of {alarm['Period'] // 60} minutes" in told


@pytest.mark.parametrize("name", ALARMS)
def test_each_alarm_points_to_its_heading(name: str) -> None:
    """The description is in the message that wakes a person up; tests/unit/test_links.py holds headings."""
    assert ALARMS[name]["AlarmDescription"].endswith(f", see docs/operations.md#{name.lower()}")


def test_each_log_line_that_the_runbook_looks_for_is_written() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "layers" / "shared").rglob("*.py"))
    messages = re.findall(r'`logs \d+[hm] "([^"]+)"', OPERATIONS)
    assert len(messages) > 5
    assert [message for message in messages if f'"{message}' not in code] == []


def test_each_resource_that_the_runbook_names_exists() -> None:
    named = set(re.findall(r"\$\(resource (\w+)\)", OPERATIONS))
    assert len(named) > 2
    assert named <= TEMPLATE["Resources"].keys()


@pytest.mark.parametrize("path", sorted((pages.DOCS / "decisions").glob("0*.md")), ids=lambda path: path.stem)
def test_each_decision_has_its_context_and_its_alternatives(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    number = path.name[:4]
    assert re.match(rf"# {number}\. .+\n\nDate: \d{{4}}-\d\d-\d\d\n\n## Context\n\n\S", text)
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Alternatives"]
    assert len(text.partition("## Alternatives")[2].strip()) > 20


def test_decisions_are_numbered_without_a_gap_and_all_are_in_the_index() -> None:
    names = sorted(path.name for path in (pages.DOCS / "decisions").glob("0*.md"))
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
    index = (pages.DOCS / "decisions" / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^- \[.*\]\((.*)\)$", index, re.MULTILINE) == names


CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
PERMISSIONS = re.findall(r"^\| (\w[^|]*) \| ([^|]*`\w+:\w+`[^|]*) \| [^|]+ \|$", CHANGELOG, re.MULTILINE)


def test_the_changelog_has_the_sections_that_its_readers_know() -> None:
    versions = re.findall(r"^## \[(.+?)\](?: - \d{4}-\d\d-\d\d)?$", CHANGELOG, re.MULTILINE)
    assert versions == ["Unreleased", "0.1.0"]
    known = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "Permissions"}
    assert set(re.findall(r"^### (.+)$", CHANGELOG, re.MULTILINE)) <= known
    assert len(re.findall(r"^## ", CHANGELOG, re.MULTILINE)) == len(versions)


@pytest.mark.parametrize(("functions", "actions"), PERMISSIONS)
def test_a_permission_of_the_changelog_is_in_the_template(functions: str, actions: str) -> None:
    named = set(re.findall(r"[A-Z]\w+", functions))
    assert named <= TEMPLATE["Resources"].keys()
    for name in named:
        policies = str(TEMPLATE["Resources"][name]["Properties"]["Policies"])
        missing = [action for action in re.findall(r"`(\w+:\w+)`", actions) if action not in policies]
        assert missing == [], name
