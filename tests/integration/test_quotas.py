"""The account's quotas over HTTP: the schedule asks for them, and they hold creates and show in a status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.emulator import break_it
from tests.emulator.running import Running
from tests.integration.story import bucket, create, new_cluster, only_bucket

if TYPE_CHECKING:
    import pytest

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


def test_a_quota_of_make_break_holds_from_the_next_run_of_the_reconciler_on(
    client: Client, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = new_cluster(client, bucket("trn1-2xlarge", vcpuCount=8))
    stack.invoke("Reconcile", {})
    assert only_bucket(client, cluster)["availableCount"] > 2
    monkeypatch.setattr(break_it, "find", lambda: Running(stack.endpoint, stack.ec2_endpoint))
    for name, value in {"WHAT": "quota", "CODE": "L-2C3B7624", "VCPU": "16"}.items():
        monkeypatch.setenv(name, value)
    assert break_it.main() == 0
    stack.invoke("Reconcile", {})
    assert only_bucket(client, cluster)["availableCount"] == 2
