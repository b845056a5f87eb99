"""What EC2 tells, delivered as EventBridge does: to the queues of the rules that an event matches.

The emulator's own bus refuses events of ``aws.ec2`` from anybody, as EventBridge does.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REGION = "us-east-1"
ACCOUNT = "000000000000"
BATCH = 10


class EventBus:
    """Delivers to the rules of the emulator at ``endpoint``; what cannot be delivered is lost."""

    def __init__(self, endpoint: str) -> None:
        # Named through Any: the stubs have one overload for each service.
        create: Any = boto3.client
        config = Config(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 1})
        given = {"endpoint_url": endpoint, "region_name": REGION, "config": config}
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        self._events, self._sqs = (create(name, **given, **keys) for name in ("events", "sqs"))

    def publish(self, told: Sequence[Mapping[str, Any]]) -> None:
        """Send each event to the queue of every rule that it matches."""
        if not told:
            return
        try:
            self._deliver([_envelope(event) for event in told])
        except (BotoCoreError, ClientError) as error:
            print(f"{len(told)} events were not delivered: {error}", file=sys.stderr, flush=True)

    def _deliver(self, events: Sequence[Mapping[str, Any]]) -> None:
        bodies: defaultdict[str, list[str]] = defaultdict(list)
        for rule in self._events.list_rules()["Rules"]:
            if rule["State"] != "ENABLED" or "EventPattern" not in rule:
                continue
            pattern = json.loads(rule["EventPattern"])
            matching = [json.dumps(event) for event in events if matches(pattern, event)]
            if matching:
                for target in self._events.list_targets_by_rule(Rule=rule["Name"])["Targets"]:
                    bodies[target["Arn"]] += matching
        for arn, messages in bodies.items():
            url = self._sqs.get_queue_url(QueueName=arn.rpartition(":")[2])["QueueUrl"]
            for start in range(0, len(messages), BATCH):
                some = enumerate(messages[start : start + BATCH])
                entries = [{"Id": str(number), "MessageBody": body} for number, body in some]
                self._sqs.send_message_batch(QueueUrl=url, Entries=entries)


def matches(pattern: Mapping[str, Any], event: Mapping[str, Any]) -> bool:
    """Whether an event has what the pattern lists. A pattern that says more than that is refused."""
    for key, wanted in pattern.items():
        found = event.get(key)
        if isinstance(wanted, list):
            if not all(isinstance(value, str) for value in wanted):
                msg = f"not modelled in an event pattern: {wanted}"
                raise TypeError(msg)
            if found not in wanted:
                return False
        elif found is None or not matches(wanted, found):
            return False
    return True


def _envelope(event: Mapping[str, Any]) -> dict[str, Any]:
    instance = event["detail"]["instance-id"]
    return {
        "version": "0",
        "id": str(uuid4()),
        "source": "aws.ec2",
        "account": ACCOUNT,
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": REGION,
        "resources": [f"arn:aws:ec2:{REGION}:{ACCOUNT}:instance/{instance}"],
        **event,
    }
