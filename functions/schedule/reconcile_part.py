"""The reconciler's queue: bring one operation or one cluster back on its way."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from paddock import bootstrap
from paddock.observability import logger

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:  # noqa: ARG001
    """Do the one part that the queue hands out at a time; answers what was done."""
    [record] = event["Records"]
    report = asdict(bootstrap.reconcile(record["body"]))
    logger.info("reconciled", extra={"part": record["body"], **report})
    return report
