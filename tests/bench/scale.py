"""Thousands of nodes in an account with AWS's default limits: prints the table of docs/performance.md.

The use cases, the workflow's tasks and the reconciler run as they are, through the real adapters, over an EC2
with its token buckets and a DynamoDB with a partition's limits. Time is the test's own: calls take none, and
waits, pauses and boots do. So each run gives the same numbers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from paddock.adapters.dynamodb.backoff import Backoff
from paddock.adapters.dynamodb.repository import DynamoDbRepository
from paddock.model.operation import ENDING, Action
from paddock.model.pace import DEFAULT_RATES, Rate
from paddock.model.time import SECOND_NS
from paddock.workflow.outcome import Next
from tests.emulator.template import load_template
from tests.fakes.clock import PassingClock
from tests.fakes.compute import FakeCompute
from tests.fakes.dynamodb import FakeDynamoDb
from tests.fakes.world import World, nodearray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paddock.model.identity import OperationId
    from paddock.model.operation import Operation

NODES = 10_000
TABLE = "table"
BOOT_SECONDS = 60.0
RECONCILE_SECONDS = 60.0
# What a state machine writes into its history: Route, and a task, entered, scheduled, started, done and left.
EVENTS_OF_A_TASK = 2 + 5
EVENTS_OF_A_WAIT = 2 + 2
TIMEOUTS = {
    name.lower(): float(resource["Properties"]["Timeout"])
    for name, resource in load_template()["Resources"].items()
    if name in ("Launch", "Poll", "Terminate", "Finish", "ReconcileWorkItem")
}
API_SECONDS = float(load_template()["Globals"]["Function"]["Timeout"])
COLUMNS = (
    *("what", "minutes", "tasks", "history", "EC2 calls", "throttled by EC2"),
    *("DynamoDB calls", "throttled by DynamoDB", "failed nodes"),
)


@dataclass
class Run:
    """What came of a request. ``events`` are those in the history of its workflow's executions."""

    operations: list[Operation] = field(default_factory=list)
    seconds: float = 0.0
    tasks: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    ec2_calls: Counter[str] = field(default_factory=Counter)
    ec2_throttled: Counter[str] = field(default_factory=Counter)
    store_calls: Counter[str] = field(default_factory=Counter)
    store_throttled: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def failed(self) -> int:
        return sum(operation.failed for operation in self.operations)


