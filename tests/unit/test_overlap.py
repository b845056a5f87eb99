"""Two operations on one node, in any order and at any moment: both tell the truth, and the later one wins."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from paddock.model.node import NodeStatus, TargetState
from paddock.model.node_goals import goal_of, is_at_goal
from paddock.model.operation import ENDING, Action, OperationState
from paddock.nodes.manage import retry_failed
from paddock.workflow.outcome import Next
from tests.fakes import invariants
from tests.fakes.world import CLUSTER, World, nodearray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from paddock.model.identity import OperationId
    from paddock.model.operation import Operation

ACTIONS = [action for action in Action if action is not Action.CREATE]
SUCCEEDED, FAILED = OperationState.SUCCEEDED, OperationState.FAILED
FIXED: dict[str, object] = {"Fixed": True}
STOPS: dict[str, object] = {"ShutdownPolicy": "Deallocate"}
OFF = {"StartAutomatically": False}


AT_REST = {
    (NodeStatus.READY, TargetState.STARTED),
    (NodeStatus.DEALLOCATED, TargetState.DEALLOCATED),
    (NodeStatus.OFF, TargetState.OFF),
    # It may be tried again.
    (NodeStatus.FAILED, TargetState.STARTED),
}


class Run:
    """The workflow of an operation, one task at a time; it moves no clock."""

    def __init__(self, world: World, operation: Operation) -> None:
        self.world, self.id = world, operation.id
        self.task = "terminate" if operation.action in ENDING | {Action.REIMAGE} else "launch"
        self.polls = 0
        self.is_over = not operation.is_running

    def go(self) -> None:
        if self.is_over:
            return
        following, _ = self.world.step(self.task, self.id, self.polls)
        self.polls += following is Next.WAIT
        self.task = "poll" if following is Next.WAIT else following.value
        self.is_over = following is Next.DONE
        if self.is_over:
            self.world.workflows.live.pop(self.id, None)


def run_in_turns(
    world: World, runs: Sequence[Run], turns: Iterator[int] | None = None, seconds: int = 2
) -> None:
    """Let runs take turns, and time pass, until all are over; first as ``turns`` say."""
    for turn in turns or ():
        runs[turn].go()
        world.clock.advance(seconds)
    for _ in range(2_000):
        if all(run.is_over for run in runs):
            return
        for run in runs:
            run.go()
        world.clock.advance(seconds)
    raise AssertionError("they do not end")


# Where a node is when the first of the two operations is asked for.


def ready(world: World, attributes: dict[str, object]) -> list[Run]:
    world.ready(1, nodeAttributes=attributes)
    return []


def being_launched(world: World, attributes: dict[str, object]) -> list[Run]:
    operation, _ = world.create(1, nodeAttributes=attributes)
    run = Run(world, operation)
    run.go()
    return [run]


def asked_for(world: World, attributes: dict[str, object]) -> list[Run]:
    operation, _ = world.create(1, nodeAttributes=attributes)
    return [Run(world, operation)]


def deallocated(world: World, attributes: dict[str, object]) -> list[Run]:
    world.ready(1, nodeAttributes=attributes)
    operation, _ = world.manage(Action.DEALLOCATE, names=["ondemand-1"])
    world.drive(operation)
    return []


def off(world: World, attributes: dict[str, object]) -> list[Run]:
    world.ready(1, nodeAttributes={**attributes, **OFF})
    return []


def failed(world: World, attributes: dict[str, object]) -> list[Run]:
    world.ec2.capacity(0)
    world.ready(1, nodeAttributes=attributes)
    world.ec2.capacity(None)
    return []


STARTS = [ready, being_launched, asked_for, deallocated, off, failed]
# Who goes on when: the first has ended before the second is asked for only where that is asked for late.
TURNS = {
    "in turns": (0, ""),
    "the second first": (0, "b" * 40),
    "the first first": (0, "a" * 40),
    "the second in the middle": (1, "bbbb"),
    "the second later": (2, "bab"),
    "the second late": (3, "aab"),
    "the second by and by": (2, "abbabb"),
}
FEW_TURNS = ["in turns", "the second first", "the second later"]


PLAIN: dict[str, object] = {}
CASES = [(start, PLAIN, turns) for start in STARTS for turns in TURNS]
CASES += [(start, FIXED, turns) for start in (ready, off, failed) for turns in FEW_TURNS]
CASES += [(ready, STOPS, turns) for turns in FEW_TURNS]


@pytest.mark.parametrize(("start", "attributes", "turns"), CASES)
def test_of_two_operations_on_one_node_the_later_wins_and_both_tell_the_truth(
    start: Callable[[World, dict[str, object]], list[Run]], attributes: dict[str, object], turns: str
) -> None:
    headstart, order = TURNS[turns]
    for first, second in product(ACTIONS, ACTIONS):
        world = World()
        runs = start(world, attributes)
        places = {"a": len(runs), "b": len(runs) + 1}
        accepted: list[OperationId] = []
        for action, steps in ((first, headstart), (second, 0)):
            operation, results = world.manage(action, names=["ondemand-1"])
            accepted += [operation.id for result in results if not result.error]
            runs.append(Run(world, operation))
            for _ in range(steps):
                runs[-1].go()
                world.clock.advance(1)
        run_in_turns(world, runs, (places[one] for one in order))
        ended = [world.operation(run.id) for run in runs]
        about = f"{first}, then {second}: {len(accepted)} accepted; {[one.error for one in ended]}"
        assert {one.state for one in ended} == {SUCCEEDED}, about
        assert_where_it_shall_be(world, [world.operation(one) for one in accepted], about)


def assert_where_it_shall_be(world: World, accepted: Sequence[Operation], about: str) -> None:
    """The last of these operations has had its will, and its node is at rest."""
    for node in world.nodes():
        assert (node.status, node.target_state) in AT_REST, about
        assert not accepted or is_at_goal(node, accepted[-1]), about
    assert world.nodes() or any(ends(one) for one in accepted), about
    world.drive_all()
    assert invariants.at_rest(world) == [], about


@pytest.mark.parametrize("late", ["first", "second"])
@pytest.mark.parametrize("start", [ready, being_launched, deallocated])
def test_so_it_is_where_a_request_died_before_it_had_taken_hold_of_the_node(
    start: Callable[[World, dict[str, object]], list[Run]], late: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What never took hold of its node did nothing to it, and says so where the node is not as it wanted."""
    for first, second in product(ACTIONS, ACTIONS):
        world = World()
        runs = start(world, {})
        for action, name in ((first, "first"), (second, "second")):
            with monkeypatch.context() as patch:
                if name == late:
                    patch.setattr("paddock.nodes.manage.REQUEST_NS", 0)
                operation, _ = world.manage(action, names=["ondemand-1"])
            runs.append(Run(world, operation))
        run_in_turns(world, runs)
        asked = [world.operation(run.id) for run in runs]
        about = f"{first}, then {second}: {[(one.state, one.error) for one in asked]}"
        for node in world.nodes():
            assert (node.status, node.target_state) in AT_REST, about
            for one in asked[-2:]:
                if one.total and one.state is SUCCEEDED and one.action in (Action.REIMAGE, *ENDING):
                    assert is_at_goal(node, one) or node.managed_at > one.start_time, about
                    assert node.launched_at >= one.start_time or not node.is_ready, about
        world.drive_all()
        assert invariants.at_rest(world) == [], about


