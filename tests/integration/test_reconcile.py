"""The reconciler and EC2's events, through the real queues and rules."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from paddock.reconcile.orphans import ORPHAN_GRACE_NS
from paddock.reconcile.observe import STOPPED_GRACE_NS
from paddock.model.operation import SECOND_NS
from tests.integration.story import PATIENCE_SECONDS, finished, new_cluster, nodes, only_bucket, ready_nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.emulator.client import Client
    from tests.emulator.stack import Stack


def eventually(what: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not what():
        assert time.monotonic() < until
        time.sleep(0.1)


def statuses(client: Client, cluster: str) -> list[str]:
    return [node["Status"] for node in nodes(client, cluster)]


def tell(stack: Stack, kind: str, **detail: str) -> None:
    """Put an event of EC2's on the bus, as only EC2 itself can on AWS."""
    entry = {"Source": "aws.ec2", "DetailType": kind, "Detail": json.dumps(detail)}
    assert stack.aws("events").put_events(Entries=[entry])["FailedEntryCount"] == 0


def test_an_instance_that_was_ended_by_hand_is_noticed_and_a_later_terminate_succeeds(
    client: Client, stack: Stack
) -> None:
    cluster = new_cluster(client)
    [node, _] = ready_nodes(client, cluster, 2)
    stack.ec2_control("end", instance_id=node["InstanceId"])

    def is_noticed() -> bool:
        assert stack.invoke("Reconcile", {})["parts"] >= 1
        return statuses(client, cluster) == ["Failed", "Ready"]

    eventually(is_noticed)
    assert only_bucket(client, cluster)["activeCount"] == 1
    done = client.post(f"/clusters/{cluster}/nodes/terminate", {"ids": [node["NodeId"]]})
    assert finished(client, done.json()["operationId"])["state"] == "Succeeded"
    assert statuses(client, cluster) == ["Ready"]


def test_an_event_of_ec2_is_heard_without_a_schedule(client: Client, stack: Stack) -> None:
    cluster = new_cluster(client)
    [node] = ready_nodes(client, cluster, 1)
    stack.ec2_control("end", instance_id=node["InstanceId"])

    def is_heard() -> bool:
        tell(
            stack,
            "EC2 Instance State-change Notification",
            **{"instance-id": node["InstanceId"], "state": "terminated"},
        )
        return statuses(client, cluster) == ["Failed"]

    eventually(is_heard)


def test_a_node_whose_spot_instance_will_be_interrupted_is_ended(client: Client, stack: Stack) -> None:
    cluster = new_cluster(client, interruptible=True)
    [leaving, staying] = ready_nodes(client, cluster, 2)
    for _ in range(2):
        tell(
            stack,
            "EC2 Spot Instance Interruption Warning",
            **{"instance-id": leaving["InstanceId"], "instance-action": "terminate"},
        )
    eventually(lambda: [one["NodeId"] for one in nodes(client, cluster)] == [staying["NodeId"]])


def test_an_instance_without_a_node_is_ended_also_where_its_cluster_is_gone(
    client: Client, stack: Stack
) -> None:
    clusters = [new_cluster(client), f"gone-{uuid4().hex[:8]}"]
    tags = {"paddock:deployment": stack.output("TableName"), "paddock:operation": str(uuid4())}
    launched = {one: launch(stack, {**tags, "paddock:cluster": one}) for one in clusters}
    foreign = launch(stack, {**tags, "paddock:cluster": clusters[0], "paddock:deployment": "another"})
    stack.ec2_control("advance", seconds=-ORPHAN_GRACE_NS / SECOND_NS)
