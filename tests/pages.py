"""The README and the pages of docs/ as data: tables, and the routes with the statuses that they document."""

from __future__ import annotations

import re
from itertools import takewhile

from tests.emulator.template import ROOT

README = ROOT / "README.md"
DOCS = ROOT / "docs"
PATHS = [README, *sorted(DOCS.rglob("*.md"))]
TEXT = "\n".join(path.read_text(encoding="utf-8") for path in PATHS)
_ROUTE = re.compile(r"(GET|PUT|POST|DELETE) `([^`]+)`")


def rows(*header: str) -> list[list[str]]:
    """The cells of the tables that have this header."""
    found = []
    lines = TEXT.splitlines()
    for number, line in enumerate(lines):
        if _cells(line) == list(header):
            table = takewhile(lambda row: row.startswith("|"), lines[number + 2 :])
            found += [_cells(row) for row in table]
    assert found, f"no page has a table {header}"
    return found


def routes(cell: str) -> list[tuple[str, str]]:
    """The routes that a cell names, as method and path."""
    return _ROUTE.findall(cell)


def documented() -> set[tuple[str, str, int]]:
    """Each route with each status that its table says it answers."""
    return {
        (*route, int(status))
        for told, _, answers in rows("method, path", "what it does", "answers")
        for route in routes(told)
        for status in answers.split(", ")
    }


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []


def table(header: list[str], body: list[list[str]]) -> str:
    """A table as it stands on a page."""
    lines = ["| " + " | ".join(line) + " |\n" for line in (header, *body)]
    return "".join([lines[0], "|" + "---|" * len(header) + "\n", *lines[1:]])
