"""What to do when somebody else was faster."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from paddock.errors import Busy
from paddock.model.operation import SECOND_NS
from paddock.ports.repository import MAX_WRITES, WriteConflictError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from paddock.ports.clock import Clock
    from paddock.ports.repository import Repository, Write

# In each round at least one of the contenders wins, so this many may meet before one is told to come back.
ATTEMPTS = 40
# No attempt begins later than this: a function that is cut off at its 28 seconds could not tell its client.
TIME_NS = 12 * SECOND_NS

Result = TypeVar("Result")


def until_won(clock: Clock, attempt: Callable[[], Result]) -> Result:
    """Read, decide and commit again until nothing changed in between.

    Raises ``Busy`` after many attempts, or a long time.
    """
    began = clock.now()
    for number in range(ATTEMPTS):
        try:
            return attempt()
        except WriteConflictError:
            clock.pause(number)
        if clock.now() - began >= TIME_NS:
            break
    msg = "too many others are changing the same records; nothing was changed, try again"
    raise Busy(msg)


def commit_each(
    repository: Repository, writes: Sequence[Write], may_go_on: Callable[[], bool] = lambda: True
) -> list[Write]:
    """Do writes that do not depend on each other, in as few transactions as they fit in, while it may go on.

    Returns those that were not done since their record had changed.
    """
    conflicts: list[Write] = []
    for start in range(0, len(writes), MAX_WRITES):
        if not may_go_on():
            break
        chunk = list(writes[start : start + MAX_WRITES])
        while chunk:
            try:
                repository.commit(*chunk)
                break
            except WriteConflictError as conflict:
                conflicts.extend(conflict.writes)
                chunk = [write for write in chunk if write not in conflict.writes]
    return conflicts
