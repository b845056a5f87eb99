"""The reconciler and EC2's events, through the real queues and rules."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from tests.integration.story import (
    ENDED,
    INTERRUPTED,
    eventually,
    finished,
    long_ago,
    new_cluster,
    nodes,
    only_bucket,
    physical_id,
    ready_nodes,
    tell,
)

if TYPE_CHECKING:
    from tests.emulator.client import Client
    from tests.emulator.stack import Stack


def statuses(client: Client, cluster: str) -> list[str]:
    return [node["Status"] for node in nodes(client, cluster)]


def test_an_instance_that_was_ended_by_hand_is_noticed_and_a_later_terminate_succeeds(
    client: Client, stack: Stack
) -> None:
    cluster = new_cluster(client)
    [lost, _] = ready_nodes(client, cluster, 2)
    stack.ec2_control("end", instance_id=lost["InstanceId"])
    eventually(lambda: state(stack, lost["InstanceId"]) == "terminated")
    assert stack.invoke("Reconcile", {})["work_items"] >= 1
    eventually(lambda: statuses(client, cluster) == ["Failed", "Ready"])
    assert only_bucket(client, cluster)["activeCount"] == 1
    done = client.post(f"/clusters/{cluster}/nodes/terminate", {"ids": [lost["NodeId"]]})
    assert finished(client, done.json()["operationId"])["state"] == "Succeeded"
    assert statuses(client, cluster) == ["Ready"]


def test_an_instance_without_a_node_is_ended_also_where_its_cluster_is_gone(
    client: Client, stack: Stack
) -> None:
    cluster, deployment = new_cluster(client), stack.output("TableName")
    with long_ago(stack):
        lost = [launch(stack, deployment, name) for name in (cluster, f"gone-{uuid4().hex[:8]}")]
        foreign = launch(stack, "another", cluster)
    stack.invoke("Reconcile", {})
    eventually(lambda: all(state(stack, one) == "terminated" for one in lost))
    assert state(stack, foreign) == "running"


def test_what_ec2_tells_is_heard_within_seconds(client: Client, stack: Stack) -> None:
    cluster = new_cluster(client)
    [node] = ready_nodes(client, cluster, 1)
    stack.ec2_control("end", instance_id=node["InstanceId"])
    eventually(lambda: state(stack, node["InstanceId"]) == "terminated")
    tell(stack, ENDED, node["InstanceId"])
    eventually(lambda: statuses(client, cluster) == ["Failed"])


def test_a_node_whose_spot_instance_will_be_interrupted_leaves_and_its_work_has_time(
    client: Client, stack: Stack
) -> None:
    cluster = new_cluster(client, interruptible=True)
    [leaving, staying] = ready_nodes(client, cluster, 2)
    for _ in range(2):
        tell(stack, INTERRUPTED, leaving["InstanceId"])
    eventually(lambda: statuses(client, cluster) == ["Terminating", "Ready"])
    assert state(stack, leaving["InstanceId"]) == "running"
    stack.ec2_control("end", instance_id=leaving["InstanceId"])
    eventually(lambda: [node["NodeId"] for node in nodes(client, cluster)] == [staying["NodeId"]])


@pytest.mark.parametrize("how", ["by itself", "by a call", "interrupted"])
def test_what_becomes_of_an_instance_is_told_by_the_simulator_as_ec2_does(
    client: Client, stack: Stack, how: str
) -> None:
    """Nobody calls the reconciler here."""
    cluster = new_cluster(client, interruptible=how == "interrupted")
    [node, _] = ready_nodes(client, cluster, 2)
    instance, became = node["InstanceId"], "Failed"
    if how == "by itself":
        stack.ec2_control("end", instance_id=instance, reason="Server.InternalError: Internal error")
    elif how == "by a call":
        stack.aws("ec2").terminate_instances(InstanceIds=[instance])
    else:
        stack.ec2_control("interrupt", instance_id=instance)
        became = "Terminating"
    eventually(lambda: statuses(client, cluster) == [became, "Ready"])


@pytest.mark.parametrize(
    ("rule", "sample"), [("InstancesEnded", ENDED), ("InstancesInterrupted", INTERRUPTED)]
)
def test_the_rules_let_pass_what_the_function_understands(
    stack: Stack, rule: str, sample: dict[str, Any]
) -> None:
    events = stack.aws("events")
    pattern = events.describe_rule(Name=physical_id(stack, rule))["EventPattern"]

    def passes(detail: dict[str, str]) -> bool:
        event = json.dumps({**sample, "detail": detail})
        return bool(events.test_event_pattern(EventPattern=pattern, Event=event)["Result"])

    assert passes(sample["detail"])
    assert not passes({**sample["detail"], "state": "running", "instance-action": "stop"})


def launch(stack: Stack, deployment: str, cluster: str) -> str:
    """An instance of which no record tells."""
    tags = {"deployment": deployment, "cluster": cluster, "operation": str(uuid4())}
    answer = stack.aws("ec2").create_fleet(
        Type="instant",
        LaunchTemplateConfigs=[
            {
                "LaunchTemplateSpecification": {
                    "LaunchTemplateId": "lt-0123456789abcdef0",
                    "Version": "$Latest",
                },
                "Overrides": [{"InstanceType": "c7i.xlarge", "SubnetId": "subnet-00000001"}],
            }
        ],
        TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
        TagSpecifications=[
            {
                "ResourceType": "instance",
                "Tags": [{"Key": f"paddock:{key}", "Value": value} for key, value in tags.items()],
            }
        ],
    )
    return str(answer["Instances"][0]["InstanceIds"][0])


def state(stack: Stack, instance_id: str) -> str:
    answer = stack.aws("ec2").describe_instances(InstanceIds=[instance_id])
    return str(answer["Reservations"][0]["Instances"][0]["State"]["Name"])
