"""The reconciler: what has come off its way is brought back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from paddock.errors import WorkflowsUnavailable
from paddock.model.identity import OperationId
from paddock.model.node_observation import UNSEEN_GRACE_NS
from paddock.model.operation import DEADLINE_NS, OperationState
from paddock.model.time import SECOND_NS
from paddock.ports.repository import Put, WriteConflictError
from paddock.reconcile.expiration import WORKFLOW_GRACE_NS
from paddock.reconcile.resume import REQUEST_GRACE_NS, resume
from paddock.reconcile.run import Report
from tests.fakes import invariants
from tests.fakes.ec2 import ANSWER_LOST
from tests.fakes.world import World

if TYPE_CHECKING:
    from paddock.model.operation import Operation

REQUEST_GRACE = REQUEST_GRACE_NS / SECOND_NS
OVERDUE = (DEADLINE_NS + WORKFLOW_GRACE_NS) / SECOND_NS


def unheard(world: World, count: int = 2) -> Operation:
    """A create whose workflow could not be started."""
    world.workflows.unavailable = True
    operation, _ = world.create(count)
    world.workflows.unavailable = False
    return operation


def test_a_request_succeeds_also_where_the_workflow_service_is_away() -> None:
    world = World()
    operation = unheard(world)
    assert world.operation(operation.id).is_running
    assert len(world.nodes()) == 2
    assert not world.workflows.live


def test_an_operation_without_an_execution_is_started_after_a_while() -> None:
    world = World()
    operation = unheard(world)
    assert world.reconcile() == Report(seen=1)
    assert not world.workflows.live
    world.clock.advance(REQUEST_GRACE)
    assert world.reconcile() == Report(seen=1, resumed=1)
    assert world.operation(operation.id).attempt == 2
    assert world.reconcile() == Report(seen=1)
    world.drive_all()
    assert world.operation(operation.id).state is OperationState.SUCCEEDED
    assert world.reconcile() == Report()
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_an_operation_whose_execution_was_lost_is_started_again(steps: int) -> None:
    world = World()
    operation, _ = world.create(2)
    for task in ["launch", "poll"][:steps]:
        world.step(task, operation.id)
    world.workflows.live.clear()
    world.clock.advance(REQUEST_GRACE)
    for attempt in (2, 3, 4):
        assert world.reconcile().resumed == 1
        assert world.operation(operation.id).attempt == attempt
        if attempt < 4:
            world.workflows.live.clear()
    world.drive_all()
    assert len(world.alive()) == 2
    assert invariants.at_rest(world) == []


def test_an_operation_whose_execution_lives_is_left_alone() -> None:
    world = World()
    operation, _ = world.create(1)
    world.clock.advance(REQUEST_GRACE * 10)
    before = world.operation(operation.id)
    assert world.reconcile() == Report(seen=1)
    assert world.operation(operation.id) == before


def test_of_two_reconcilers_one_counts_the_attempt_and_starts_it() -> None:
    world = World()
    operation = unheard(world)
    world.clock.advance(REQUEST_GRACE)
    stale = world.operation(operation.id)
    assert resume(world.store, world.workflows, stale)
    world.workflows.live.clear()
    with pytest.raises(WriteConflictError):
        resume(world.store, world.workflows, stale)
    assert world.operation(operation.id).attempt == 2
    assert not world.workflows.live


def test_many_reconcilers_at_once_start_each_operation_once() -> None:
    world = World()
    operations = [unheard(world) for _ in range(5)]
    world.clock.advance(REQUEST_GRACE)
    with ThreadPoolExecutor(8) as pool:
        reports = [future.result() for future in [pool.submit(world.reconcile) for _ in range(8)]]
    assert sum(report.resumed for report in reports) == 5
    assert sum(report.failed for report in reports) == 0
    assert {world.operation(one.id).attempt for one in operations} == {2}
    assert len(world.workflows.started) == 5


def test_one_failure_stops_no_other() -> None:
    world = World()
    for _ in range(3):
        unheard(world)
    world.clock.advance(REQUEST_GRACE)
    world.workflows.unavailable = True
    assert world.reconcile() == Report(seen=3, failed=3)
    world.workflows.unavailable = False
    assert world.reconcile().resumed == 3


# Past the deadline.


def test_an_operation_long_past_its_deadline_is_ended_also_without_a_workflow() -> None:
    world = World()
    operation = unheard(world)
    world.clock.advance(OVERDUE)
    assert world.reconcile() == Report(seen=1, expired=1)
    assert world.operation(operation.id).state is OperationState.FAILED
    assert not world.workflows.live
    assert world.ec2.calls["CreateFleet"] == 0
    assert invariants.at_rest(world) == []


def test_the_workflow_is_given_time_to_end_its_operation_itself() -> None:
    world = World()
    world.create(1)
    world.clock.advance(OVERDUE - 10)
    assert world.reconcile() == Report(seen=1)
    assert WORKFLOW_GRACE_NS > UNSEEN_GRACE_NS


def test_nodes_that_hang_are_ended_with_their_operation() -> None:
    world = World()
    world.ec2.configure(boot_seconds=1e9)
    operation, _ = world.create(2)
    world.step("launch", operation.id)
    world.workflows.live.clear()
    world.clock.advance(OVERDUE)
    assert world.reconcile().expired == 1
    world.drive_all()
    assert world.nodes() == []
    assert not world.alive()
    assert invariants.at_rest(world) == []


@pytest.mark.proves("killed in the middle of a launch: adopted or ended, never pending for ever")
def test_what_a_dead_execution_launched_unheard_is_ended() -> None:
    world = World()
    operation, _ = world.create(2)
    world.ec2.fail_next("CreateFleet", ANSWER_LOST, after_effect=True)
    world.step("launch", operation.id)
    world.workflows.live.clear()
    world.clock.advance(OVERDUE)
    # It fails for the listing of all clusters, and then for the operation.
    world.ec2.fail_next("DescribeInstances", "RequestLimitExceeded", times=2)
    assert world.reconcile() == Report(seen=1)
    assert world.operation(operation.id).is_running
    assert world.reconcile() == Report(seen=1, expired=1, orphans=2)
    assert world.operation(operation.id).state is OperationState.FAILED
    assert not world.alive()
    assert invariants.at_rest(world) == []


def test_a_termination_whose_execution_was_lost_for_long_gets_more_time() -> None:
    world = World()
    world.ready(2)
    operation, _ = world.terminate(names=["ondemand-1", "ondemand-2"])
    world.workflows.live.clear()
    world.clock.advance(OVERDUE)
    assert world.reconcile() == Report(seen=1, resumed=1)
    world.drive_all()
    assert world.operation(operation.id).state is OperationState.SUCCEEDED
    assert not world.alive()
    assert invariants.at_rest(world) == []


def test_an_instance_that_will_not_end_leaves_its_node_failed_and_counted() -> None:
    world = World()
    [node] = world.ready(1)
    world.ec2.protect(node.instance_id)
    operation, _ = world.terminate(ids=[node.id])
    rounds = 0
    while world.operation(operation.id).is_running:
        world.step("terminate", operation.id)
        world.workflows.live.clear()
        world.clock.advance(OVERDUE)
        world.reconcile()
        rounds += 1
        assert rounds < 10
    ended = world.operation(operation.id)
    assert ended.state is OperationState.FAILED
    assert "OperationNotPermitted" in ended.error
    assert invariants.at_rest(world) == []


def test_an_operation_that_is_listed_but_gone_or_over_is_passed_by() -> None:
    world = World()
    operation, _ = world.create(1)
    world.drive(operation)
    world.repository.running_operations = lambda: [operation.id, OperationId("gone")]  # type: ignore[method-assign]
    world.clock.advance(OVERDUE)
    assert world.reconcile() == Report(seen=2)


def test_an_operation_that_somebody_else_moves_on_meanwhile_is_left_to_them() -> None:
    world = World()
    operation = unheard(world)
    world.clock.advance(REQUEST_GRACE)
    is_live = world.workflows.is_live

    def slow(operation: Operation) -> bool:
        stored = world.operation(operation.id)
        world.store.commit(Put(stored, was=stored))
        return is_live(operation)

    world.workflows.is_live = slow  # type: ignore[method-assign]
    assert world.reconcile() == Report(seen=1)
    assert world.operation(operation.id).attempt == 1


def test_an_operation_that_cannot_be_read_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    operations = [world.create(1)[0] for _ in range(3)]
    world.workflows.live.clear()
    world.clock.advance(120)
    read, broken = world.repository.operation, world.repository.running_operations()[0]

    def operation(operation_id: OperationId) -> Operation | None:
        if operation_id == broken:
            raise ValueError("no such kind of record")
        return read(operation_id)

    monkeypatch.setattr(world.repository, "operation", operation)
    report = world.reconcile()
    assert (report.seen, report.resumed, report.failed) == (len(operations), 2, 1)


def test_what_passes_by_itself_is_told_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    world.create(1)
    world.clock.advance(2 * REQUEST_GRACE_NS / SECOND_NS)

    def throttled(_: Operation) -> bool:
        raise WorkflowsUnavailable("too many calls")

    monkeypatch.setattr(world.workflows, "is_live", throttled)
    assert world.reconcile().failed == 1
    assert [record.exc_info for record in caplog.records if record.exc_info] == []
