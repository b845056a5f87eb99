"""The schedule: put one run of the reconciler into its queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paddock import bootstrap
from paddock.observability import logger

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:  # noqa: ARG001
    """Send the parts of one run; answers how many."""
    report = {"parts": bootstrap.fan_out_reconciliation()}
    logger.info("fanned out", extra=report)
    return report