class Account:
    """A world in an account with AWS's default limits, or with a part of them, for fewer nodes."""

    def __init__(self, part: float = 1, *, reconciles: bool = True) -> None:
        self.clock = PassingClock()
        self._until = 0.0
        self._reconciles = reconciles
        self.store = FakeDynamoDb()
        self.world = World(clock=self.clock)
        self.world.ec2.configure(boot_seconds=BOOT_SECONDS, terminate_seconds=BOOT_SECONDS)
        backoff = Backoff(self.clock, lambda: self._until - self.clock.seconds())
        self.world.repository = cast("Any", DynamoDbRepository(cast("Any", self.store), TABLE, backoff))
        self.world.compute = FakeCompute(self.world.ec2, TABLE)
        self.world.put({"nodearrays": [nodearray()], "idleTimeoutSeconds": 0})
        self.world.rates = {
            bucket: Rate(round(rate.burst * part), rate.per_second * part)
            for bucket, rate in DEFAULT_RATES.items()
        }
        self.world.ec2.rates(
            {bucket.value: (rate.burst, rate.per_second) for bucket, rate in self.world.rates.items()}
        )
        self.store.limit(self.clock.seconds, part)

    def ask(self, *requests: Callable[[World], object]) -> Run:
        """Make requests at once, and run all workflows that follow until none is live."""
        world, run = self.world, Run()
        # No earlier call counts.
        for counter in (world.ec2.calls, world.ec2.throttled, self.store.calls, self.store.throttled):
            counter.clear()
        for request in requests:
            self._invoke(API_SECONDS)
            request(world)
        self._run(run)
        run.seconds = max(
            ((one.finish_time - one.start_time) / SECOND_NS for one in run.operations), default=0.0
        )
        run.ec2_calls, run.ec2_throttled = world.ec2.calls.copy(), world.ec2.throttled.copy()
        run.store_calls, run.store_throttled = self.store.calls.copy(), self.store.throttled.copy()
        return run

    def _run(self, run: Run) -> None:
        order = count()
        due: list[tuple[float, int, OperationId, str, int]] = []
        known: set[str] = set()
        next_reconciliation = self.clock.seconds() + RECONCILE_SECONDS
        while True:
            for identity, operation in self.world.workflows.live.items():
                if identity not in known:
                    known.add(identity)
                    first = "terminate" if operation.action in ENDING | {Action.REIMAGE} else "launch"
                    heappush(due, (self.clock.seconds(), next(order), identity, first, 0))
            if not due:
                break
            at, _, identity, task, polls = heappop(due)
            if self._reconciles and at >= next_reconciliation:
                self._wait_until(next_reconciliation)
                next_reconciliation += RECONCILE_SECONDS
                self._invoke(TIMEOUTS["reconcileworkitem"])
                report = self.world.reconcile()
                run.failures += ["reconciler"] * report.failed
                heappush(due, (at, next(order), identity, task, polls))
                continue
            self._wait_until(at)
            self._invoke(TIMEOUTS[task])
            run.tasks[task] += 1
            run.events[identity] += EVENTS_OF_A_TASK
            following, seconds = self.world.task(task, identity, polls)
            if following is Next.DONE:
                self.world.workflows.live.pop(identity, None)
                run.operations.append(self.world.operation(identity))
                continue
            waits = following is Next.WAIT
            run.events[identity] += EVENTS_OF_A_WAIT if waits else 0
            then = self.clock.seconds() + (seconds if waits else 0)
            heappush(due, (then, next(order), identity, "poll" if waits else following.value, polls + waits))

    def _invoke(self, seconds: float) -> None:
        self._until = self.clock.seconds() + seconds

    def _wait_until(self, at: float) -> None:
        self.clock.advance(max(0.0, at - self.clock.seconds()))


def row(what: str, run: Run) -> str:
    """A run as a row of the table."""
    ec2 = ", ".join(f"{number:,} {call}" for call, number in sorted(run.ec2_calls.items()))
    store = ", ".join(f"{number:,} {call}" for call, number in sorted(run.store_calls.items()))
    cells = [
        what,
        f"{run.seconds / 60:.0f}",
        f"{sum(run.tasks.values()):,}",
        f"{max(run.events.values(), default=0):,} events",
        ec2,
        f"{sum(run.ec2_throttled.values()):,}",
        store,
        f"{sum(run.store_throttled.values()):,}",
        f"{run.failed:,}",
    ]
    return f"| {' | '.join(cells)} |"


def rows(nodes: int = NODES, part: float = 1) -> Iterator[str]:
    """Make so many nodes, end them; make a virtual cluster of as many; make them by ten requests at once."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---|" + "---:|" * (len(COLUMNS) - 1)
    account, tenth = Account(part), nodes // 10
    yield row(f"create {nodes:,}", account.ask(lambda world: world.create(nodes)))
    ids = [node.id for node in account.world.nodes()]
    yield row(f"terminate {nodes:,}", account.ask(lambda world: world.terminate(ids=ids)))
    account = Account(part)
    yield row(f"virtual cluster of {nodes:,}", account.ask(lambda world: world.want("vc", x4c8g=nodes)))
    account = Account(part)
    at_once = [lambda world: world.create(tenth)] * 10
    yield row(f"10 creates of {tenth:,} at once", account.ask(*at_once))


if __name__ == "__main__":
    for line in rows():
        print(line, flush=True)  # noqa: T201 - that is what it is for
