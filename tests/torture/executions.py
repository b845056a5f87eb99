"""What stands in for Step Functions: executions in a file that all processes open, driven by workers.

Like the state machine it tries a failed task again, and hands a task out again once its time is over, though
the first who got it may still be at work. Unlike it, it also hands out some tasks twice at once, and loses
some executions, as a failure of the service does.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddock.errors import WorkflowsUnavailable
from paddock.model.operation import ENDING, Action
from tests.torture.clock import SECOND_NS

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from paddock.model.identity import OperationId
    from paddock.model.operation import Operation
    from paddock.ports.clock import Clock

TASK_NS = 130 * SECOND_NS
RETRY_NS = 30 * SECOND_NS
UNAVAILABLE, TWICE, LOST = 0.08, 0.1, 0.02
LIVE = "live"


@dataclass(frozen=True)
class Task:
    """What a worker has to do, and what it has to show for it when it is done."""

    name: str
    operation_id: OperationId
    step: str
    polls: int
    lease: int


class Executions:
    """``Workflows`` of one process, and the queue of its workers. While ``faulty`` is there, it fails."""

    def __init__(self, path: Path, clock: Clock, choose: Random, faulty: Path) -> None:
        self._database = sqlite3.connect(path, timeout=60, isolation_level=None)
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS executions (name TEXT PRIMARY KEY, operation TEXT, step TEXT,"
            " polls INTEGER, due INTEGER, lease INTEGER, state TEXT)"
        )
        self._clock, self._choose, self._faulty = clock, choose, faulty

    def start(self, operation: Operation) -> None:
        """See ``Workflows.start``."""
        self._may_fail()
        step = "terminate" if operation.action in ENDING | {Action.REIMAGE} else "launch"
        self._database.execute(
            "INSERT OR IGNORE INTO executions VALUES (?, ?, ?, 0, ?, 0, ?)",
            (_name(operation), operation.id, step, self._clock.now(), LIVE),
        )

    def is_live(self, operation: Operation) -> bool:
        """See ``Workflows.is_live``."""
        self._may_fail()
        found = self._database.execute(
            "SELECT state FROM executions WHERE name = ?", (_name(operation),)
        ).fetchone()
        return bool(found == (LIVE,))

    def take(self) -> Task | None:
        """The next task that is due, if there is one."""
        now = self._clock.now()
        self._database.execute("BEGIN IMMEDIATE")
        try:
            found = self._database.execute(
                "SELECT name, operation, step, polls FROM executions WHERE state = ? AND due <= ? "
                "ORDER BY due LIMIT 1",
                (LIVE, now),
            ).fetchone()
            if found is None:
                return None
            lost = self._happens(LOST)
            due = now if self._happens(TWICE) else now + TASK_NS
            self._database.execute(
                "UPDATE executions SET due = ?, lease = ?, state = ? WHERE name = ?",
                (due, now, "lost" if lost else LIVE, found[0]),
            )
            name, operation_id, step, polls = found
            return Task(name, operation_id, step, polls, now)
        finally:
            self._database.execute("COMMIT")

    def go_on(self, task: Task, step: str, polls: int, wait_seconds: float) -> None:
        """The task is done, and this is the next one; a worker that was given up on changes nothing."""
        due = self._clock.now() + round(wait_seconds * SECOND_NS)
        self._update(task, "step = ?, polls = ?, due = ?", step, polls, due)

    def end(self, task: Task) -> None:
        """The execution is done."""
        self._update(task, "state = 'done'")

    def fail(self, task: Task) -> None:
        """The task has failed: wait, and poll, as the state machine does in the end."""
        self._update(task, "step = 'poll', due = ?", self._clock.now() + RETRY_NS)

    def live(self) -> int:
        """How many executions run."""
        (count,) = self._database.execute(
            "SELECT COUNT(*) FROM executions WHERE state = ?", (LIVE,)
        ).fetchone()
        return int(count)

    def _update(self, task: Task, what: str, *values: object) -> None:
        self._database.execute(
            f"UPDATE executions SET {what} WHERE name = ? AND lease = ? AND state = 'live'",  # noqa: S608
            (*values, task.name, task.lease),
        )

    def _may_fail(self) -> None:
        if self._happens(UNAVAILABLE):
            msg = "not now"
            raise WorkflowsUnavailable(msg)

    def _happens(self, probability: float) -> bool:
        return self._choose.random() < probability and self._faulty.exists()


def _name(operation: Operation) -> str:
    return f"{operation.id}-{operation.attempt}"
