"""Crash before and after every call that leaves the process, then let time pass: nothing may be broken."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import pytest

from paddock.errors import DuplicateRequest, NotFound, PaddockError, RevisionConflict
from paddock.model.node import NodeStatus
from paddock.model.operation import Action, Operation, OperationState
from paddock.ports.repository import Put
from tests.fakes import invariants
from tests.fakes.compute import FakeCompute
from tests.fakes.repository import FakeRepository
from tests.fakes.workflows import FakeWorkflows
from tests.fakes.world import World, bucket, nodearray

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from paddock.ports.compute import Instance, LaunchRequest, LaunchResult
    from paddock.ports.repository import Write
    from tests.fakes.ec2 import FakeEc2

ROUNDS = 300
ROUND_SECONDS = 60
# After these a claim that nobody confirms is given back.
QUIET_ROUNDS = 2
LONG_SECONDS = 3 * 3600

Answer = TypeVar("Answer")


class Crash(BaseException):
    """The process is gone; nobody may catch it."""


class Outside:
    """Everything outside the process; at call number ``crash_at`` the process dies."""

    def __init__(self, crash_at: int = 0, *, done: bool = False, newest_first: bool = False) -> None:
        self.calls = 0
        self.newest_first = newest_first
        self._crash_at = crash_at
        self._done = done

    def call(self, act: Callable[[], Answer]) -> Answer:
        self.calls += 1
        if self.calls != self._crash_at:
            return act()
        if self._done:
            with suppress(PaddockError):
                act()
        raise Crash

    def surround(self, world: World) -> None:
        """Put all ports of a world there."""
        repository = _Repository(self)
        repository._records = world.repository._records
        world.repository = repository
        world.compute = _Compute(world.ec2, self)
        world.workflows = _Workflows(self)


class _Repository(FakeRepository):
    def __init__(self, outside: Outside) -> None:
        super().__init__()
        self._outside = outside

    def commit(self, *writes: Write) -> None:
        self._outside.call(lambda: super(_Repository, self).commit(*writes))

    def running_operations(self) -> Sequence[str]:
        """In an order that the port leaves open, and that a test has to choose."""
        running = [one for one in self._records.values() if isinstance(one, Operation) and one.is_running]
        running.sort(key=lambda one: one.start_time, reverse=self._outside.newest_first)
        return [one.id for one in running]


class _Compute(FakeCompute):
    def __init__(self, ec2: FakeEc2, outside: Outside) -> None:
        super().__init__(ec2)
        self._outside = outside

    def launch(self, request: LaunchRequest) -> LaunchResult:
        return self._outside.call(lambda: super(_Compute, self).launch(request))

    def describe(self, instance_ids: Collection[str]) -> Mapping[str, Instance]:
        return self._outside.call(lambda: super(_Compute, self).describe(instance_ids))

    def launched_by(self, cluster: str, operation_id: str) -> Sequence[Instance]:
        return self._outside.call(lambda: super(_Compute, self).launched_by(cluster, operation_id))

    def launched_in(self, cluster: str) -> Sequence[Instance]:
        return self._outside.call(lambda: super(_Compute, self).launched_in(cluster))

    def clusters(self) -> Collection[str]:
        return self._outside.call(lambda: super(_Compute, self).clusters())

    def _each(self, operation: str, instance_ids: Collection[str]) -> Mapping[str, str]:
        return self._outside.call(lambda: super(_Compute, self)._each(operation, instance_ids))

    def delete_placement_group(self, name: str) -> bool:
        return self._outside.call(lambda: super(_Compute, self).delete_placement_group(name))


class _Workflows(FakeWorkflows):
    def __init__(self, outside: Outside) -> None:
        super().__init__()
        self._outside = outside

    def start(self, operation: Operation) -> None:
        self._outside.call(lambda: super(_Workflows, self).start(operation))


# What happens after a crash.


def retried(world: World) -> None:
    """The state machine runs the task again."""
    world.drive_all()
    settle(world)


def lost(world: World) -> None:
    """No execution lives on; the reconciler runs each minute."""
    world.workflows.live.clear()
    settle(world)


def lost_for_long(world: World) -> None:
    """No execution lives on, and the reconciler comes only after every deadline has passed."""
    world.workflows.live.clear()
    world.clock.advance(LONG_SECONDS)
    settle(world)


def settle(world: World) -> None:
    """Let time pass until nothing is under way."""
    for number in range(ROUNDS):
        world.clock.advance(ROUND_SECONDS)
        world.reconcile()
        world.drive_all()
        if number >= QUIET_ROUNDS and not world.repository.running_operations():
            return


# What is crashed.


@dataclass(frozen=True)
class Scenario:
    """``act`` is one whole run. ``again`` is what a client does that got no answer, once all is quiet.

    ``expect`` is the outcome; where it is ``timely``, only if repair comes before the operation's deadline.
    """

    prepare: Callable[[], World]
    act: Callable[[World], None]
    again: Callable[[World], None]
    expect: Callable[[World], bool]
    timely: bool = False


def _ready(count: int, *, boot_seconds: float = 3) -> Callable[[], World]:
    def prepare() -> World:
        world = World(nodearray(maxCount=max(count, 3)))
        world.ec2.configure(boot_seconds=boot_seconds)
        if count:
            world.ready(count)
        return world

    return prepare


def _short_of_capacity() -> World:
    world = _ready(0)()
    world.ec2.capacity(2)
    return world


def _short_of_two_buckets() -> World:
    """The first bucket has capacity for one of three nodes, the second for another."""
    types = ("c7i-large", "c7i-xlarge", "c7i-2xlarge")
    world = World(nodearray("ondemand", *map(bucket, types), maxCount=3))
    world.ec2.capacity(1, instance_type="c7i.large")
    world.ec2.capacity(1, instance_type="c7i.xlarge")
    return world


def _throttled_once() -> World:
    """The first launch is throttled after one instance, as its answer says."""
    world = _ready(0)()
    world.ec2.capacity(1, code="RequestLimitExceeded")
    return world


def _placed() -> World:
    world = World(nodearray(maxCount=3))
    world.ready(3, placementGroupId="ring")
    return world


def _claimed() -> World:
    world = _ready(4)()
    world.claim("a", x4c8g=3)
    return world


def _create(world: World) -> None:
    with suppress(DuplicateRequest):
        world.create(3, request_id="r")
    world.drive_all()


def _create_throttled(world: World) -> None:
    """Throttling has passed when the nodes are asked for again, whoever does."""
    try:
        with suppress(DuplicateRequest):
            operation, _ = world.create(3, request_id="r")
            world.step("launch", operation.id)
    finally:
        world.ec2.capacity(None)
    world.drive_all()


def _create_unheard(world: World) -> None:
    """The workflow service is away when the request comes."""
    world.workflows.unavailable = True
    try:
        _create(world)
    finally:
        world.workflows.unavailable = False
    world.clock.advance(120)
    world.reconcile()
    world.drive_all()


def _create_and_terminate(world: World) -> None:
    with suppress(DuplicateRequest):
        world.create(3, request_id="r")
    _terminate(world)


def _terminate(world: World) -> None:
    world.terminate(names=["ondemand-1", "ondemand-2", "ondemand-3"])
    world.drive_all()


def _claim(world: World) -> None:
    with suppress(RevisionConflict):
        world.claim("a", x4c8g=3)
    stored = world.repository.virtual_cluster("a")
    assert stored is not None
    shrunk = world.claim("a", stored.revision, x4c8g=1)
    world.claim("a", shrunk.revision, x4c8g=4)


def _release(world: World) -> None:
    with suppress(NotFound):
        world.release("a")


def _release_and_end(world: World) -> None:
    with suppress(NotFound):
        world.release("a", terminate=True)
    world.drive_all()


def _manage(action: Action) -> Callable[[World], None]:
    def run(world: World) -> None:
        names = ["ondemand-1", "ondemand-2", "ondemand-3"]
        _, results = world.manage(action, names=names)
        world.drive_all()
        assert all("must be" in result.error for result in results if result.error)

    return run


def _deallocated() -> World:
    world = _ready(3)()
    _manage(Action.DEALLOCATE)(world)
    return world


def _off() -> World:
    world = _ready(0)()
    operation, _ = world.create(3, nodeAttributes={"StartAutomatically": False})
    world.drive(operation)
    return world


def _reconcile(world: World) -> None:
    world.reconcile()


def _changed_by_hand() -> World:
    """One instance was ended, one was stopped, and one runs on."""
    world = _ready(3)()
    world.clock.advance(ROUND_SECONDS)
    ended, stopped, _ = (node.instance_id for node in world.nodes())
    world.ec2.end(ended)
    world.ec2.call("StopInstances", {"InstanceIds": [stopped]})
    world.clock.advance(ROUND_SECONDS)
    return world


def _out_of_sight() -> World:
    """An instance that was missed long ago for the first time, and is missed again."""
    world = _ready(2)()
    world.ec2.lose(world.nodes()[0].instance_id)
    world.reconcile()
    world.clock.advance(LONG_SECONDS)
    return world


def _back_in_sight() -> World:
    """Instances that come back after their nodes were given up."""
    world = _ready(2)()
    there = world.ec2.snapshot()
    for node in world.nodes():
        world.ec2.lose(node.instance_id)
    world.reconcile()
    world.clock.advance(LONG_SECONDS)
    world.reconcile()
    world.ec2.restore(there)
    return world


def _miscounted() -> World:
    world = _ready(3)()
    ledger = world.repository.ledger("demo")
    assert ledger is not None
    wrong = replace(ledger, buckets={}, names={}, revision=ledger.revision + 1)
    world.repository.commit(Put(wrong, was=ledger))
    world.clock.advance(LONG_SECONDS)
    return world


def _would_not_end() -> World:
    """A node whose termination failed, since its instance was protected; which has ended by now."""
    world = _ready(1)()
    [node] = world.nodes()
    world.ec2.protect(node.instance_id)
    operation, _ = world.terminate(ids=[node.id])
    world.drive(operation)
    world.ec2.end(node.instance_id)
    world.clock.advance(ROUND_SECONDS)
    return world


def _hear(world: World) -> None:
    world.hear(*(node.instance_id for node in world.nodes()))


def _interrupt(world: World) -> None:
    """Instances 1 and 2 will be interrupted; their nodes are gone where it was heard before."""
    ids = [node.instance_id for node in world.nodes() if node.name != "ondemand-3"]
    world.hear(interrupted=ids)
    world.drive_all()


def _statuses(world: World) -> list[str]:
    return sorted(node.status.value for node in world.nodes())


def _machines(world: World) -> list[str]:
    """The machine types of nodes that are Ready, in the order of the nodes."""
    return [node.spec.machine_type for node in world.nodes() if node.status is READY]


def _free(world: World) -> int:
    return sum(not node.virtual_cluster for node in world.nodes())


FAILED, READY = NodeStatus.FAILED, NodeStatus.READY
BY_HAND = sorted([NodeStatus.DEALLOCATED, FAILED, READY])
SCENARIOS = {
    "create": Scenario(
        _short_of_capacity,
        _create,
        _create,
        lambda world: _statuses(world) == [FAILED, READY, READY],
        timely=True,
    ),
    "create, moves to next bucket": Scenario(
        _short_of_two_buckets,
        _create,
        _create,
        lambda world: _machines(world) == ["c7i-large", "c7i-xlarge", "c7i-2xlarge"],
        timely=True,
    ),
    "create, throttled": Scenario(
        _throttled_once,
        _create_throttled,
        _create_throttled,
        lambda world: _statuses(world) == [READY] * 3,
        timely=True,
    ),
    "terminate, the last of a placement group": Scenario(
        _placed, _terminate, _terminate, lambda world: not world.ec2.snapshot()["groups"]
    ),
    "create, resumed": Scenario(
        _ready(0), _create_unheard, _create, lambda world: _statuses(world) == [READY] * 3, timely=True
    ),
    "create, never ready": Scenario(
        _ready(0, boot_seconds=1e9),
        _create,
        _create,
        lambda world: not world.alive() and _create_failed(world),
    ),
    "create and terminate": Scenario(
        _ready(0), _create_and_terminate, _create_and_terminate, lambda world: not world.alive()
    ),
    "terminate": Scenario(_ready(3), _terminate, _terminate, lambda world: not world.alive()),
    "deallocate": Scenario(
        _ready(3),
        _manage(Action.DEALLOCATE),
        _manage(Action.DEALLOCATE),
        lambda world: not world.alive() and len(world.existing()) == 3,
    ),
    "start what is stopped": Scenario(
        _deallocated,
        _manage(Action.START),
        _manage(Action.START),
        lambda world: _statuses(world) == [READY] * 3,
        timely=True,
    ),
    "start what is off": Scenario(
        _off,
        _manage(Action.START),
        _manage(Action.START),
        lambda world: _statuses(world) == [READY] * 3 and len(world.alive()) == 3,
        timely=True,
    ),
    "reimage": Scenario(
        _ready(3),
        _manage(Action.REIMAGE),
        lambda _: None,
        lambda world: _statuses(world) == [READY] * 3 and len(world.alive()) == 3,
        timely=True,
    ),
    "write virtual cluster": Scenario(_ready(4), _claim, _claim, lambda world: _free(world) == 0),
    "delete virtual cluster": Scenario(_claimed, _release, _release, lambda world: _free(world) == 4),
    "delete virtual cluster and its nodes": Scenario(
        _claimed,
        _release_and_end,
        _release_and_end,
        lambda world: len(world.alive()) == _free(world) == 1,
    ),
    "observe": Scenario(
        _changed_by_hand, _reconcile, _reconcile, lambda world: _statuses(world) == BY_HAND, timely=True
    ),
    "observe, not seen": Scenario(
        _out_of_sight, _reconcile, _reconcile, lambda world: _statuses(world) == [FAILED, READY]
    ),
    "observe, ended at last": Scenario(
        _would_not_end, _reconcile, _reconcile, lambda world: not world.nodes(), timely=True
    ),
    "orphans": Scenario(_back_in_sight, _reconcile, _reconcile, lambda world: not world.existing()),
    "counters": Scenario(_miscounted, _reconcile, _reconcile, lambda world: len(world.alive()) == 3),
    "hear of ended instances": Scenario(
        _changed_by_hand, _hear, _hear, lambda world: _statuses(world) == BY_HAND, timely=True
    ),
    "hear of interruptions": Scenario(
        _ready(3), _interrupt, _interrupt, lambda world: len(world.alive()) == len(world.nodes()) == 1
    ),
}
EACH = pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)


def _create_failed(world: World) -> bool:
    creates = [one for one in invariants.operations(world) if one.action is Action.CREATE]
    return all(one.state is OperationState.FAILED for one in creates)


@EACH
@pytest.mark.parametrize("after", [retried, lost])
def test_after_a_crash_anywhere_everything_comes_out_right(
    scenario: Scenario, after: Callable[[World], None]
) -> None:
    assert "\n".join(_failures(scenario, after, expecting=True)) == ""


def test_it_does_not_matter_which_operation_is_brought_back_first() -> None:
    scenario = SCENARIOS["create and terminate"]
    assert "\n".join(_failures(scenario, lost, expecting=True, newest_first=True)) == ""


@EACH
def test_after_a_crash_anywhere_and_hours_without_repair_nothing_is_broken(scenario: Scenario) -> None:
    assert "\n".join(_failures(scenario, lost_for_long, expecting=not scenario.timely)) == ""


def _failures(
    scenario: Scenario, after: Callable[[World], None], *, expecting: bool, newest_first: bool = False
) -> Iterator[str]:
    """Where the process died, and what is wrong in the end; for each place where something is."""
    outside = Outside()
    world = scenario.prepare()
    outside.surround(world)
    scenario.act(world)
    assert outside.calls
    for number in range(1, outside.calls + 1):
        for done in (False, True):
            world = scenario.prepare()
            Outside(number, done=done, newest_first=newest_first).surround(world)
            with pytest.raises(Crash):
                scenario.act(world)
            found = invariants.always(world)
            after(world)
            found += invariants.at_rest(world)
            scenario.again(world)
            settle(world)
            found += invariants.at_rest(world)
            if expecting and not scenario.expect(world):
                found.append(f"there are nodes {_statuses(world)}, and {len(world.alive())} instances")
            if found:
                where = f"{'after' if done else 'before'} call {number} of {outside.calls}"
                yield f"{where}: {'; '.join(dict.fromkeys(found))}"
