"""Everything at once, interleaved at each call: the invariants hold after every step.

Hypothesis starts use cases, lets one of them go on by some calls, lets another die, ends instances, lets
time pass: hours too, in which all of them sleep wherever they stand. Each has a clock of its own, which may
be hours ahead or behind. One step is one call to the repository, the cloud or the workflow service.
Transactions are cut to a few writes, so that a virtual cluster of some nodes is written in as many parts as
one of hundreds.

``make test`` takes the same walks each time. ``make explore`` takes other ones, as many as ``EXAMPLES`` says,
by a ``SEED`` that it prints; the same two numbers give the same walks again. A failure is shown as the
shortest walk that fails, a program line by line, with a ``@reproduce_failure`` to put above ``Walk``.
"""

from __future__ import annotations

import logging
import os
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, ClassVar

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from paddock.errors import PaddockError, RevisionConflict
from paddock.model.identity import RequestId, VirtualClusterId
from paddock.model.operation import ENDING, Action
from paddock.ports.repository import WriteConflictError
from paddock.virtual_clusters.reconcile import reconcile_virtual_cluster
from paddock.virtual_clusters.write import list_virtual_clusters
from paddock.workflow.outcome import Next
from tests.fakes import invariants
from tests.fakes.actors import Actor, Crash, crash_after, crash_before, plainly, throttle
from tests.fakes.transactions import make_transactions_small
from tests.fakes.world import World, bucket, nodearray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paddock.model.virtual_cluster import VirtualCluster
    from tests.fakes.actors import Luck

EXAMPLES = os.environ.get("EXAMPLES")
# Parts run beside each other, where there are several processes; every other one over the real repository.
PARTS = 1 if EXAMPLES else 4
EXAMPLES_OF_A_PART = 30
LEAST_STEPS = 1_000
MINUTE = 60
MAX_ACTORS = 4
HOUR = 60 * MINUTE
PASSING = {"seconds": 1, "minutes": MINUTE, "hours": HOUR}

X = VirtualClusterId("x")
NAMES = (X, VirtualClusterId("y"))
TYPES = ("s", "m")
NAME = st.sampled_from(NAMES)
BASED_ON = st.sampled_from(["current", "current", "current", "stale", "nothing"])
DESIRED = st.fixed_dictionaries({"s": st.integers(0, 8), "m": st.integers(0, 2)})
MOSTLY = st.sampled_from([True, True, False])
FEW = st.integers(0, 9)
CALLS = st.integers(1, 8)
# Mostly clocks are as they should be.
AHEAD = st.sampled_from([0, 0, 0, 0, 90, -90, 5 * HOUR, -5 * HOUR])
ACTIONS = (Action.TERMINATE, Action.TERMINATE, Action.REIMAGE, Action.DEALLOCATE, Action.START)


@dataclass(frozen=True)
class Request:
    """What a client wants of a virtual cluster, on which revision; ``desired`` is ``None`` for a delete."""

    name: VirtualClusterId
    expected: int | None
    desired: dict[str, int] | None
    provision: bool = True


