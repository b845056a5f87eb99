"""Writes the tables of docs/ that are made from the code: `make docs`. A test fails where a page differs.

The facts of a row come from the code. Where its last cell says what they mean, that sentence is kept: it is
written on the page, by hand.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from paddock.http.errors import NODES, STATUS
from paddock.model.definition import Bucket, LaunchTemplate, NodeArray
from paddock.requests.bodies import (
    ClusterWrite,
    NodeCreationRequest,
    NodeManagementRequest,
    NodeSet,
    ScaleRequest,
    VirtualClusterWrite,
)
from tests import proofs
from tests.bench.calls import table as create_table
from tests.bench.calls import virtual_cluster_table
from tests.emulator.template import ROOT, load_template
from tests.pages import DOCS, table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pydantic import BaseModel

MODELS: dict[str, type[BaseModel]] = {
    "Definition": ClusterWrite,
    "Node array": NodeArray,
    "Launch template": LaunchTemplate,
    "Bucket": Bucket,
    "Request": NodeCreationRequest,
    "Set": NodeSet,
    "Action": NodeManagementRequest,
    "Scale": ScaleRequest,
    "Virtual cluster": VirtualClusterWrite,
}
UNWRITTEN = "…"


class Generated(NamedTuple):
    """A table, and where it stands: it is the first one under its heading. ``header`` names the facts."""

    page: Path
    heading: str
    header: list[str]
    rows: list[list[str]]
    meaning: str = ""

    def written(self, text: str) -> str:
        """The page's text with this table as it has to be."""
        before, heading, section = _parted(text, self.heading)
        [old] = re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE)[:1]
        kept = {line[0]: line[-1] for line in _lines(old)}
        rows = [[*row, kept.get(row[0], UNWRITTEN)] if self.meaning else row for row in self.rows]
        header = [*self.header, self.meaning] if self.meaning else self.header
        return before + heading + section.replace(old, table(header, rows), 1)


def generated() -> Iterator[Generated]:
    """All tables that are made from the code, but for those of the benches."""
    for heading, model in MODELS.items():
        yield Generated(DOCS / "api.md", heading, ["field", "value", "default"], _fields(model), "meaning")
    yield Generated(
        DOCS / "api.md", "Errors", ["word", "status"], _errors(), "meaning, and what comes with it"
    )
    parameters = load_template()["Parameters"]
    yield Generated(
        DOCS / "first-hour-on-aws.md",
        "Parameters",
        ["parameter", "default"],
        [
            [f"`{name}`", f"`{told['Default']}`" if told["Default"] else "none"]
            for name, told in parameters.items()
        ],
        "meaning",
    )
    files = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "events").rglob("*.json"))
    yield Generated(
        DOCS / "design.md", "Events", ["event file"], [[f"`{name}`"] for name in files], "meaning"
    )
    yield Generated(DOCS / "proofs.md", "Answers", ["endpoint", "status", "held by"], proofs.answer_rows())
    yield Generated(
        DOCS / "proofs.md", "Changes of state", ["what", "from", "to", "held by"], proofs.change_rows()
    )
    yield Generated(DOCS / "proofs.md", "Events", ["event: what holds", "held by"], proofs.event_rows())


def written() -> dict[Path, str]:
    """Each page with its tables as they have to be."""
    texts: dict[Path, str] = {}
    for one in generated():
        text = texts.get(one.page) or one.page.read_text(encoding="utf-8")
        texts[one.page] = one.written(text)
    return texts


def _parted(text: str, heading: str) -> tuple[str, str, str]:
    """What stands before the heading; the heading; and all that stands after it."""
    [found] = re.finditer(rf"^#+ {re.escape(heading)}(?::[^\n]*)?\n", text, re.MULTILINE)
    return text[: found.start()], found[0], text[found.end() :]


def _lines(old: str) -> list[list[str]]:
    return [line.strip("| ").split(" | ") for line in old.splitlines()]


def _fields(model: type[BaseModel]) -> list[list[str]]:
    schema = model.model_json_schema(by_alias=True)
    required = schema.get("required", [])
    return [
        [f"`{name}`" + "*" * (name in required), _value(facts, schema), _default(facts)]
        for name, facts in sorted(schema["properties"].items(), key=lambda field: field[0] not in required)
    ]


def _value(facts: dict[str, Any], schema: dict[str, Any]) -> str:  # noqa: PLR0911 - a line for each kind
    """What a field may be, in words: ``1 to 50 of: node array``."""
    if "anyOf" in facts:
        return _value(next(kind for kind in facts["anyOf"] if kind.get("type") != "null"), schema)
    if "$ref" in facts:
        name = facts["$ref"].rpartition("/")[2]
        kind = schema["$defs"][name]
        return " or ".join(f"`{word}`" for word in kind["enum"]) if "enum" in kind else _words(name)
    match facts["type"]:
        case "array":
            most = f"to {facts['maxItems']:,}" if "maxItems" in facts else "or more"
            return f"list of {facts.get('minItems', 0)} {most}: {_value(facts['items'], schema)}"
        case "string" if "pattern" in facts:
            return f"string `{facts['pattern']}`".replace("|", r"\|")
        case "string" if "maxLength" in facts:
            return f"string of {facts['minLength']} to {facts['maxLength']} characters"
        case "boolean":
            return "`true` or `false`"
        case "integer" | "number":
            return _number(facts)
        case kind:
            return str(kind)


def _number(facts: dict[str, Any]) -> str:
    least = facts.get("minimum", facts.get("ge", 0))
    least = f"more than {facts['exclusiveMinimum']}" if "exclusiveMinimum" in facts else least
    return f"{facts['type']}, {least} to {facts.get('maximum', facts.get('le')):,}"


def _words(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name).lower()


def _default(facts: dict[str, Any]) -> str:
    match facts.get("default"):
        case None | "":
            return ""
        case bool() as flag:
            return f"`{str(flag).lower()}`"
        case other:
            return f"`{other}`"


def _errors() -> list[list[str]]:
    """Each error's word and status, with the status that ``nodes/…`` and ``scale/…`` answer instead."""
    rows = []
    for kind, status in STATUS.items():
        word = "InternalError" if kind is Exception else kind.__name__
        other = NODES.overrides.get(kind)
        told = f"{status.value}; {other.value} at `nodes/…` and `scale/…`" if other else f"{status.value}"
        rows.append([f"`{word}`", told])
    return rows


def main() -> None:
    """Write all of it."""
    texts = written()
    performance = DOCS / "performance.md"
    text = performance.read_text(encoding="utf-8")
    for new in (create_table(), virtual_cluster_table()):
        header = new.splitlines()[0]
        [old] = re.findall(rf"^{re.escape(header)}\n(?:\|.*\n)+", text, re.MULTILINE)
        text = text.replace(old, new.rstrip() + "\n")
    for path, page in {**texts, performance: text}.items():
        path.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
