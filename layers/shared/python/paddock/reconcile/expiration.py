"""Expire: an operation that runs long after its deadline is ended here, in whatever state its workflow is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.model.time import SECOND_NS
from paddock.reconcile.resume import may_be_extended
from paddock.workflow.finish import finish

if TYPE_CHECKING:
    from paddock.model.operation import Operation
    from paddock.ports.compute import Compute
    from paddock.ports.workflows import Workflows
    from paddock.store.store import Store
    from paddock.workflow.outcome import Outcome

# The workflow ends its operation at the deadline by itself; this is the time that it is given to do so.
WORKFLOW_GRACE_NS = 600 * SECOND_NS

# By then this has been tried several times.
STUCK_AFTER_NS = WORKFLOW_GRACE_NS + 300 * SECOND_NS


def is_overdue(operation: Operation, now: int) -> bool:
    """Whether the workflow has had its time, and gets no more."""
    overdue = operation.is_running and now >= operation.deadline + WORKFLOW_GRACE_NS
    return overdue and not may_be_extended(operation)


def is_stuck(operation: Operation, now: int) -> bool:
    """Whether it runs although everything that should end it has had its time: an operator must look."""
    return operation.is_running and now >= operation.deadline + STUCK_AFTER_NS


def expire(store: Store, compute: Compute, workflows: Workflows, operation: Operation) -> Outcome | None:
    """End the operation if it is overdue, as its workflow's last task would; ``None`` if it is not."""
    if not is_overdue(operation, store.now()):
        return None
    return finish(store, compute, workflows, operation.id, polls=0)
