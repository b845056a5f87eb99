"""Handing an operation that is on record to the workflow."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from paddock.errors import WorkflowsUnavailable

if TYPE_CHECKING:
    from paddock.model.operation import Operation
    from paddock.ports.workflows import Workflows

logger = logging.getLogger(__name__)


def start(workflows: Workflows, operation: Operation) -> None:
    """Start the workflow of a recorded operation.

    The record is what counts: where the workflow service does not answer, the reconciler starts it later, and
    the request that recorded the operation has succeeded all the same.
    """
    try:
        workflows.start(operation)
    except WorkflowsUnavailable:
        logger.warning("workflow not started, left to the reconciler", extra={"operation_id": operation.id})
