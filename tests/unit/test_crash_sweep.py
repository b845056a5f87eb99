"""Crash before and after every call that leaves the process, then let time pass: nothing may be broken.

Or let a call be throttled. In how many places this was tried is told at the end of the run.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from paddock.clusters.write import delete_cluster
from paddock.errors import (
    ComputeThrottled,
    DuplicateRequest,
    NotFound,
    PaddockError,
    RevisionConflict,
    StoreThrottled,
    WorkflowsUnavailable,
)
from paddock.model.identity import ClusterName, VirtualClusterId
from paddock.model.node import NodeStatus
from paddock.model.node_lifecycle import claimed_for
from paddock.model.operation import DEADLINE_NS, Action, Operation, OperationState
from paddock.model.time import SECOND_NS
from paddock.nodes.manage import retry_failed
from paddock.nodes.scale import scale_nodes
from paddock.ports.repository import Put
from paddock.requests.bodies import ScaleRequest
from tests.fakes import invariants
from tests.fakes.actors import Actor
from tests.fakes.compute import FakeCompute
from tests.fakes.repository import FakeRepository
from tests.fakes.transactions import make_transactions_small
from tests.fakes.workflows import FakeWorkflows
from tests.fakes.world import CLUSTER, World, bucket, nodearray

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from paddock.adapters.dynamodb.keys import Key
    from paddock.model.identity import InstanceId, OperationId
    from paddock.model.instance import Instance
    from paddock.model.virtual_cluster import VirtualCluster
    from paddock.ports.compute import LaunchRequest, LaunchResult
    from paddock.ports.repository import Write
    from tests.fakes.ec2 import FakeEc2
    from tests.fakes.repository import Found

MINUTE = 60
LONG_SECONDS = 3 * 3600

Answer = TypeVar("Answer")


class Outside:
    """Everything outside the process. Here, nothing happens to a call."""

    def __init__(self, *, newest_first: bool = False) -> None:
        self.newest_first = newest_first

    def call(self, act: Callable[[], Answer], throttled: type[PaddockError]) -> Answer:
        """A call with an effect, or one to EC2."""
        del throttled
        return act()

    def read(self, act: Callable[[], Answer]) -> Answer:
        """A read of the store."""
        return act()

    def surround(self, world: World) -> None:
        """Put all ports of a world there."""
        repository = _Repository(self)
        repository._records = world.repository._records
        world.repository = repository
        world.compute = _Compute(world.ec2, self)
        world.workflows = _Workflows(self)


class Throttling(Outside):
    """Call number ``fault_at`` is throttled, reads included."""

    def __init__(self, fault_at: int = 0) -> None:
        super().__init__()
        self.calls = 0
        self.fault_at = fault_at

    def call(self, act: Callable[[], Answer], throttled: type[PaddockError]) -> Answer:
        self.calls += 1
        if self.calls == self.fault_at:
            raise throttled("not now")
        return act()

    def read(self, act: Callable[[], Answer]) -> Answer:
        return self.call(act, StoreThrottled)


class Crashes(Outside):
    """Keeps the world as it is before each call and after it: so a crash there leaves it.

    A crash before or after a read is one after the last call with an effect, or before the next; so reads
    are left out. Nothing is thrown, since a process that is gone cleans nothing up.
    """

    def __init__(self, world: World, *, newest_first: bool = False) -> None:
        super().__init__(newest_first=newest_first)
        self.left: list[tuple[str, World]] = []
        self._world = world
        self._calls = 0

    def call(self, act: Callable[[], Answer], throttled: type[PaddockError]) -> Answer:
        del throttled
        self._calls += 1
        number = self._calls
        self.left.append((f"crash before call {number}", self._world.copy()))
        try:
            return act()
        finally:
            self.left.append((f"crash after call {number}", self._world.copy()))


class _Repository(FakeRepository):
    def __init__(self, outside: Outside) -> None:
        super().__init__()
        self._outside = outside

    def commit(self, *writes: Write) -> None:
        self._outside.call(partial(super().commit, *writes), StoreThrottled)

    def running_operations(self) -> Sequence[OperationId]:
        """In an order that the port leaves open, and that a test has to choose."""
        running = [one for one in self._records.values() if isinstance(one, Operation) and one.is_running]
        running.sort(key=lambda one: one.start_time, reverse=self._outside.newest_first)
        return [one.id for one in running]

    def _get(self, kind: type[Found], key: Key) -> Found | None:
        return self._outside.read(partial(super()._get, kind, key))

    def _query(self, kind: type[Found], pk: str, begins_with: str = "", after: str = "") -> list[Found]:
        return self._outside.read(partial(super()._query, kind, pk, begins_with, after))


class _Compute(FakeCompute):
    def __init__(self, ec2: FakeEc2, outside: Outside) -> None:
        super().__init__(ec2)
        self._outside = outside

    def launch(self, request: LaunchRequest) -> LaunchResult:
        return self._outside.call(partial(super().launch, request), ComputeThrottled)

    def describe(self, instance_ids: Collection[InstanceId]) -> Mapping[InstanceId, Instance]:
        return self._outside.call(partial(super().describe, instance_ids), ComputeThrottled)

    def launched_by(self, cluster: ClusterName, operation_id: OperationId) -> Sequence[Instance]:
        look = partial(super().launched_by, cluster, operation_id)
        return self._outside.call(look, ComputeThrottled)

    def launched_in(self, cluster: ClusterName) -> Sequence[Instance]:
        return self._outside.call(partial(super().launched_in, cluster), ComputeThrottled)

    def clusters(self) -> Collection[ClusterName]:
        return self._outside.call(partial(super().clusters), ComputeThrottled)

    def _each(self, instance_ids: Collection[InstanceId], act: Any) -> dict[InstanceId, str]:
        return self._outside.call(partial(super()._each, instance_ids, act), ComputeThrottled)

    def delete_placement_group(self, name: str) -> bool:
        return self._outside.call(partial(super().delete_placement_group, name), ComputeThrottled)


class _Workflows(FakeWorkflows):
    def __init__(self, outside: Outside) -> None:
        super().__init__()
        self._outside = outside

    def start(self, operation: Operation) -> None:
        self._outside.call(partial(super().start, operation), WorkflowsUnavailable)


# What happens after a crash.


def retried(world: World) -> None:
    """The state machine runs the task again."""
    world.drive_all()
    world.settle()


def lost(world: World) -> None:
    """No execution lives on; the reconciler runs each minute."""
    world.workflows.live.clear()
    world.settle()


def lost_for_long(world: World) -> None:
    """No execution lives on, and the reconciler comes only after every deadline has passed."""
    world.workflows.live.clear()
    world.clock.advance(LONG_SECONDS)
    world.settle()


# What is crashed.


@dataclass(frozen=True)
class Scenario:
    """``act`` is one whole run. ``again`` is what a client does that got no answer, once all is quiet.

    ``expect`` is the outcome; where it is ``timely``, only if repair comes before the operation's deadline.
    ``passes`` ends the trouble that ``act`` has made outside, which does not outlive a crash.
    """

    prepare: Callable[[], World]
    act: Callable[[World], None]
    again: Callable[[World], None]
    expect: Callable[[World], bool]
    timely: bool = False
    passes: Callable[[World], None] = lambda _: None


def _ready(count: int, *, boot_seconds: float = 3, most: int = 3) -> Callable[[], World]:
    def prepare() -> World:
        world = World(nodearray(maxCount=max(count, most)))
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


def _holding(count: int, ready: int) -> Callable[[], World]:
    """Ready nodes, of which virtual cluster ``a`` holds so many, and launches what it misses."""

    def prepare() -> World:
        world = _ready(ready)()
        world.want("a", x4c8g=count)
        return world

    return prepare


def _with_idle_nodes() -> World:
    """Those that one virtual cluster gave back, but for the one that another has taken since."""
    world = World(nodearray(), idleTimeoutSeconds=600)
    world.ready(8)
    world.claim("b", x4c8g=8)
    world.release("b")
    world.claim("a", x4c8g=1)
    return world


def _with_stale_claims() -> World:
    """A writer died after it had claimed nodes, and nobody writes that virtual cluster again."""
    world = _ready(10)()
    now = world.clock.now()
    for node in world.nodes():
        world.store.commit(Put(claimed_for(node, VirtualClusterId("a"), "gone", now), was=node))
    return world


def _with_two_types() -> World:
    return World(nodearray("ondemand", bucket("c7i-large", templateId="s"), bucket(templateId="m")))


def _create(world: World) -> None:
    with suppress(DuplicateRequest):
        world.create(3, request_id="r")
    world.drive_all()


def _create_many(world: World) -> None:
    """Their records take three transactions."""
    with suppress(DuplicateRequest):
        world.create(11, request_id="r")
    world.drive_all()


def _create_throttled(world: World) -> None:
    """Throttling has passed when the nodes are asked for again, whoever does."""
    with suppress(DuplicateRequest):
        operation, _ = world.create(3, request_id="r")
        world.step("launch", operation.id)
    _throttled_no_more(world)
    world.drive_all()


def _throttled_no_more(world: World) -> None:
    world.ec2.capacity(None)


def _create_unheard(world: World) -> None:
    """The workflow service is away when the request comes."""
    world.workflows.unavailable = True
    _create(world)
    _hears_again(world)
    world.clock.advance(120)
    world.reconcile()
    world.drive_all()


def _hears_again(world: World) -> None:
    world.workflows.unavailable = False


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
    stored = world.repository.virtual_cluster(VirtualClusterId("a"))
    assert stored is not None
    shrunk = world.claim("a", stored.revision, x4c8g=1)
    world.claim("a", shrunk.revision, x4c8g=4)


def _grow_to(count: int) -> Callable[[World], None]:
    """The wish, until it is on record; a client that got no answer looks whether it was done."""

    def run(world: World) -> None:
        stored = world.repository.virtual_cluster(VirtualClusterId("a"))
        if stored is None or stored.replica_sets != {"4c8g": count}:
            world.want("a", stored.revision if stored else None, x4c8g=count)
        world.drive_all()

    return run


def _join(world: World) -> None:
    """Some are Ready earlier than others, and join earlier."""
    if world.repository.virtual_cluster(VirtualClusterId("a")) is None:
        operation = world.operation(world.want("a", xs=2, xm=2).operation_id)
        world.step("launch", operation.id)
        world.ec2.configure(boot_seconds=60)
        world.step("launch", operation.id)
        world.clock.advance(10)
        world.step("poll", operation.id)
    world.drive_all()


def _lose_one(world: World) -> None:
    """One that the virtual cluster holds."""
    lost = min(world.held("a").node_instances)
    world.terminate(ids=[lost], force=True)
    _pass_minutes(world)


def _wait_long(world: World) -> None:
    _pass_minutes(world, 12)


def _pass_minutes(world: World, minutes: int = 3) -> None:
    for _ in range(minutes):
        world.clock.advance(MINUTE)
        world.drive_all()
        world.reconcile()
    world.drive_all()


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


def _retry(world: World) -> None:
    retry_failed(world.store, world.workflows, CLUSTER)
    world.drive_all()


def _scale(world: World) -> None:
    desired = ScaleRequest.model_validate({"totalNodeCount": 3})
    scale_nodes(world.store, world.workflows, CLUSTER, "ondemand", desired)
    world.drive_all()


def _put_cluster(world: World) -> None:
    """A client that got no answer looks whether it was done."""
    stored = world.repository.cluster(CLUSTER)
    assert stored is not None
    if stored.definition.max_count != 7:
        world.put({"nodearrays": [nodearray()], "maxCount": 7}, stored.revision)


def _delete_cluster(world: World) -> None:
    with suppress(NotFound):
        delete_cluster(world.store, CLUSTER, None)


def _unlaunched() -> World:
    """Three nodes that failed, for which there is capacity by now."""
    world = _ready(0)()
    world.ec2.capacity(0)
    world.drive(world.create(3)[0])
    world.ec2.capacity(None)
    return world


def _with_attributes(*attributes: dict[str, Any]) -> Callable[[], World]:
    def prepare() -> World:
        world = World(nodearray(maxCount=3))
        for one in attributes:
            world.ready(1, nodeAttributes=one)
        return world

    return prepare


def _protected() -> World:
    world = _ready(3)()
    world.ec2.protect(world.nodes()[1].instance_id)
    return world


def _lost_what_was_launched() -> World:
    """A virtual cluster whose nodes were launched for it, and have ended since."""
    world = _ready(0)()
    world.want("a", x4c8g=3)
    world.drive_all()
    for node in world.nodes():
        world.ec2.end(node.instance_id)
    world.clock.advance(MINUTE)
    return world


def _drifted_past_termination() -> World:
    """Nodes whose terminations EC2 would not hear of for as long as they lasted."""
    world = _ready(2)()
    world.ec2.fail_next("TerminateInstances", "Unavailable", times=10_000)
    world.drive(world.terminate(names=["ondemand-1", "ondemand-2"])[0])
    world.ec2.reset_faults()
    return world


def _given_up() -> World:
    """A termination ended before the launch did that it waited for; and that has ended too by now."""
    world = _ready(0)()
    create, _ = world.create(3)
    world.ec2.fail_next("CreateFleet", "RequestLimitExceeded", times=10_000)
    world.step("launch", create.id)
    world.clock.advance(MINUTE)
    ending, _ = world.terminate(names=["ondemand-1", "ondemand-2", "ondemand-3"])
    world.step("terminate", ending.id)
    world.clock.advance(DEADLINE_NS / SECOND_NS)
    world.drive(ending)
    world.drive(create)
    world.ec2.reset_faults()
    return world


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
    world.clock.advance(60)
    ended, stopped, _ = (node.instance_id for node in world.nodes())
    world.ec2.end(ended)
    world.ec2.call("StopInstances", {"InstanceIds": [stopped]})
    world.clock.advance(60)
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
    ledger = world.repository.ledger(ClusterName("demo"))
    assert ledger is not None
    wrong = replace(ledger, buckets={}, names={})
    world.store.commit(Put(wrong, was=ledger))
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
    world.clock.advance(60)
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


def _max_count(world: World) -> int | None:
    stored = world.repository.cluster(CLUSTER)
    assert stored is not None
    return stored.definition.max_count


def _held(world: World) -> int:
    return len(world.held("a").node_instances)


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
    "create many": Scenario(
        _ready(0, most=11),
        _create_many,
        _create_many,
        lambda world: _statuses(world) == [READY] * 11,
        timely=True,
    ),
    "create, throttled": Scenario(
        _throttled_once,
        _create_throttled,
        _create_throttled,
        lambda world: _statuses(world) == [READY] * 3,
        timely=True,
        passes=_throttled_no_more,
    ),
    "terminate, the last of a placement group": Scenario(
        _placed, _terminate, _terminate, lambda world: not world.ec2.snapshot()["groups"]
    ),
    "create, resumed": Scenario(
        _ready(0),
        _create_unheard,
        _create,
        lambda world: _statuses(world) == [READY] * 3,
        timely=True,
        passes=_hears_again,
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
    "reimage, one cannot be": Scenario(
        _protected,
        _manage(Action.REIMAGE),
        lambda _: None,
        lambda world: _statuses(world) == [READY] * 3 and len(world.alive()) == 3,
        timely=True,
    ),
    "restart": Scenario(
        _ready(3), _manage(Action.RESTART), lambda _: None, lambda world: _statuses(world) == [READY] * 3
    ),
    "shut down": Scenario(
        _with_attributes({}, {"ShutdownPolicy": "Deallocate"}, {"Fixed": True}),
        _manage(Action.SHUTDOWN),
        _manage(Action.SHUTDOWN),
        lambda world: not world.alive() and _statuses(world) == [NodeStatus.DEALLOCATED, NodeStatus.OFF],
    ),
    "remove": Scenario(
        _with_attributes({}, {"KeepAlive": True}, {"Fixed": True}),
        _manage(Action.REMOVE),
        _manage(Action.REMOVE),
        lambda world: not world.alive() and not world.nodes(),
    ),
    "retry": Scenario(
        _unlaunched, _retry, _retry, lambda world: _statuses(world) == [READY] * 3, timely=True
    ),
    "scale": Scenario(_ready(1), _scale, _scale, lambda world: _statuses(world) == [READY] * 3, timely=True),
    "write cluster": Scenario(
        _ready(1),
        _put_cluster,
        _put_cluster,
        lambda world: _max_count(world) == 7 and len(world.alive()) == 1,
    ),
    "delete cluster": Scenario(
        _ready(0), _delete_cluster, _delete_cluster, lambda world: not world.repository.clusters()
    ),
    "forget what was launched for a virtual cluster": Scenario(
        _lost_what_was_launched,
        _pass_minutes,
        _pass_minutes,
        lambda world: _statuses(world) == [READY] * 3 and _held(world) == 3,
        timely=True,
    ),
    "end what outlived its termination": Scenario(
        _drifted_past_termination,
        _reconcile,
        _reconcile,
        lambda world: not world.alive() and not world.nodes(),
    ),
    "observe, never launched": Scenario(_given_up, _reconcile, _reconcile, lambda world: not world.nodes()),
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
    "write virtual cluster, many nodes": Scenario(
        _ready(11), _grow_to(10), _grow_to(10), lambda world: (_held(world), _free(world)) == (10, 1)
    ),
    "shrink virtual cluster by many nodes": Scenario(
        _holding(11, 11), _grow_to(1), _grow_to(1), lambda world: (_held(world), _free(world)) == (1, 10)
    ),
    "write virtual cluster, which claims and launches": Scenario(
        _ready(3, most=9), _grow_to(5), _grow_to(5), lambda world: _held(world) == 5, timely=True
    ),
    "launch in vain for a virtual cluster": Scenario(
        _short_of_capacity, _grow_to(3), _grow_to(3), lambda world: FAILED not in _statuses(world)
    ),
    "join while others are still launched": Scenario(
        _with_two_types, _join, _join, lambda world: _held(world) == 4, timely=True
    ),
    "delete virtual cluster, many nodes": Scenario(
        _holding(11, 11), _release, _release, lambda world: _free(world) == 11
    ),
    "delete virtual cluster and its many nodes": Scenario(
        _holding(11, 12), _release_and_end, _release_and_end, lambda world: len(world.alive()) == 1
    ),
    "lose a node, a free one replaces it": Scenario(
        _holding(3, 4), _lose_one, lambda _: None, lambda world: _held(world) == 3
    ),
    "lose a node, a launched one replaces it": Scenario(
        _holding(3, 3), _lose_one, _pass_minutes, lambda world: _held(world) == 3, timely=True
    ),
    "end idle nodes": Scenario(
        _with_idle_nodes, _wait_long, _wait_long, lambda world: len(world.alive()) == 1
    ),
    "release stale claims": Scenario(
        _with_stale_claims, _pass_minutes, lambda _: None, lambda world: _free(world) == 10
    ),
}
EACH = pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)


def _create_failed(world: World) -> bool:
    creates = [one for one in invariants.operations(world) if one.action is Action.CREATE]
    return all(one.state is OperationState.FAILED for one in creates)


class Tally:
    """In how many places a fault was tried, and after how many of them something was wrong."""

    def __init__(self) -> None:
        self.tried = self.violations = 0


@pytest.fixture
def tally(record_property: Callable[[str, object], None]) -> Iterator[Tally]:
    uses_limits = Tally()
    yield uses_limits
    record_property("crash points tried", uses_limits.tried)
    record_property("violations", uses_limits.violations)


@pytest.fixture(autouse=True)
def _small_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    make_transactions_small(monkeypatch)


EFFECTS = {
    ("repository", "commit"),
    ("workflows", "start"),
    *(("compute", name) for name in ("launch", "terminate", "stop", "start", "restart")),
}


@pytest.mark.proves("a crash right after the launch: the same token again, the count exact")
@EACH
@pytest.mark.parametrize("after", [retried, lost])
def test_after_a_crash_anywhere_everything_comes_out_right(
    scenario: Scenario, after: Callable[[World], None], tally: Tally
) -> None:
    assert _crash(tally, scenario, after) == ""


def test_it_does_not_matter_which_operation_is_brought_back_first(tally: Tally) -> None:
    assert _crash(tally, SCENARIOS["create and terminate"], lost, newest_first=True) == ""


@pytest.mark.proves("killed in the middle of a launch: adopted or ended, never pending for ever")
@EACH
def test_after_a_crash_anywhere_and_hours_without_repair_nothing_is_broken(
    scenario: Scenario, tally: Tally
) -> None:
    assert _crash(tally, scenario, lost_for_long, expecting=not scenario.timely) == ""


@EACH
def test_after_a_throttled_call_everything_comes_out_right(scenario: Scenario, tally: Tally) -> None:
    assert _throttle(tally, scenario) == ""


@pytest.mark.parametrize(
    "change",
    [
        lambda world, revision: world.want("a", revision, x4c8g=12),
        lambda world, revision: world.want("a", revision, x4c8g=14),
        lambda world, revision: world.want("a", revision, x4c8g=1),
        lambda world, revision: world.release("a", revision),
        lambda world, revision: world.release("a", revision, terminate=True),
    ],
    ids=["grow", "grow and launch", "shrink", "delete", "delete with its nodes"],
)
def test_what_is_refused_for_too_many_calls_has_not_been_done(
    change: Callable[[World, int], VirtualCluster],
) -> None:
    prepared = _ready(12, most=14)()
    before = prepared.claim("a", x4c8g=6)
    number = calls = 0
    while number <= calls:
        number += 1
        world = prepared.copy()
        inside = world.repository
        outside = Throttling(number)
        outside.surround(world)
        try:
            change(world, before.revision)
        except StoreThrottled:
            assert inside.virtual_cluster(VirtualClusterId("a")) == before
        else:
            assert inside.virtual_cluster(VirtualClusterId("a")) != before
        calls = outside.calls


@EACH
def test_what_sleeps_for_hours_before_any_effect_and_goes_on_then_breaks_nothing(
    scenario: Scenario, tally: Tally
) -> None:
    """All others go on meanwhile. Its clock is as theirs, ahead or behind. It may end in whatever way."""
    prepared = scenario.prepare()
    broken = []
    for number in count(1):
        world = prepared.copy()
        actor = Actor(world, scenario.act, (0, 2 * LONG_SECONDS, -2 * LONG_SECONDS)[number % 3])
        for _ in range(number):
            _go_to_an_effect(actor)
        if actor.has_ended:
            break
        tally.tried += 1
        asleep_at = ".".join(actor.next_call)
        lost_for_long(world)
        found = invariants.always(world)
        actor.finish()
        scenario.passes(world)
        found += invariants.always(world)
        world.clock.advance(LONG_SECONDS)
        world.settle()
        found += invariants.at_rest(world)
        if found:
            broken.append(f"asleep before effect {number}, {asleep_at}: {'; '.join(dict.fromkeys(found))}")
    tally.violations += len(broken)
    assert "\n".join(broken) == ""


def _go_to_an_effect(actor: Actor) -> None:
    """Go on through the next call and through reads: sleep before one is sleep after the call before it."""
    is_first = True
    while not actor.has_ended and (is_first or actor.next_call not in EFFECTS):
        actor.go()
        is_first = False


def _crash(
    tally: Tally,
    scenario: Scenario,
    after: Callable[[World], None],
    *,
    expecting: bool = True,
    newest_first: bool = False,
) -> str:
    """Where the crash was, and what is wrong in the end; for each place where something is."""
    world = scenario.prepare()
    crashes = Crashes(world, newest_first=newest_first)
    crashes.surround(world)
    scenario.act(world)
    assert crashes.left
    broken = []
    for where, left in crashes.left:
        tally.tried += 1
        Outside(newest_first=newest_first).surround(left)
        found = _outcome(scenario, left, after, expecting=expecting)
        if found:
            broken.append(f"{where}: {found}")
    tally.violations += len(broken)
    return "\n".join(broken)


def _throttle(tally: Tally, scenario: Scenario) -> str:
    """Like ``_crash``, for calls that are throttled."""
    prepared = scenario.prepare()
    broken = []
    for number in count(1):
        world = prepared.copy()
        throttling = Throttling(number)
        throttling.surround(world)
        with suppress(PaddockError):
            scenario.act(world)
        if throttling.calls < number:
            break
        tally.tried += 1
        throttling.fault_at = 0
        found = _outcome(scenario, world, retried)
        if found:
            broken.append(f"throttled at call {number}: {found}")
    tally.violations += len(broken)
    return "\n".join(broken)


def _outcome(
    scenario: Scenario, world: World, after: Callable[[World], None], *, expecting: bool = True
) -> str:
    """What is wrong once ``after`` and the client that asks again have gone by."""
    scenario.passes(world)
    found = invariants.always(world)
    after(world)
    found += invariants.at_rest(world)
    scenario.again(world)
    world.settle()
    found += invariants.at_rest(world)
    if expecting and not scenario.expect(world):
        found.append(f"there are nodes {_statuses(world)}, and {len(world.alive())} instances")
    return "; ".join(dict.fromkeys(found))
