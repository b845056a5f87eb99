"""Resume: an operation that runs must have a live execution."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.model.operation import ENDING, deadline_of
from paddock.model.time import SECOND_NS
from paddock.ports.repository import Put

if TYPE_CHECKING:
    from paddock.model.operation import Operation
    from paddock.ports.workflows import Workflows
    from paddock.store.store import Store

# The request that recorded the operation is given this long to start the workflow itself.
REQUEST_GRACE_NS = 60 * SECOND_NS
EXTENSIONS = 3


def needs_execution(operation: Operation, now: int) -> bool:
    """Whether an execution should have been started by now."""
    return operation.is_running and now >= operation.start_time + REQUEST_GRACE_NS


def may_be_extended(operation: Operation) -> bool:
    """Whether a new execution gets a new deadline.

    To end instances late is better than to leave them alive. To launch them late is not: their client has
    found another way by then.
    """
    return operation.action in ENDING and operation.attempt <= EXTENSIONS


def resume(store: Store, workflows: Workflows, operation: Operation) -> bool:
    """Start the operation again if its execution is not live; returns whether it did.

    A new execution has a new name, so the attempt is counted first; of two reconcilers one wins that write.
    If the winner crashes after it, the next run finds no execution of that attempt, and counts again.
    """
    now = store.now()
    if not needs_execution(operation, now) or workflows.is_live(operation):
        return False
    again = replace(
        operation,
        attempt=operation.attempt + 1,
        deadline=(
            deadline_of(operation.action, operation.total, now)
            if may_be_extended(operation)
            else operation.deadline
        ),
    )
    workflows.start(store.commit(Put(again, was=operation)).stored(again))
    return True
