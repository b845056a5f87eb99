"""The schedule: put one run of the reconciler into its queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paddock import bootstrap
from paddock.observability import Metric, count, logger, observed

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@observed
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:  # noqa: ARG001
    """Begin one run; returns its number of work items."""
    run = bootstrap.start_reconciliation()
    count(Metric.QUOTAS_UNREAD, run.quotas_unread)
    report = {"work_items": run.work_items}
    logger.info("fanned out", extra=report)
    return report
