"""What creating nodes, and virtual clusters, costs in calls: prints the tables of docs/performance.md.

The use cases and the workflow's tasks run as they are, through the real adapters, over a DynamoDB and an EC2
in memory that count. Time is the test's own, so each run gives the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from paddock.adapters.dynamodb.repository import DynamoDbRepository
from paddock.model.operation import OperationState
from paddock.workflow.outcome import Next
from tests.fakes.compute import FakeCompute
from tests.fakes.dynamodb import FakeDynamoDb
from tests.fakes.world import CLUSTER, UNLIMITED, World, nodearray

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from paddock.model.identity import OperationId

COUNTS = (1, 100, 1_000, 5_000)
READS = ("GetItem", "Query", "BatchGetItem")
LAUNCHES = ("CreateFleet", "DescribeInstances")
COLUMNS = ("nodes", "tasks", *READS, "TransactWriteItems (items)", "read units", "write units", *LAUNCHES)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one create did: calls and items by operation, capacity units, the workflow's tasks by name.

    ``request_calls`` are those that the client waits for. ``node_bytes`` are the sizes of the nodes' items.
    """

    nodes: int
    calls: Counter[str]
    items: Counter[str]
    request_calls: Counter[str]
    read_units: int
    write_units: int
    ec2_calls: Counter[str]
    tasks: dict[str, int]
    node_bytes: list[int]


@cache
def measure(count: int) -> Cost:
    """Create so many nodes of one bucket by one request, and run its workflow until all are Ready."""
    world, store = World(), FakeDynamoDb()
    ports: Any = (
        DynamoDbRepository(_any(store), "table"),
        FakeCompute(world.ec2, "table"),
    )
    world.repository, world.compute = ports
    world.put({"nodearrays": [nodearray()]})
    _reset(store)
    world.ec2.calls.clear()
    operation, [added] = world.create(count, request_id="463270ca-abcd-1234-98d6-431ee3ef8ed5")
    assert added.count == count
    request_calls = store.calls.copy()
    tasks = _drive(world, operation.id)
    calls, items = store.calls.copy(), store.items.copy()
    read_units, write_units = store.read_units, store.write_units
    assert world.operation(operation.id).state is OperationState.SUCCEEDED
    return Cost(
        nodes=count,
        calls=calls,
        items=items,
        request_calls=request_calls,
        read_units=read_units,
        write_units=write_units,
        ec2_calls=world.ec2.calls,
        tasks=tasks,
        node_bytes=store.bytes_of(f"CLUSTER#{CLUSTER}", "NODE#"),
    )


def table() -> str:
    """The costs as a table in Markdown."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|" + "---:|" * len(COLUMNS)]
    for count in COUNTS:
        cost = measure(count)
        writes = f"{cost.calls['TransactWriteItems']:,} ({cost.items['TransactWriteItems']:,})"
        cells = [
            f"{count:,}",
            str(sum(cost.tasks.values())),
            *(f"{cost.calls[operation]:,}" for operation in READS),
            writes,
            f"{cost.read_units:,}",
            f"{cost.write_units:,}",
            *(f"{cost.ec2_calls[operation]:,}" for operation in LAUNCHES),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


VIRTUAL_CLUSTER_COUNTS = (100, 1_000, 5_000)


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """What one request about a virtual cluster did. ``record_bytes`` is the size of its own item after it."""

    calls: Counter[str]
    items: Counter[str]
    read_units: int
    write_units: int
    record_bytes: int


@cache
def measure_virtual_cluster(count: int) -> dict[str, StepCost]:
    """Create, read, grow, shrink and delete a virtual cluster of so many nodes, of a pool with ten more."""
    world, store = World(), FakeDynamoDb()
    world.repository = _any(DynamoDbRepository(_any(store), "table"))
    world.rates = UNLIMITED
    world.put({"nodearrays": [nodearray()]})
    world.ready(count + 10)
    name = "virtual_cluster_1"

    def revision() -> int:
        return world.held(name).revision

    steps: dict[str, Callable[[int], object]] = {
        "create": lambda _: world.want(name, x4c8g=count),
        "read": lambda _: world.held(name),
        "grow by 10": lambda expected: world.want(name, expected, x4c8g=count + 10),
        "shrink by 10": lambda expected: world.want(name, expected, x4c8g=count),
        "delete": lambda expected: world.release(name, expected),
    }
    costs = {}
    for step, act in steps.items():
        expected = 0 if step == "create" else revision()
        _reset(store)
        act(expected)
        costs[step] = StepCost(
            calls=store.calls.copy(),
            items=store.items.copy(),
            read_units=store.read_units,
            write_units=store.write_units,
            record_bytes=store.bytes_of("VIRTUAL_CLUSTERS", name)[0],
        )
    return costs


def virtual_cluster_table() -> str:
    """The costs as a table in Markdown."""
    columns = ("nodes", "request", *READS, "TransactWriteItems (items)", "read units", "write units")
    lines = [f"| {' | '.join(columns)} |", "|---:|---|" + "---:|" * (len(columns) - 2)]
    for count in VIRTUAL_CLUSTER_COUNTS:
        for step, cost in measure_virtual_cluster(count).items():
            cells = [
                f"{count:,}",
                step,
                *(f"{cost.calls[operation]:,}" for operation in READS),
                f"{cost.calls['TransactWriteItems']:,} ({cost.items['TransactWriteItems']:,})",
                f"{cost.read_units:,}",
                f"{cost.write_units:,}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _drive(world: World, operation_id: OperationId) -> dict[str, int]:
    """Run the workflow to its end, as the state machine does; answers how often each task ran."""
    tasks: dict[str, int] = {}
    task, polls = "launch", 0
    while task != Next.DONE:
        tasks[task] = tasks.get(task, 0) + 1
        following, seconds = world.step(task, operation_id, polls)
        if following is Next.WAIT:
            world.clock.advance(seconds)
            polls += 1
        task = "poll" if following is Next.WAIT else following.value
    return tasks


def _reset(store: FakeDynamoDb) -> None:
    store.calls.clear()
    store.items.clear()
    store.read_units = store.write_units = 0


def _any(value: object) -> Any:
    return value


if __name__ == "__main__":
    print(table(), virtual_cluster_table(), sep="\n\n")  # noqa: T201 - that is what it is for