# What does not succeed.


def never_boots(world: World) -> None:
    world.ec2.configure(boot_seconds=1e9)


def ends_as_it_boots(world: World) -> None:
    never_boots(world)
    world.ec2.configure(terminate_seconds=0)
    for instance in world.alive():
        world.ec2.end(instance)


def there_is_no_capacity(world: World) -> None:
    world.ec2.capacity(0)


@pytest.mark.parametrize("turns", ["", "b" * 40, "a" * 40, "abb"])
@pytest.mark.parametrize("fault", [never_boots, ends_as_it_boots, there_is_no_capacity])
@pytest.mark.parametrize("start", [being_launched, asked_for])
@pytest.mark.parametrize("how", [Action.START, "retry"])
def test_a_start_of_a_node_that_is_being_launched_ends_as_the_launch_does(
    how: str,
    start: Callable[[World, dict[str, object]], list[Run]],
    fault: Callable[[World], None],
    turns: str,
) -> None:
    world = World()
    if fault is never_boots or start is being_launched:
        world.ec2.configure(boot_seconds=1e9)
    if fault is there_is_no_capacity:
        fault(world)
    [creating] = start(world, {})
    starting, _ = world.manage(Action.START, names=["ondemand-1"])
    runs = [creating, Run(world, starting)]
    places = {"a": 0, "b": 1}
    if how == "retry":
        runs.append(Run(world, retry_failed(world.store, world.workflows, CLUSTER)))
    for turn in turns:
        runs[places[turn]].go()
    if fault is ends_as_it_boots:
        creating.go()
        fault(world)
    run_in_turns(world, runs, seconds=30)
    ended = [world.operation(run.id) for run in runs if world.operation(run.id).total]
    assert {one.state for one in ended} == {FAILED}
    assert all(one.error for one in ended)
    world.drive_all()
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("action", [Action.START, Action.RESTART])
def test_a_virtual_cluster_s_node_that_somebody_waits_for_is_told_when_it_fails(action: Action) -> None:
    world = World()
    world.ec2.capacity(0)
    world.write({"virtualClusterId": "vc", "replicaSets": {"4c8g": 1}})
    [creating] = [Run(world, one) for one in world.workflows.live.values()]
    asked, [result] = world.manage(action, names=["ondemand-1"])
    run_in_turns(world, [creating, Run(world, asked)])
    ended = world.operation(asked.id)
    assert (ended.state is FAILED) is not bool(result.error)
    world.settle()
    assert not any(node.name == "ondemand-1" and node.status is NodeStatus.FAILED for node in world.nodes())
    assert invariants.at_rest(world) == []


