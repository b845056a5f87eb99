"""Instances that are still there when their nodes' terminations have given up."""

from __future__ import annotations

import pytest

from paddock.model.node import NodeStatus
from paddock.model.operation import Action, OperationState
from paddock.reconcile.run import Report
from tests.fakes import invariants
from tests.fakes.world import World, nodearray

MINUTE = 60


def pass_minutes(world: World, minutes: int) -> None:
    for _ in range(minutes):
        world.clock.advance(MINUTE)
        world.reconcile()
        world.drive_all()


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "Unavailable"])
def test_what_ec2_would_not_hear_of_for_half_an_hour_is_ended_when_it_does(code: str) -> None:
    """Nobody else would ask once more: here Paddock itself ends a node that is idle."""
    world = World(idleTimeoutSeconds=MINUTE)
    world.ready(1)
    world.claim("vc", x4c8g=1)
    world.release("vc")
    world.clock.advance(2 * MINUTE)
    world.ec2.fail_next("TerminateInstances", code, times=10_000)
    world.reconcile()
    world.drive_all()
    [node] = world.nodes()
    assert (node.status, node.uses_limits, len(world.alive())) == (NodeStatus.FAILED, True, 1)
    pass_minutes(world, 2)
    world.ec2.reset_faults()
    pass_minutes(world, 2)
    assert world.nodes() == []
    assert world.existing() == set()
    assert invariants.at_rest(world) == []


def test_what_is_protected_ends_as_soon_as_it_is_not(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    node, _ = world.ready(2)
    world.ec2.protect(node.instance_id)
    ending, _ = world.terminate(ids=[node.id])
    assert world.drive(ending).state is OperationState.FAILED
    assert world.reconcile() == Report()
    [told] = [
        one for one in caplog.records if one.message == "ended instances that outlived their termination"
    ]
    assert (told.ended, list(told.refused)) == ([], [node.instance_id])  # type: ignore[attr-defined]
    assert len(world.alive()) == 2
    world.ec2.protect(node.instance_id, protected=False)
    assert world.reconcile() == Report(noticed=1)
    pass_minutes(world, 1)
    assert len(world.nodes()) == len(world.alive()) == 1


def test_what_another_termination_has_taken_hold_of_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    [node] = world.ready(1)
    world.ec2.protect(node.instance_id)
    ending, _ = world.terminate(ids=[node.id])
    world.drive(ending)
    read = world.repository.nodes_by_id
    asked = world.ec2.calls["TerminateInstances"]

    def late(*given: object) -> object:
        monkeypatch.undo()
        world.manage(Action.TERMINATE, ids=[node.id])
        return read(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(world.repository, "nodes_by_id", late)
    world.reconcile()
    assert world.ec2.calls["TerminateInstances"] == asked


def test_a_termination_that_was_throttled_is_asked_for_again_at_the_next_look() -> None:
    world = World()
    [node] = world.ready(1)
    ending, _ = world.terminate(ids=[node.id])
    world.ec2.fail_next("TerminateInstances", "RequestLimitExceeded")
    assert world.step("terminate", ending.id)[0] == "wait"
    assert world.step("poll", ending.id, 1)[0] == "terminate"


def test_one_that_was_refused_or_has_notice_is_not_asked_for_at_each_look() -> None:
    world = World(nodearray(), nodearray("spot", interruptible=True))
    [kept] = world.ready(1)
    world.ec2.protect(kept.instance_id)
    ending, _ = world.terminate(ids=[kept.id])
    [leaving] = world.ready(1, array="spot")
    world.hear(interrupted=[leaving.instance_id])
    [warned] = [one for one in invariants.operations(world) if one.forced]
    for operation in (ending, warned):
        world.step("terminate", operation.id)
        assert world.step("poll", operation.id, 1)[0] == "wait"
