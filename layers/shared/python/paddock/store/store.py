"""Paddock's records and its time: how use cases and the reconciler read, decide and write."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from paddock.errors import Busy
from paddock.model import node_lifecycle, operation
from paddock.model.identity import next_revision
from paddock.model.node import Node
from paddock.model.operation import Operation
from paddock.model.time import SECOND_NS
from paddock.model.virtual_cluster import VirtualCluster, VirtualClusterChange
from paddock.ports.repository import Delete, Put, WriteConflictError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from paddock.ports.clock import Clock
    from paddock.ports.repository import Check, Reads, Record, Repository, Write

# In each round at least one writer wins, so this many may meet before a writer gets ``Busy``.
ATTEMPTS = 40
# No attempt begins later than this: a function that is cut off at its 28 seconds could not reply at all.
TIME_NS = 12 * SECOND_NS

Result = TypeVar("Result")
Item = TypeVar("Item")
Given = TypeVar("Given", bound="Record")


class TransitionError(RuntimeError):
    """A write would change a record's state as it may not change: a bug here, and no fault of a client's."""


@dataclass(frozen=True, slots=True)
class Written:
    """What was written: each record as it was given, and as it is stored, by the identity of the former.

    ``conflicts`` are the writes that were not done, because their record had changed.
    """

    records: Mapping[int, tuple[Record, Record]]
    conflicts: Sequence[Write] = ()

    def stored(self, record: Given) -> Given:
        """This record, which was given to the commit, with the revision under which it is stored."""
        _, stored = self.records[id(record)]
        return stored  # type: ignore[return-value]  # a record is stored as what it is


class Store:
    """The repository together with the clock.

    Callers do not set revisions: a commit stamps each record with a revision above that of the record it
    replaces. So no writer can forget it, and let a stale reader's write pass.
    """

    def __init__(self, repository: Repository, clock: Clock) -> None:
        self.read: Reads = repository
        self._repository = repository
        self._clock = clock

    @property
    def max_writes(self) -> int:
        """The most writes that one commit takes."""
        return self._repository.max_writes

    def now(self) -> int:
        """See ``Clock.now``."""
        return self._clock.now()

    def fits(self, *writes: Write) -> bool:
        """See ``Repository.fits``."""
        return self._repository.fits(*_stamped(writes, self.now()))

    def commit(self, *writes: Write) -> Written:
        """See ``Repository.commit``; each record gets its next revision.

        A ``WriteConflictError`` names the writes as they were given. Raises ``TransitionError``, with nothing
        written, for a change of state that is not in the tables of ``TRANSITIONS``.
        """
        if wrong := [reason for write in writes if (reason := wrong_transition(write))]:
            raise TransitionError("; ".join(wrong))
        stamped = _stamped(writes, self.now())
        both = list(zip(writes, stamped, strict=True))
        try:
            self._repository.commit(*stamped)
        except WriteConflictError as conflict:
            lost = {id(write) for write in conflict.writes}
            raise WriteConflictError([given for given, write in both if id(write) in lost]) from conflict
        return Written(
            {
                id(given.record): (given.record, write.record)
                for given, write in both
                if isinstance(given, Put) and isinstance(write, Put)
            }
        )

    def retry_on_conflict(self, attempt: Callable[[], Result]) -> Result:
        """Read, decide and commit again until nothing changed in between.

        Raises ``Busy`` after many attempts, or a long time.
        """
        began = self.now()
        for number in range(ATTEMPTS):
            try:
                return attempt()
            except WriteConflictError:
                self._clock.pause(number)
            if self.now() - began >= TIME_NS:
                break
        msg = "too many others are changing the same records; nothing was changed, try again"
        raise Busy(msg)

    def commit_each(
        self,
        writes: Sequence[Write],
        may_go_on: Callable[[], bool] = lambda: True,
        guard: Check | None = None,
    ) -> Written:
        """Do writes that do not depend on each other, in few transactions, while ``may_go_on`` returns true.

        The ``guard`` is in each transaction; where it does not hold, ``WriteConflictError`` is raised and no
        more is done. Any other write whose record has changed is left out.
        """
        guards = [guard] if guard is not None else []
        records: dict[int, tuple[Record, Record]] = {}
        conflicts: list[Write] = []

        def commit(chunk: Sequence[Write]) -> bool:
            if not may_go_on():
                return True
            if len(chunk) > 1 and not self.fits(*guards, *chunk):
                return False
            while chunk:
                try:
                    records.update(self.commit(*guards, *chunk).records)
                    break
                except WriteConflictError as conflict:
                    if guard in conflict.writes:
                        raise
                    conflicts.extend(conflict.writes)
                    chunk = [write for write in chunk if write not in conflict.writes]
            return True

        _halving(writes, self.max_writes - len(guards), commit)
        return Written(records, conflicts)

    def in_transactions(
        self,
        ids: Sequence[Item],
        decide: Callable[[Sequence[Item]], Sequence[Write]],
        *,
        writes_per_id: int,
        writes_beside: int,
        may_go_on: Callable[[], bool] = lambda: True,
    ) -> None:
        """Write the decisions about records, for as many ids at a time as fit into one transaction.

        ``decide`` reads the records of some of the ids and returns their writes; it is called again when
        another writer was faster, and with half of the ids when the writes do not fit. A hundred nodes of
        1 kB, each with one write, are one transaction; a hundred of 100 kB are four of 25. No further
        transaction is begun once ``may_go_on`` returns false.
        """

        def commit(chunk: Sequence[Item]) -> bool:
            if not may_go_on():
                return True
            writes = decide(chunk)
            if len(chunk) > 1 and not self.fits(*writes):
                return False
            if writes:
                self.commit(*writes)
            return True

        most = max(1, (self.max_writes - writes_beside) // writes_per_id)
        _halving(ids, most, lambda chunk: self.retry_on_conflict(lambda: commit(chunk)))


def wrong_transition(write: Write) -> str:
    """Why the write may not change the state of its record so; empty where it may."""
    match write:
        case Put(Node() as record, (Node() | None) as was):
            return node_lifecycle.wrong_transition(was, record)
        case Delete(Node() as was):
            return node_lifecycle.wrong_transition(was, None)
        case Put(Operation() as record, (Operation() | None) as was):
            return operation.wrong_transition(was, record)
        case Delete(Operation() as was):
            return operation.wrong_transition(was, None)
        case _:
            return ""


def _halving(items: Sequence[Item], most: int, act: Callable[[Sequence[Item]], bool]) -> None:
    """Act on the items in their order, on ``most`` at once, and on halves where ``act`` says: too many."""
    for start in range(0, len(items), most):
        chunk = items[start : start + most]
        if not act(chunk):
            _halving(chunk, -(-len(chunk) // 2), act)


def _stamped(writes: Sequence[Write], now: int) -> list[Write]:
    """The writes with the revisions that their records get."""
    stamped: list[Write] = [_with_next_revision(write, now) for write in writes]
    # A change has the revision that it gave its virtual cluster, whose record is in the same transaction.
    given = {
        write.record.id: write.record.revision
        for write in stamped
        if isinstance(write, Put) and isinstance(write.record, VirtualCluster)
    }
    return [
        replace(write, record=replace(write.record, revision=given[write.record.virtual_cluster]))
        if isinstance(write, Put) and isinstance(write.record, VirtualClusterChange)
        else write
        for write in stamped
    ]


def _with_next_revision(write: Write, now: int) -> Write:
    if not isinstance(write, Put):
        return write
    previous = write.was.revision if write.was is not None else 0
    return replace(write, record=replace(write.record, revision=next_revision(now, previous)))
