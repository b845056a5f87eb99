"""The table is lost and restored to an earlier time, as the README's Operations say; the cloud went on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from paddock.adapters.dynamodb.items import from_item, to_item
from paddock.model.operation import SECOND_NS, Operation
from paddock.reconcile.resume import REQUEST_GRACE_NS
from tests.integration.story import create, finished, new_cluster, nodes, only_bucket, ready_nodes
from tests.integration.test_story import alive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.emulator.client import Client
    from tests.emulator.stack import Stack

Item = dict[str, Any]


def items(stack: Stack) -> list[Item]:
    pages = stack.aws("dynamodb").get_paginator("scan").paginate(TableName=stack.output("TableName"))
    return [item for page in pages for item in page["Items"]]


def restore(stack: Stack, backup: list[Item]) -> None:
    """Make the table what it was."""
    deletions = [{"DeleteRequest": {"Key": {"pk": one["pk"], "sk": one["sk"]}}} for one in items(stack)]
    puts = [{"PutRequest": {"Item": item}} for item in backup]
    for requests in (deletions, puts):
        for start in range(0, len(requests), 25):
            some = {stack.output("TableName"): requests[start : start + 25]}
            assert not stack.aws("dynamodb").batch_write_item(RequestItems=some)["UnprocessedItems"]


def as_of_long_ago(backup: list[Item]) -> Iterator[Item]:
    """The same, as if its running operations had been begun a while before: requests have a time of grace."""
    for item in backup:
        if "running" not in item:
            yield item
            continue
        operation = from_item(Operation, item)
        yield to_item(replace(operation, start_time=operation.start_time - REQUEST_GRACE_NS - SECOND_NS))


def test_after_a_restore_what_ran_then_runs_to_its_end_and_launches_nothing_twice(
    client: Client, stack: Stack
) -> None:
    cluster = new_cluster(client, maxCount=6)
    kept, ended = ready_nodes(client, cluster, 2)
    # EC2 holds up what shall run at the time of the backup, by failing two tasks with each one's retries.
    stack.ec2_control("fail_next", operation="CreateFleet", code="RequestLimitExceeded", times=6)
    operation_id = create(client, cluster, 3, requestId="held-up").json()["operationId"]
    backup = list(as_of_long_ago(items(stack)))
    assert finished(client, operation_id)["state"] == "Succeeded"
    launched = instances(client, cluster, f"operation={operation_id}")
    end(client, cluster, ended["NodeId"])
    assert alive(stack, cluster) == 4

    restore(stack, backup)
    assert client.get(f"/operations/{operation_id}").json()["state"] == "Running"
    assert stack.invoke("Reconcile", {})["resumed"] >= 1
    assert finished(client, operation_id)["state"] == "Succeeded"

    # The launch was on record with its token, or is asked for with the same one: the same instances.
    assert instances(client, cluster, f"operation={operation_id}") == launched
    assert alive(stack, cluster) == 4
    assert only_bucket(client, cluster)["activeCount"] == 5
    assert create(client, cluster, 1, requestId="held-up").status == 409
    # What ended after the backup is listed again, until it is acted on or noticed.
    end(client, cluster, ended["NodeId"])
    assert {node["NodeId"] for node in nodes(client, cluster)} > {kept["NodeId"]}
    assert only_bucket(client, cluster)["activeCount"] == 4
    assert create(client, cluster, 9).json()["sets"][0]["added"] == 2


def instances(client: Client, cluster: str, query: str) -> dict[str, str]:
    return {node["Name"]: node["InstanceId"] for node in nodes(client, cluster, query)}


def end(client: Client, cluster: str, node_id: str) -> None:
    made = client.post(f"/clusters/{cluster}/nodes/terminate", {"ids": [node_id]}).json()
    assert finished(client, made["operationId"])["state"] == "Succeeded"
