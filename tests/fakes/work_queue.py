"""The reconciler's queue in memory; tests hand out what is in it."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from paddock.reconcile.run import Report

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paddock.ports.work_queue import WorkItem


class FakeWorkQueue:
    """Keeps what was sent until it is taken."""

    def __init__(self) -> None:
        self._items: list[WorkItem] = []

    def send(self, items: Sequence[WorkItem]) -> None:
        self._items += items

    def take(self) -> list[WorkItem]:
        """Everything that was sent and not taken yet."""
        taken, self._items = self._items, []
        return taken


def in_sum(reports: Iterable[Report]) -> Report:
    """What was done in all."""
    each = list(reports)
    return Report(**{field.name: sum(getattr(one, field.name) for one in each) for field in fields(Report)})
