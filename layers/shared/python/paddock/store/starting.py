"""Handing an operation that is on record to the workflow."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from paddock.errors import Busy, TransientStore, WorkflowsUnavailable
from paddock.model.time import SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.model.operation import Operation
    from paddock.ports.workflows import Workflows

logger = logging.getLogger(__name__)

# For so long a request writes records of nodes, some thousand in general; it is cut off after 28 seconds.
REQUEST_NS = 10 * SECOND_NS


def start(workflows: Workflows, operation: Operation) -> None:
    """Start the workflow of a recorded operation.

    The record is what counts: where the workflow service does not answer, the reconciler starts it later, and
    the request that recorded the operation has succeeded all the same.
    """
    try:
        workflows.start(operation)
    except WorkflowsUnavailable:
        logger.warning("workflow not started, left to the reconciler", extra={"operation_id": operation.id})


@contextmanager
def left_to_the_workflow(operation: Operation) -> Iterator[None]:
    """Go on if records of a recorded operation cannot be written now.

    The operation will be done, so the request has succeeded. If it reported an error, its client would send
    it again, and get twice the nodes that it wanted. The workflow's first task writes the missing records.
    """
    try:
        yield
    except (Busy, TransientStore):
        logger.warning("records not written, left to the workflow", extra={"operation_id": operation.id})
