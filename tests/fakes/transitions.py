"""Every change of state that there may be. docs/proofs.md has a row for each; a ``World`` allows no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.model.node import Node
from paddock.model.operation import Operation
from paddock.ports.repository import Delete, Put
from tests.fakes.repository import FakeRepository

if TYPE_CHECKING:
    from paddock.ports.repository import Record, Write

NOTHING = "nothing"
NODE = {
    NOTHING: ("Acquiring", "Off"),
    "Off": ("Acquiring", "Terminating"),
    "Acquiring": ("Preparing", "Failed", "Terminating"),
    "Preparing": ("Ready", "Deallocated", "Failed", "Terminating"),
    "Ready": ("Acquiring", "Deallocated", "Failed", "Terminating"),
    "Deallocated": ("Preparing", "Failed", "Terminating"),
    "Failed": ("Acquiring", "Terminating", "Off", NOTHING),
    "Terminating": ("Off", "Failed", NOTHING),
}
OPERATION = {
    NOTHING: ("Running", "Succeeded", "Failed"),
    "Running": ("Succeeded", "PartiallySucceeded", "Failed"),
}
TRANSITIONS = {
    (kind, before, after)
    for kind, changes in (("node", NODE), ("operation", OPERATION))
    for before, following in changes.items()
    for after in following
}


class StrictRepository(FakeRepository):
    """Refuses changes of state that there may not be."""

    def commit(self, *writes: Write) -> None:
        super().commit(*writes)
        assert not unforeseen(writes), f"a change of state that there may not be: {unforeseen(writes)}"


def unforeseen(writes: tuple[Write, ...]) -> list[tuple[str, str, str]]:
    """The changes of state among these writes that there may not be."""
    changes = [_change(write.was, write.record) for write in writes if isinstance(write, Put)]
    changes += [_change(write.was, None) for write in writes if isinstance(write, Delete)]
    return [change for change in changes if change and change[1] != change[2] and change not in TRANSITIONS]


def _change(before: Record | None, after: Record | None) -> tuple[str, str, str] | None:
    match after or before:
        case Node():
            return ("node", _state(before), _state(after))
        case Operation():
            return ("operation", _state(before), _state(after))
    return None


def _state(record: Record | None) -> str:
    match record:
        case Node():
            return str(record.status)
        case Operation():
            return str(record.state)
    return NOTHING
