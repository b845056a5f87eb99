"""What is left of a stack after a storm: the reconciler with time ahead, and every record and instance."""

from __future__ import annotations

import time
from dataclasses import astuple
from typing import TYPE_CHECKING

from paddock.adapters.dynamodb.keys import key_of
from paddock.adapters.dynamodb.repository import DynamoDbRepository
from paddock.adapters.ec2 import Ec2Compute
from paddock.adapters.step_functions import StepFunctionsWorkflows
from paddock.model.time import SECOND_NS
from paddock.reconcile.enqueue import enqueue
from paddock.reconcile.run import Report, reconcile
from paddock.store.store import Store
from tests.emulator.client import Client
from tests.fakes import invariants
from tests.fakes.stored import record_of
from tests.fakes.work_queue import FakeWorkQueue, in_sum
from tests.fakes.world import World
from tests.integration.story import PATIENCE_SECONDS

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from tests.emulator.stack import Stack

# Past every time of grace of the reconciler, and before the deadline of any operation.
AHEAD_NS = 20 * 60 * SECOND_NS


class ClockAhead:
    """The real time and twenty minutes, so that what has been left alone for a while is seen to."""

    def __init__(self) -> None:
        self._last = 0

    def now(self) -> int:
        self._last = max(time.time_ns() + AHEAD_NS, self._last + 1)
        return self._last

    def pause(self, attempt: int) -> None:
        time.sleep(0.01 * attempt)


def reconcile_ahead(stack: Stack) -> Report:
    """One run of the reconciler, in this process, with time ahead; its work items added up."""
    table = stack.output("TableName")
    repository = DynamoDbRepository(stack.aws("dynamodb"), table)
    compute = Ec2Compute(stack.aws("ec2"), table)
    workflows = StepFunctionsWorkflows(stack.aws("stepfunctions"), stack.output("StateMachineArn"))
    store, queue = Store(repository, ClockAhead()), FakeWorkQueue()
    enqueue(repository, compute, queue)
    return in_sum(reconcile(store, compute, workflows, item) for item in queue.take())


def settle(stack: Stack) -> Report:
    """Reconcile until no operation runs and there is nothing to do; answers all that was done."""
    total = Report()
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        done = reconcile_ahead(stack)
        total = in_sum([total, done])
        if not any(astuple(done)):
            return total
        time.sleep(0.5)
        assert time.monotonic() < until, f"there is always something to do: {done}"


def photograph(stack: Stack) -> World:
    """Every record of the stack's table and every instance, in a world that the invariants can judge."""
    return world_of(stack.aws("dynamodb"), stack.output("TableName"), stack.ec2_endpoint)


def world_of(dynamodb: DynamoDBClient, table: str, ec2_endpoint: str) -> World:
    """Every record of a table and every instance, in a world that the invariants can judge."""
    world = World()
    pages = dynamodb.get_paginator("scan").paginate(TableName=table)
    records = [record_of(item) for page in pages for item in page["Items"]]
    world.repository._records = {key_of(record): record for record in records}
    world.ec2.restore(Client(ec2_endpoint, None).get("/_fake/state").json()["state"])
    return world


def broken(stack: Stack) -> list[str]:
    """What is not as it must be once nothing is under way, in words."""
    return invariants.at_rest(photograph(stack))
