"""The account's quotas over HTTP: the schedule asks for them, and they hold creates and show in a status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.integration.story import bucket, create, new_cluster, only_bucket

if TYPE_CHECKING:
    from tests.emulator.client import Client
    from tests.emulator.stack import Stack


def test_a_quota_of_the_account_holds_what_the_definition_leaves_open(client: Client, stack: Stack) -> None:
    cluster = new_cluster(client, bucket("dl2q-24xlarge", vcpuCount=96))
    stack.invoke("Reconcile", {})
    found = only_bucket(client, cluster)
    assert (found["maxCount"], found["availableCount"]) == (2, 2)
    assert (found["familyQuotaCoreCount"], found["familyConsumedCoreCount"]) == (192, 0)
    assert create(client, cluster, 3).json()["sets"][0]["added"] == 2
    found = only_bucket(client, cluster)
    assert (found["maxCount"], found["availableCount"], found["familyConsumedCoreCount"]) == (2, 0, 192)
