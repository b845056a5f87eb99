"""The claims of docs/proofs.md, read from the marks ``proves`` on the tests that hold them."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache

from tests.emulator.template import ROOT

# A claim of any other form is about an event.
_ANSWER = re.compile(r"((?:[A-Z]+ /\S*)|every route|any other path): (\d{3}(?:, \d{3})*)")
_CHANGE = re.compile(r"(node|operation): (\w+) → (\w+)")


@cache
def claims() -> dict[str, list[str]]:
    """Each claim, with the tests that are marked with it."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                for mark in node.decorator_list:
                    if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.proves":
                        for claim in mark.args:
                            found[ast.literal_eval(claim)].append(f"{path.relative_to(ROOT)}::{node.name}")
    return dict(found)


def answers() -> dict[tuple[str, str], list[str]]:
    """The tests that hold each endpoint's statuses, by endpoint and status."""
    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for claim, tests in claims().items():
        if match := _ANSWER.fullmatch(claim):
            for status in match[2].split(", "):
                found[match[1], status] += tests
    return dict(found)


def changes() -> dict[tuple[str, str, str], list[str]]:
    """The tests that hold each change of state: of what, from what, to what."""
    matches = {claim: _CHANGE.fullmatch(claim) for claim in claims()}
    return {(match[1], match[2], match[3]): claims()[claim] for claim, match in matches.items() if match}


def events() -> dict[str, list[str]]:
    """The tests that hold each claim about something that happens."""
    return {
        claim: tests
        for claim, tests in claims().items()
        if not _ANSWER.fullmatch(claim) and not _CHANGE.fullmatch(claim)
    }


def answer_rows() -> list[list[str]]:
    """The rows of the page's table of answers."""
    return sorted([_endpoint(name), status, _cell(tests)] for (name, status), tests in answers().items())


def change_rows() -> list[list[str]]:
    """The rows of the page's table of changes of state."""
    return sorted([*change, _cell(tests)] for change, tests in changes().items())


def event_rows() -> list[list[str]]:
    """The rows of the page's table of events."""
    return sorted([claim, _cell(tests)] for claim, tests in events().items())


def _endpoint(name: str) -> str:
    method, _, path = name.partition(" /")
    return f"{method} `/{path}`" if path else name


def _cell(tests: list[str]) -> str:
    return "<br>".join(f"`{test}`" for test in sorted(set(tests)))
