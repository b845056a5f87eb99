"""What every workflow function does around its step."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from paddock.observability import Metric, about, count, logger, observed
from paddock.workflow.outcome import Next, or_wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from aws_lambda_powertools.utilities.typing import LambdaContext

    from paddock.model.identity import OperationId
    from paddock.workflow.outcome import Outcome

    Handler = Callable[[dict[str, Any], LambdaContext], dict[str, Any]]


def task(step: Callable[[OperationId, int], Outcome]) -> Handler:
    """Make a Lambda handler of a step.

    It takes ``{"operationId": str, "polls": int}`` and returns the same with ``next`` and ``waitSeconds``;
    ``polls`` counts the waits. Errors of a step are for the state machine's Retry, except throttling by the
    store, after which it waits.
    """

    @wraps(step)
    @observed
    def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:  # noqa: ARG001
        operation_id: OperationId = event["operationId"]
        polls: int = event["polls"]
        about(operation_id=operation_id)
        outcome = or_wait(step, operation_id, polls)
        if outcome.orphans:
            count(Metric.INSTANCES_LEAKED, outcome.orphans)
        logger.info(
            "stepped", extra={"next": outcome.next, "wait_seconds": outcome.wait_seconds, "polls": polls}
        )
        return {
            "operationId": operation_id,
            "next": outcome.next,
            "waitSeconds": outcome.wait_seconds,
            "polls": polls + (outcome.next is Next.WAIT),
        }

    return handler
