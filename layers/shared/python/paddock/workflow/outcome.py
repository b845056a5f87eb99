"""The result of a workflow task: which task comes next, and after how long."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from paddock.errors import StoreThrottled

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.model.identity import OperationId

_FIRST_WAIT_SECONDS = 2
_GROWTH = 1.5
_MAX_WAIT_SECONDS = 60
_MAX_EXPONENT = 20


class Next(StrEnum):
    """The workflow's next state. ``WAIT`` comes back to poll."""

    LAUNCH = "launch"
    TERMINATE = "terminate"
    WAIT = "wait"
    FINISH = "finish"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The next state, and the seconds to wait before it where it is ``WAIT``.

    ``orphans``: how many instances were ended that had been launched for no node that exists.
    """

    next: Next
    wait_seconds: int = 0
    orphans: int = 0


def wait(polls: int) -> Outcome:
    """Wait a little longer with each poll."""
    seconds = _FIRST_WAIT_SECONDS * _GROWTH ** min(polls, _MAX_EXPONENT)
    return Outcome(Next.WAIT, min(_MAX_WAIT_SECONDS, round(seconds)))


def wait_for(seconds: int) -> Outcome:
    """Wait so long, but for a minute at most: what has begun meanwhile is looked at then."""
    return Outcome(Next.WAIT, min(_MAX_WAIT_SECONDS, seconds))


def or_wait(step: Callable[[OperationId, int], Outcome], operation_id: OperationId, polls: int) -> Outcome:
    """Do a step. If the store throttles it for longer than a task has time, wait: the next task goes on."""
    try:
        return step(operation_id, polls)
    except StoreThrottled:
        return wait(polls)
