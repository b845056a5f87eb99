"""A cloud that has too little, over HTTP: where nodes go, what is said of it, and that nothing is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.integration.story import create, eventually, finished, new_cluster, nodes
from tests.integration.test_story import alive, bucket_of

if TYPE_CHECKING:
    from tests.emulator.client import Client
    from tests.emulator.stack import Stack

# Machine types of this module's own, for the simulator is shared with other tests.
FIRST, SECOND = "m6i-large", "m6i-xlarge"


def buckets(client: Client, cluster: str) -> dict[str, dict[str, Any]]:
    """The buckets of the cluster's only node array, by machine type."""
    [array] = client.get(f"/clusters/{cluster}/status").json()["nodearrays"]
    return {one["definition"]["machineType"]: one for one in array["buckets"]}


def test_nodes_go_to_the_next_bucket_where_one_has_no_capacity(client: Client, stack: Stack) -> None:
    cluster = new_cluster(client, bucket_of(FIRST), bucket_of(SECOND), throttleCapacity=True)
    stack.ec2_control("capacity", remaining=2, instance_type=FIRST.replace("-", "."))
    try:
        made = create(client, cluster, 5).json()
        assert made["sets"] == [{"added": 5}]
        operation = finished(client, made["operationId"])
    finally:
        stack.ec2_control("capacity", remaining=None, instance_type=FIRST.replace("-", "."))
    assert operation["state"] == "Succeeded"
    assert operation["progress"] == {"total": 5, "succeeded": 5, "failed": 0, "running": 0}
    assert [node["MachineType"] for node in nodes(client, cluster)] == [FIRST] * 2 + [SECOND] * 3
    found = buckets(client, cluster)
    assert [found[one]["activeCount"] for one in (FIRST, SECOND)] == [2, 3]
    assert found[FIRST]["lastCapacityFailure"] >= 0
    assert found[FIRST]["availableCount"] == 0
    assert found[SECOND]["lastCapacityFailure"] < 0
    assert found[SECOND]["availableCount"] > 0
    assert alive(stack, cluster) == 5


def test_a_placement_group_ends_with_its_last_node(client: Client, stack: Stack) -> None:
    cluster = new_cluster(client, bucket_of(FIRST))
    group = f"{stack.output('TableName')}/{cluster}/ondemand/ring"
    sets = [{"count": 2, "nodearray": "ondemand", "placementGroupId": "ring"}]
    made = client.post(f"/clusters/{cluster}/nodes/create", {"sets": sets}).json()
    assert finished(client, made["operationId"])["state"] == "Succeeded"
    assert group in groups(stack)
    names = [node["Name"] for node in nodes(client, cluster)]
    ended = client.post(f"/clusters/{cluster}/nodes/terminate", {"names": names}).json()
    assert finished(client, ended["operationId"])["state"] == "Succeeded"
    # An operation ends before its last task has deleted the groups: they must not keep it from its end.
    eventually(lambda: group not in groups(stack))


def groups(stack: Stack) -> set[str]:
    return {one["GroupName"] for one in stack.aws("ec2").describe_placement_groups()["PlacementGroups"]}
