"""The schedule: bring back on its way what has come off it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from paddock import bootstrap
from paddock.observability import Metric, count, logger, observed

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

# The metric of each number that a run reports.
METRICS = {
    "seen": Metric.OPERATIONS_RUNNING,
    "resumed": Metric.OPERATIONS_RESUMED,
    "expired": Metric.OPERATIONS_EXPIRED,
    "stuck": Metric.OPERATIONS_STUCK,
    "failed": Metric.RECONCILE_FAILURES,
    "tidied": Metric.PLACEMENT_GROUPS_TIDIED,
    "healed": Metric.VIRTUAL_CLUSTERS_RELAUNCHED,
    "released": Metric.CLAIMS_RELEASED,
}


@observed
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:  # noqa: ARG001
    """Run the reconciler once; answers what it did."""
    report = asdict(bootstrap.reconcile())
    for name, number in report.items():
        count(METRICS[name], number)
    logger.info("reconciled", extra=report)
    return report
