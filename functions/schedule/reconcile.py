"""The schedule: bring back on its way what has come off it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from paddock import bootstrap
from paddock.observability import logger

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:  # noqa: ARG001
    """Run the reconciler once; answers what it did."""
    report = asdict(bootstrap.reconcile())
    logger.info("reconciled", extra=report)
    return report
