"""What the clients were told, judged: no stale write wins twice, no request is done twice, no bug shows."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def read(directory: Path) -> list[dict[str, Any]]:
    """All lines of all processes; the last one of a killed process may be half of a line."""
    lines = [line for path in sorted(directory.glob("*.jsonl")) for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


def violations(history: list[dict[str, Any]]) -> Iterator[str]:
    """What is wrong, in words."""
    for line in history:
        if line["what"] == "bug":
            yield f"{line['by']}: {line['of']}: {line['error']}\n{line['trace']}"
    writes = [line for line in history if line["what"] == "write" and line["answer"] == "ok"]
    winners = Counter((line["virtual_cluster"], line["expected"]) for line in writes if line["expected"])
    yield from (
        f"{count} writes of {what[0]} won from revision {what[1]}"
        for what, count in winners.items()
        if count > 1
    )
    for line in writes:
        if line["revision"] <= (line["expected"] or 0):
            yield f"a write of {line['virtual_cluster']} from {line['expected']} made {line['revision']}"
    revisions = Counter((line["virtual_cluster"], line["revision"]) for line in writes)
    yield from (f"{count} writes made revision {what}" for what, count in revisions.items() if count > 1)
    yield from _requests([line for line in history if line["what"] == "create"])


def summary(history: list[dict[str, Any]]) -> dict[str, int]:
    """How many there were of each kind."""
    asked = [line for line in history if "began" in line]
    return {
        "operations": len(asked),
        "ok": sum(line["answer"] == "ok" for line in asked),
        "unknown": sum(line["answer"] == "unknown" for line in asked),
        "conflicts": sum(line["answer"] == "RevisionConflict" for line in asked),
        "failed_tasks": sum(line["what"] == "task failed" for line in history),
    }


def _requests(creates: list[dict[str, Any]]) -> Iterator[str]:
    """A request id is done once in a cluster; one of the same name that is made again knows nothing of it."""
    done = [line for line in creates if line["answer"] == "ok"]
    times = Counter((line["cluster"], line["cluster_uid"], line["request"]) for line in done)
    yield from (f"request {what} was done {count} times" for what, count in times.items() if count > 1)
    known = {line["operation"] for line in done}
    # What a request did whose answer is unknown is told by the next one of that id.
    unknown = {(line["cluster"], line["request"]) for line in creates if line["answer"] == "unknown"}
    for line in creates:
        what = (line["cluster"], line["request"])
        if line["answer"] == "DuplicateRequest" and line["operation"] not in known and what not in unknown:
            yield f"request {what} started {line['operation']}, which nobody asked for"
