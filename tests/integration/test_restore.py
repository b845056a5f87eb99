"""The table is lost and restored to an earlier time, as docs/restore.md says; the cloud went on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.adapters.dynamodb.items import from_item, to_item
from paddock.model.operation import Operation
from paddock.model.time import SECOND_NS
from paddock.reconcile.resume import REQUEST_GRACE_NS
from tests.integration.story import (
    create,
    eventually,
    finished,
    long_ago,
    new_cluster,
    nodes,
    only_bucket,
    ready_nodes,
)
from tests.integration.test_story import alive

if TYPE_CHECKING:
    from tests.emulator.client import Client
    from tests.emulator.stack import Stack


def copy(stack: Stack) -> str:
    """Restore the table as it is now beside itself; answers the copy's name."""
    table, store = stack.output("TableName"), stack.aws("dynamodb")
    store.restore_table_to_point_in_time(
        SourceTableName=table, TargetTableName=f"{table}-restored", UseLatestRestorableTime=True
    )
    store.get_waiter("table_exists").wait(TableName=f"{table}-restored")
    return f"{table}-restored"


def let_time_pass(stack: Stack, table: str) -> int:
    """Make the running operations of a table older than the time of grace of requests; tells how many."""
    store = stack.aws("dynamodb")
    pages = store.get_paginator("scan").paginate(
        TableName=table, FilterExpression="attribute_exists(running)"
    )
    found = [from_item(Operation, item) for page in pages for item in page["Items"]]
    for one in found:
        older = replace(one, start_time=one.start_time - REQUEST_GRACE_NS - SECOND_NS)
        store.put_item(TableName=table, Item=to_item(older))
    return len(found)


def put_in_place(stack: Stack, restored: str) -> None:
    """Replace the table by its copy, with the calls of docs/restore.md."""
    table, store = stack.output("TableName"), stack.aws("dynamodb")
    backup = store.create_backup(TableName=restored, BackupName=restored)["BackupDetails"]
    assert backup["BackupStatus"] == "AVAILABLE"
    store.update_table(TableName=table, DeletionProtectionEnabled=False)
    store.delete_table(TableName=table)
    store.get_waiter("table_not_exists").wait(TableName=table)
    store.restore_table_from_backup(
        TargetTableName=table,
        BackupArn=backup["BackupArn"],
        SSESpecificationOverride={"Enabled": True, "SSEType": "KMS"},
    )
    store.get_waiter("table_exists").wait(TableName=table)
    store.update_time_to_live(
        TableName=table, TimeToLiveSpecification={"Enabled": True, "AttributeName": "expiresAt"}
    )
    store.update_continuous_backups(
        TableName=table, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
    )
    store.update_table(TableName=table, DeletionProtectionEnabled=True)
    store.delete_table(TableName=restored)
    store.delete_backup(BackupArn=backup["BackupArn"])


def test_after_a_restore_what_ran_then_runs_to_its_end_and_launches_nothing_twice(
    client: Client, stack: Stack
) -> None:
    cluster = new_cluster(client, maxCount=6)
    kept, ended = ready_nodes(client, cluster, 2)
    # EC2 holds up what shall run at the time of the backup, by failing two tasks with each one's retries.
    stack.ec2_control("fail_next", operation="CreateFleet", code="RequestLimitExceeded", times=6)
    operation_id = create(client, cluster, 3, requestId="held-up").json()["operationId"]
    restored = copy(stack)
    assert let_time_pass(stack, restored) >= 1
    assert finished(client, operation_id)["state"] == "Succeeded"
    launched = instances(client, cluster, f"operation={operation_id}")
    end(client, cluster, ended["NodeId"])
    with long_ago(stack):
        ready_nodes(client, cluster, 1)
    assert alive(stack, cluster) == 5

    put_in_place(stack, restored)
    assert client.get(f"/operations/{operation_id}").json()["state"] == "Running"
    stack.invoke("Reconcile", {})
    assert finished(client, operation_id)["state"] == "Succeeded"

    # The launch was on record with its token, or is asked for with the same one: the same instances.
    assert instances(client, cluster, f"operation={operation_id}") == launched
    assert create(client, cluster, 1, requestId="held-up").status == 409
    # What was launched after the backup has no record now, and is ended.
    stack.invoke("Reconcile", {})
    eventually(lambda: alive(stack, cluster) == 4)
    # What ended after the backup is listed again, as Failed once it is noticed.
    eventually(lambda: only_bucket(client, cluster)["activeCount"] == 4)
    end(client, cluster, ended["NodeId"])
    assert {node["NodeId"] for node in nodes(client, cluster)} > {kept["NodeId"]}
    assert only_bucket(client, cluster)["activeCount"] == 4
    assert create(client, cluster, 9).json()["sets"][0]["added"] == 2


def instances(client: Client, cluster: str, query: str) -> dict[str, str]:
    return {node["Name"]: node["InstanceId"] for node in nodes(client, cluster, query)}


def end(client: Client, cluster: str, node_id: str) -> None:
    made = client.post(f"/clusters/{cluster}/nodes/terminate", {"ids": [node_id]}).json()
    assert finished(client, made["operationId"])["state"] == "Succeeded"
