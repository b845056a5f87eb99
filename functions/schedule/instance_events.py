"""EC2's events: look at the instances that they are about."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from paddock import bootstrap
from paddock.observability import logger, observed

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

INTERRUPTION = "EC2 Spot Instance Interruption Warning"


@observed
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:  # noqa: ARG001
    """Look at all instances of a batch at once; answers how many nodes were changed."""
    events = [json.loads(record["body"]) for record in event["Records"]]
    instances = {one["detail"]["instance-id"] for one in events}
    warned = {one["detail"]["instance-id"] for one in events if one["detail-type"] == INTERRUPTION}
    report = {"instances": len(instances), "changed": bootstrap.look_at_instances(instances, warned)}
    logger.info("looked at instances", extra=report)
    return report
