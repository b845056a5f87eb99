"""The reconciler's queue: bring one operation, virtual cluster or cluster back on its way."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from paddock import bootstrap
from paddock.observability import Metric, about, count, logger, observed

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


# The metric of each number that a work item reports.
METRICS = {
    "seen": Metric.OPERATIONS_RUNNING,
    "resumed": Metric.OPERATIONS_RESUMED,
    "expired": Metric.OPERATIONS_EXPIRED,
    "stuck": Metric.OPERATIONS_STUCK,
    "failed": Metric.RECONCILE_FAILURES,
    "noticed": Metric.INSTANCES_NOTICED,
    "orphans": Metric.INSTANCES_LEAKED,
    "mended": Metric.LEDGERS_MENDED,
    "tidied": Metric.PLACEMENT_GROUPS_TIDIED,
    "relaunched": Metric.VIRTUAL_CLUSTERS_RELAUNCHED,
    "released": Metric.CLAIMS_RELEASED,
    "idle": Metric.NODES_IDLE,
}


@observed
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:  # noqa: ARG001
    """Do the one work item that the queue hands out at a time; returns what was done."""
    [record] = event["Records"]
    about(**json.loads(record["body"]))
    report = asdict(bootstrap.reconcile(record["body"]))
    for name, number in report.items():
        count(METRICS[name], number)
    logger.info("reconciled", extra=report)
    return report