def test_a_start_of_nodes_of_which_some_fail_says_how_many() -> None:
    world = World()
    world.ec2.capacity(2)
    creating, _ = world.create(3)
    starting, _ = world.manage(Action.START, filter='Template === "ondemand"')
    run_in_turns(world, [Run(world, creating), Run(world, starting)])
    ended = world.operation(starting.id)
    assert (ended.state, ended.succeeded, ended.failed) == (OperationState.PARTIALLY_SUCCEEDED, 2, 1)
    assert "InsufficientInstanceCapacity" in ended.error


def test_an_operation_whose_nodes_paddock_gives_up_has_not_succeeded() -> None:
    """EC2 takes the instance back before the node is Ready."""
    world = World(nodearray("spot", interruptible=True))
    world.ec2.configure(boot_seconds=1e9)
    creating, _ = world.create(1, array="spot")
    run = Run(world, creating)
    run.go()
    starting, _ = world.manage(Action.START, names=["spot-1"])
    [node] = world.nodes()
    world.hear(interrupted=[node.instance_id])
    run_in_turns(world, [run, Run(world, starting)])
    ended = [world.operation(one.id) for one in (creating, starting)]
    assert [one.state for one in ended] == [FAILED] * 2
    assert all("EC2 takes its spot instance back" in one.error for one in ended)
    world.drive_all()
    assert world.nodes() == []
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("second", [Action.DEALLOCATE, Action.TERMINATE, Action.REMOVE, Action.SHUTDOWN])
@pytest.mark.parametrize("first", [Action.DEALLOCATE, Action.TERMINATE, Action.REMOVE, Action.SHUTDOWN])
def test_of_two_operations_whose_instance_will_not_end_neither_has_succeeded_and_one_writes(
    first: Action, second: Action
) -> None:
    world = World()
    [node] = world.ready(1)
    world.ec2.protect(node.instance_id)
    world.ec2.fail_next("StopInstances", "IncorrectInstanceState", times=100_000)
    runs = [Run(world, world.manage(action, names=[node.name])[0]) for action in (first, second)]
    run_in_turns(world, runs, seconds=30)
    before, after = (world.operation(run.id) for run in runs)
    if after.total and goal_of(node, before) is not goal_of(node, after):
        assert before.state is SUCCEEDED or before.error
    elif after.total:
        assert (before.state, after.state) == (FAILED, FAILED)
    [left] = world.nodes()
    is_terminating = left.target_state is TargetState.TERMINATED
    assert left.status is (NodeStatus.FAILED if is_terminating else NodeStatus.READY)
    assert left.managing_operation_id == (after if after.total else before).id
    world.ec2.reset_faults()
    world.ec2.protect(node.instance_id, protected=False)
    world.settle()
    assert invariants.at_rest(world) == []


def test_to_deallocate_twice_is_to_deallocate_and_says_so() -> None:
    world = World()
    [node] = world.ready(1)
    runs = [Run(world, world.manage(Action.DEALLOCATE, ids=[node.id])[0]) for _ in range(2)]
    run_in_turns(world, runs)
    assert [world.operation(run.id).state for run in runs] == [SUCCEEDED] * 2
    [after] = world.nodes()
    assert (after.status, after.target_state) == (NodeStatus.DEALLOCATED, TargetState.DEALLOCATED)
    assert after.status_message == ""


@pytest.mark.parametrize("other", [Action.START, Action.RESTART])
def test_a_restart_reboots_though_another_operation_took_hold_of_the_node(other: Action) -> None:
    world = World()
    [node] = world.ready(1)
    runs = [Run(world, world.manage(action, ids=[node.id])[0]) for action in (Action.RESTART, other)]
    run_in_turns(world, runs)
    instance = world.ec2.snapshot()["instances"][node.instance_id]
    assert instance["reboots"] == (1 if other is Action.START else 2)


def ends(operation: Operation) -> bool:
    return operation.action in (Action.TERMINATE, Action.REMOVE, Action.SHUTDOWN)
