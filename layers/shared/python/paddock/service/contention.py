"""What to do when somebody else was faster."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from paddock.errors import Busy
from paddock.model.operation import SECOND_NS
from paddock.ports.repository import MAX_WRITES, WriteConflictError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from paddock.ports.clock import Clock
    from paddock.ports.repository import Check, Repository, Write

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
    repository: Repository,
    writes: Sequence[Write],
    may_go_on: Callable[[], bool] = lambda: True,
    guard: Check | None = None,
) -> list[Write]:
    """Do writes that do not depend on each other, in as few transactions as they fit in, while it may go on.

    Returns those that were not done since their record had changed. The ``guard`` is in each transaction, and
    where it does not hold ``WriteConflictError`` is raised, and no more is done.
    """
    guards = [guard] if guard is not None else []
    conflicts: list[Write] = []
    for some in in_transactions(repository, writes, guards):
        if not may_go_on():
            break
        chunk = list(some)
        while chunk:
            try:
                repository.commit(*guards, *chunk)
                break
            except WriteConflictError as conflict:
                if guard in conflict.writes:
                    raise
                conflicts.extend(conflict.writes)
                chunk = [write for write in chunk if write not in conflict.writes]
    return conflicts


def in_transactions(
    repository: Repository, writes: Sequence[Write], beside: Sequence[Write] = ()
) -> Iterator[Sequence[Write]]:
    """The writes in their order, in parts each of which fits into one transaction with those ``beside``.

    A hundred nodes of 1 kB are one part; a hundred of 100 kB, which are more than the 4 MB that a transaction
    holds, are four of 25.
    """
    size = MAX_WRITES - len(beside)
    for start in range(0, len(writes), size):
        yield from _halved(repository, writes[start : start + size], beside)


def _halved(
    repository: Repository, writes: Sequence[Write], beside: Sequence[Write]
) -> Iterator[Sequence[Write]]:
    if len(writes) == 1 or repository.fits(*beside, *writes):
        yield writes
        return
    middle = len(writes) // 2
    for half in (writes[:middle], writes[middle:]):
        yield from _halved(repository, half, beside)
