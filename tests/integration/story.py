"""What the integration tests do again and again: make a cluster, wait for operations, meet at one moment."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from paddock.model.time import SECOND_NS
from paddock.reconcile.garbage_collection import ORPHAN_GRACE_NS
from tests.emulator.stack import STACK_NAME
from tests.emulator.template import ROOT
from tests.fakes.world import bucket, nodearray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.emulator.client import Client, Reply
    from tests.emulator.stack import Stack

PATIENCE_SECONDS = 120


SAMPLES = [
    json.loads(record["body"])
    for record in json.loads((ROOT / "events" / "instance_events.json").read_text())["Records"]
]
ENDED, INTERRUPTED = SAMPLES


def new_cluster(client: Client, *buckets: dict[str, Any], **changes: Any) -> str:
    """A cluster of its own for a test, with one node array ``ondemand``; answers its name."""
    name = f"cluster-{uuid4().hex[:12]}"
    reply = client.put(f"/clusters/{name}", {"nodearrays": [nodearray("ondemand", *buckets, **changes)]})
    assert reply.status == 201, reply.body
    return name


def create(client: Client, cluster: str, count: int, **request: Any) -> Reply:
    sets = [{"count": count, "nodearray": "ondemand"}]
    return client.post(f"/clusters/{cluster}/nodes/create", {"sets": sets, **request})


def finished(client: Client, operation_id: str, seconds: float = PATIENCE_SECONDS) -> dict[str, Any]:
    """The operation once it has ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        operation: dict[str, Any] = client.get(f"/operations/{operation_id}").json()
        if operation["state"] != "Running":
            return operation
    raise AssertionError(f"operation {operation_id} has not ended: {operation}")


def ready_nodes(client: Client, cluster: str, count: int) -> list[dict[str, Any]]:
    """New nodes of the cluster, once they are Ready."""
    made = create(client, cluster, count).json()
    assert finished(client, made["operationId"])["state"] == "Succeeded"
    found: list[dict[str, Any]] = nodes(client, cluster, f"operation={made['operationId']}")
    return found


def nodes(client: Client, cluster: str, query: str = "") -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = client.get(f"/clusters/{cluster}/nodes?{query}").json()["nodes"]
    return listed


def only_bucket(client: Client, cluster: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/clusters/{cluster}/status").json()["nodearrays"][0]["buckets"][0]
    return found


def together(count: int, call: Callable[[int], Reply]) -> list[Reply]:
    """The same call from so many threads at once, in their order."""
    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(call, range(count)))


def eventually(what: Callable[[], bool]) -> None:
    """Wait for something that comes about by itself."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not what():
        assert time.monotonic() < until
        time.sleep(0.1)


@contextmanager
def long_ago(stack: Stack) -> Iterator[None]:
    """What is launched meanwhile is old enough to be ended as an orphan."""
    stack.ec2_control("advance", seconds=-ORPHAN_GRACE_NS / SECOND_NS)
    try:
        yield
    finally:
        stack.ec2_control("advance", seconds=ORPHAN_GRACE_NS / SECOND_NS)


def physical_id(stack: Stack, logical_id: str) -> str:
    answer = stack.aws("cloudformation").describe_stack_resource(
        StackName=STACK_NAME, LogicalResourceId=logical_id
    )
    return str(answer["StackResourceDetail"]["PhysicalResourceId"])


def tell(stack: Stack, sample: dict[str, Any], instance_id: str) -> None:
    """Do what the rule does: nobody but EC2 can put its events on the bus."""
    event = {**sample, "detail": {**sample["detail"], "instance-id": instance_id}}
    queue = physical_id(stack, "InstanceEventsQueue")
    stack.aws("sqs").send_message(QueueUrl=queue, MessageBody=json.dumps(event))


__all__ = [
    "ENDED",
    "INTERRUPTED",
    "bucket",
    "create",
    "eventually",
    "finished",
    "new_cluster",
    "nodes",
    "only_bucket",
    "physical_id",
    "ready_nodes",
    "tell",
    "together",
]
