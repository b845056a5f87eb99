"""EC2 through a proxy that knows its protocol: refusals, throttling and broken answers as on the wire.

The launch function alone is sent through it, for the time of this module.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.emulator.client import Client
from tests.emulator.processes import HOST, Child, free_port
from tests.integration.story import create, finished, new_cluster, nodes
from tests.integration.test_capacity import buckets
from tests.integration.test_story import alive, bucket_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.emulator.stack import Stack

FIRST, SECOND = "r6i-large", "r6i-xlarge"


@pytest.fixture(scope="module")
def proxy(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of the proxy's own control interface, while launches go through it."""
    port = free_port()
    arguments = [sys.executable, "-m", "microburst", "--upstream", stack.ec2_endpoint, "--port", str(port)]
    log = tmp_path_factory.mktemp("microburst") / "log"
    child = Child("microburst", arguments, dict(os.environ), log)
    functions = stack.aws("lambda")
    name = stack._function_arns()["Launch"]
    variables = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    through = {**variables, "AWS_ENDPOINT_URL_EC2": f"http://{HOST}:{port}"}
    try:
        child.wait_until_listening(port)
        # At its first call it reads EC2's model, for longer than the launch function would wait.
        stack.aws("ec2", f"http://{HOST}:{port}").describe_placement_groups()
        functions.update_function_configuration(FunctionName=name, Environment={"Variables": through})
        yield Client(f"http://{HOST}:{port}/_microburst", None)
    finally:
        functions.update_function_configuration(FunctionName=name, Environment={"Variables": variables})
        child.stop(signal.SIGTERM, timeout_seconds=5)


def on_launch(machine_type: str, **fault: Any) -> dict[str, Any]:
    """A rule about launches of that machine type."""
    key, name = "LaunchTemplateConfigs.1.Overrides.1.InstanceType", machine_type.replace("-", ".", 1)
    return {"service": "ec2", "operation": "CreateFleet", "body": f"\"{key}\" == '{name}'", **fault}


def test_a_subnet_then_a_type_without_capacity_then_throttling_then_a_lost_answer(
    client: Client, stack: Stack, proxy: Client
) -> None:
    cluster = new_cluster(client, bucket_of(FIRST), bucket_of(SECOND))
    stack.ec2_control(
        "capacity", remaining=0, instance_type=SECOND.replace("-", "."), subnet_id="subnet-00000001"
    )
    rules = [
        on_launch(FIRST, error={"code": "InsufficientInstanceCapacity"}),
        on_launch(SECOND, error={"code": "RequestLimitExceeded"}, times=4),
        on_launch(SECOND, response={"abort_frac": 0.3}, times=1),
    ]
    assert proxy.post("/rules", rules).status == 200
    operation = finished(client, create(client, cluster, 3).json()["operationId"])
    assert operation["state"] == "Succeeded"
    assert operation["progress"] == {"total": 3, "succeeded": 3, "failed": 0, "running": 0}
    fired = Counter(one["rule_id"] for one in proxy.get("/fired").json())
    assert sorted(fired.values()) == [1, 1, 4]
    assert [node["MachineType"] for node in nodes(client, cluster)] == [SECOND] * 3
    found = buckets(client, cluster)
    assert [found[one]["activeCount"] for one in (FIRST, SECOND)] == [0, 3]
    assert found[FIRST]["lastCapacityFailure"] >= 0 > found[SECOND]["lastCapacityFailure"]
    assert alive(stack, cluster) == 3


def test_where_every_type_is_refused_the_operation_fails_and_the_counters_return(
    client: Client, stack: Stack, proxy: Client
) -> None:
    cluster = new_cluster(client, bucket_of(FIRST), bucket_of(SECOND), maxCount=3)
    refused = {"service": "ec2", "operation": "CreateFleet", "error": {"code": "VcpuLimitExceeded"}}
    assert proxy.post("/rules", [refused]).status == 200
    try:
        operation = finished(client, create(client, cluster, 3).json()["operationId"])
    finally:
        proxy.delete("/rules")
    assert operation["state"] == "Failed"
    assert "VcpuLimitExceeded" in operation["error"]
    assert [one["activeCount"] for one in buckets(client, cluster).values()] == [0, 0]
    assert buckets(client, cluster)[FIRST]["availableCount"] == 3
    assert alive(stack, cluster) == 0
