"""EC2's events: look at the instances that they are about."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from paddock import bootstrap
from paddock.model.identity import InstanceId
from paddock.observability import Metric, count, logger, observed

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

INTERRUPTION = "EC2 Spot Instance Interruption Warning"


@observed
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:  # noqa: ARG001
    """Look at all instances of a batch at once; returns the messages that the queue has to bring again."""
    events = {record["messageId"]: json.loads(record["body"]) for record in event["Records"]}
    about = {message: InstanceId(ec2_event["detail"]["instance-id"]) for message, ec2_event in events.items()}
    warned = {
        about[message] for message, ec2_event in events.items() if ec2_event["detail-type"] == INTERRUPTION
    }
    looked = bootstrap.look_at_instances(set(about.values()), warned)
    for cluster, number in looked.interrupted.items():
        count(Metric.NODES_INTERRUPTED, number, cluster=cluster)
    logger.info(
        "looked at instances", extra={"instances": len(set(about.values())), "changed": looked.changed}
    )
    again = [message for message, instance in about.items() if instance in looked.failed]
    return {"batchItemFailures": [{"itemIdentifier": message} for message in again]}