class Failures(logging.Handler):
    """Exceptions that were caught and logged, which no test sees otherwise."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.unexpected: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, PaddockError):
            self.unexpected.append(error)


def may_start(walk: Walk) -> bool:
    return len(walk.actors) < MAX_ACTORS


def all_pages(world: World) -> list[VirtualCluster]:
    found: list[VirtualCluster] = []
    token: str | None = ""
    while token is not None:
        page, token = list_virtual_clusters(world.repository, 1, token)
        found += page
    return found


def reconcile_one(world: World, name: VirtualClusterId) -> None:
    reconcile_virtual_cluster(world.store, world.workflows, name)


class Walk(RuleBasedStateMachine):
    """One world, the actors in it, and every state that each virtual cluster has been in."""

    steps = 0
    ended: ClassVar[Counter[str]] = Counter()
    stored = False
    random = Random()  # noqa: S311  # nothing is kept secret

    def __init__(self) -> None:
        super().__init__()
        Walk.random.seed(0)
        array = nodearray(
            "ondemand",
            bucket("c7i-large", templateId="s", maxCount=12),
            bucket("c7i-xlarge", templateId="m", maxCount=4),
            maxCount=14,
        )
        self.world = World(array, stored=Walk.stored, idleTimeoutSeconds=1800)
        self.actors: list[Actor] = []
        self.ends: dict[Actor, Callable[[Actor], None]] = {}
        self.requests: dict[Actor, Request] = {}
        self.heads: dict[VirtualClusterId, list[VirtualCluster]] = defaultdict(list)
        self.wrote: dict[Actor, list[VirtualCluster]] = defaultdict(list)
        self.next_task: dict[str, tuple[str, int]] = {}
        self.ahead_seconds = 0
        self.is_broken = False
        self.failures = Failures()
        logging.getLogger("paddock").addHandler(self.failures)

    @initialize(small=st.integers(2, 10), medium=st.integers(0, 2), held=st.integers(0, 3))
    def begin(self, small: int, medium: int, held: int) -> None:
        for machine_type, number in (("c7i-large", small), ("c7i-xlarge", medium)):
            if number:
                self.world.ready(number, definition={"machineType": machine_type})
        self.heads[X] = [self.world.claim("x", xs=min(small, held))]
        self.look()

    # What clients do.

    @precondition(may_start)
    @rule(name=NAME, desired=DESIRED, based_on=BASED_ON, provision=MOSTLY, writers=st.integers(1, 2))
    def write(
        self, name: VirtualClusterId, desired: dict[str, int], based_on: str, writers: int, *, provision: bool
    ) -> None:
        """Several writers want different things of the same revision."""
        expected = self.revision(name, based_on)
        for more in range(writers):
            request = Request(name, expected, desired | {"s": desired["s"] + more}, provision)
            body = {"virtualClusterId": name, "replicaSets": request.desired, "provision": provision}
            self.request(request, partial(World.write, body=body, expected=expected))

    @precondition(may_start)
    @precondition(lambda self: self.world.repository.virtual_clusters()[0])
    @rule(name=NAME, based_on=BASED_ON, terminate=st.booleans())
    def delete(self, name: VirtualClusterId, based_on: str, *, terminate: bool) -> None:
        request = Request(name, self.revision(name, based_on), None)
        self.request(request, lambda world: world.release(name, request.expected, terminate=terminate))

    @precondition(may_start)
    @rule(number=st.integers(1, 4), request_id=st.sampled_from([None, "r", "q"]))
    def create_nodes(self, number: int, request_id: RequestId | None) -> None:
        self.start(lambda world: world.create(number, request_id=request_id))

    @precondition(may_start)
    @precondition(lambda self: self.world.nodes())
    @rule(action=st.sampled_from(ACTIONS), picks=st.sets(FEW, min_size=1, max_size=3), force=MOSTLY)
    def manage_nodes(self, action: Action, picks: set[int], *, force: bool) -> None:
        nodes = self.world.nodes()
        names = [nodes[pick % len(nodes)].name for pick in sorted(picks)]
        self.start(lambda world: world.manage(action, names=names, force=force))

    # What Paddock does by itself.

    @precondition(may_start)
    @precondition(lambda self: self.world.workflows.live)
    @rule(pick=FEW)
    def run_task(self, pick: int) -> None:
        live = self.world.workflows.live
        operation = live[sorted(live)[pick % len(live)]]
        execution = f"{operation.id}-{operation.attempt}"
        ends_first = operation.action in ENDING | {Action.REIMAGE}
        task, polls = self.next_task.get(execution, ("terminate" if ends_first else "launch", 0))

        def go_on(actor: Actor) -> None:
            assert isinstance(actor.answer, tuple)
            following, _ = actor.answer
            if following is Next.DONE and live.get(operation.id) == operation:
                del live[operation.id]
            if following is Next.WAIT:
                self.next_task[execution] = "poll", polls + 1
            elif following is not Next.DONE:
                self.next_task[execution] = following.value, polls

        self.start(lambda world: world.step(task, operation.id, polls), go_on)

    @precondition(may_start)
    @rule(what=st.sampled_from(["heal x", "heal y", "reconcile", "read"]))
    def look_after(self, what: str) -> None:
        if what == "read":
            self.read_all()
        else:
            act = (
                World.reconcile
                if what == "reconcile"
                else partial(reconcile_one, name=VirtualClusterId(what[-1]))
            )
            self.start(act)

    def read_all(self) -> None:
        """Page by page; each virtual cluster is seen as it was at some moment since."""
        known = {name: len(heads) for name, heads in self.heads.items()}

        def check(actor: Actor) -> None:
            assert isinstance(actor.answer, list)
            for one in actor.answer:
                assert one in self.heads[one.id][max(known.get(one.id, 0) - 1, 0) :]

        self.start(all_pages, check)

    # How they get on.

    @rule(ahead_seconds=AHEAD)
    def set_clock(self, ahead_seconds: int) -> None:
        """Of those that start from now on."""
        self.ahead_seconds = ahead_seconds

    @precondition(lambda self: self.actors)
    @rule(pick=FEW, calls=CALLS)
    def go_on(self, pick: int, calls: int) -> None:
        actor = self.actors[pick % len(self.actors)]
        for _ in range(calls):
            if not actor.has_ended:
                self.step(actor)

    @precondition(lambda self: len(self.actors) > 1)
    @rule(pick=FEW)
    def overtake(self, pick: int) -> None:
        """One goes on to its end, while the others stay where they are."""
        actor = self.actors[pick % len(self.actors)]
        while not actor.has_ended:
            self.step(actor)

    @precondition(lambda self: self.actors)
    @rule(calls=CALLS)
    def take_turns(self, calls: int) -> None:
        for _ in range(calls):
            for actor in tuple(self.actors):
                self.step(actor)

    @precondition(lambda self: len(self.actors) > 1)
    @rule(pick=FEW, how=st.sampled_from([crash_before, crash_after, throttle]))
    def fail(self, pick: int, how: Luck) -> None:
        self.step(self.actors[pick % len(self.actors)], how)

    @rule(
        what=st.sampled_from(
            ["seconds", "minutes", "hours", "a lost execution", "an end of an instance", "a capacity"]
        ),
        number=st.integers(0, 5),
    )
    def meet(self, what: str, number: int) -> None:
        """Time passes for everybody, also for those in the midst of a call."""
        live, alive = self.world.workflows.live, sorted(self.world.alive())
        if what in PASSING:
            self.world.clock.advance(number * PASSING[what])
        elif what == "a capacity":
            self.world.ec2.capacity(number or None)
        elif what == "a lost execution" and live:
            del live[sorted(live)[number % len(live)]]
        elif what == "an end of an instance" and alive:
            self.world.ec2.end(alive[number % len(alive)])

    # How it is done.

    def revision(self, name: VirtualClusterId, based_on: str) -> int | None:
        heads = self.heads[name]
        match based_on:
            case "current" if heads and not heads[-1].deleted:
                return heads[-1].revision
            case "stale" if len(heads) > 1:
                return heads[-2].revision
            case _:
                return None

    def request(self, request: Request, act: Callable[[World], object]) -> None:
        known = len(self.heads[request.name])
        actor = self.start(act, partial(self.check_request, request, known))
        self.requests[actor] = request

    def start(
        self,
        act: Callable[[World], object],
        then: Callable[[Actor], None] = lambda _: None,
    ) -> Actor:
        actor = Actor(self.world, act, self.ahead_seconds)
        self.actors.append(actor)
        self.ends[actor] = then
        return actor

    def step(self, actor: Actor, how: Luck = plainly) -> None:
        """One step, and a look at everything."""
        Walk.steps += 1
        actor.go(how)
        if actor.has_ended:
            self.actors.remove(actor)
        self.look(actor)

    def look(self, actor: Actor | None = None) -> None:
        try:
            assert invariants.always(self.world) == []
            assert self.failures.unexpected == []
            for name in NAMES:
                self.look_at(name, actor)
            if actor is not None and actor.has_ended:
                self.look_at_end(actor)
        except BaseException:
            self.is_broken = True
            raise

    def look_at(self, name: VirtualClusterId, actor: Actor | None) -> None:
        """Every state follows from the one before it, and a client's is what that client asked for, whole."""
        head = self.world.repository.virtual_cluster(name)
        before = self.heads[name][-1] if self.heads[name] else None
        if head is None or head == before:
            assert head == before
            return
        assert before is None or before.revision < head.revision
        self.heads[name].append(head)
        assert actor is not None
        if actor not in self.requests or self.requests[actor].name != name:
            return
        if head.reserved:
            # There is still no virtual cluster of this id.
            return
        request = self.requests[actor]
        current = before.revision if before is not None and not before.deleted else 0
        if request.desired is None:
            # It may take nodes away from what it has deleted, or from who has claimed them since.
            if head.deleted and current:
                self.wrote[actor].append(head)
                assert request.expected in (None, current)
            return
        self.wrote[actor].append(head)
        assert len(self.wrote[actor]) == 1
        assert (request.expected or 0) == current
        assert (head.replica_sets, head.missing()) == (request.desired, {})
        assert request.provision or head.held_ids() - head.node_instances.keys() <= (
            before.held_ids() if before else set()
        )
        if before is not None:
            kept = Counter(one.template_id for key, one in before.node_instances.items())
            stayed = Counter(
                one.template_id for key, one in before.node_instances.items() if key in head.node_instances
            )
            assert stayed == Counter(
                {kind: min(number, request.desired[kind]) for kind, number in kept.items()}
            )

    def look_at_end(self, actor: Actor) -> None:
        error = actor.error
        kind = type(error).__name__ if error else "done"
        Walk.ended[kind] += 1
        if error is None:
            self.ends[actor](actor)
        elif isinstance(error, Crash | WriteConflictError) and actor not in self.requests:
            return
        elif isinstance(error, PaddockError):
            # What was refused has not been done.
            assert not self.wrote[actor], error
            if isinstance(error, RevisionConflict):
                self.ends[actor](actor)
        elif not isinstance(error, Crash):
            raise error

    def check_request(self, request: Request, known: int, actor: Actor) -> None:
        """What a client was told is true."""
        meanwhile = self.heads[request.name][max(known - 1, 0) :]
        if isinstance(actor.error, RevisionConflict):
            revisions = {0 if head.deleted else head.revision for head in meanwhile} or {0}
            if not known:
                revisions.add(0)
            assert actor.error.revision in revisions - {request.expected or 0}
        elif request.desired is None:
            assert len(self.wrote[actor]) == 1
        else:
            assert self.wrote[actor] == [actor.answer]

    def teardown(self) -> None:
        logging.getLogger("paddock").removeHandler(self.failures)
        try:
            if not self.is_broken:
                self.come_to_rest()
        finally:
            for actor in self.actors:
                while not actor.has_ended:
                    actor.go(crash_before)

    def come_to_rest(self) -> None:
        while self.actors:
            self.take_turns(1)
        self.world.ec2.capacity(None)
        # Those whose clocks were ahead have begun by then, and are past their deadlines.
        self.world.clock.advance(6 * HOUR)
        self.world.settle()
        assert invariants.at_rest(self.world) == []
        assert list(self._idle_wishes()) == []
        used = Counter(one.request_id for one in invariants.operations(self.world) if one.request_id)
        assert max(used.values(), default=1) == 1
        for name, heads in self.heads.items():
            changes, _ = self.world.repository.virtual_cluster_changes(name, 1_000), None
            told = {change.revision for change in changes}
            for before, after in pairwise(heads):
                assert before.node_instances == after.node_instances or after.revision in told

    def _idle_wishes(self) -> Iterator[str]:
        """Nodes that are free where a virtual cluster misses them."""
        free = [node for node in self.world.nodes() if node.is_ready and not node.virtual_cluster]
        found, _ = self.world.repository.virtual_clusters()
        for one in found:
            for kind in one.missing():
                yield from (
                    f"{one.id} misses {kind}, {node.id} is free" for node in free if node.template_id == kind
                )


# To shorten a walk that fails takes Hypothesis some minutes.
@pytest.mark.timeout(0 if EXAMPLES else 600)
@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_meets_and_whatever_dies_the_invariants_hold(
    part: int, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    make_transactions_small(monkeypatch)
    monkeypatch.setattr(logging.getLogger("paddock"), "propagate", False)
    # The same walk shall meet the same ids.
    monkeypatch.setattr("paddock.model.identity.randbits", Walk.random.getrandbits)
    monkeypatch.setattr(Walk, "steps", 0)
    monkeypatch.setattr(Walk, "ended", Counter())
    monkeypatch.setattr(Walk, "stored", part % 2 == 1)
    run_state_machine_as_test(
        # A part takes the same walks each time, and other ones than the other parts.
        Walk if EXAMPLES else seed(part)(Walk),
        settings=settings(
            deadline=None,
            max_examples=int(EXAMPLES or EXAMPLES_OF_A_PART),
            stateful_step_count=50,
            database=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
    record_property("steps walked", Walk.steps)
    for how, number in Walk.ended.items():
        record_property(f"walks ended {how}", number)
    assert Walk.steps >= LEAST_STEPS
