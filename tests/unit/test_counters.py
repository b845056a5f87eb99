"""The ledger is mended where the nodes do not bear it out, and never because of what is on its way."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock.model.ledger import BucketUse, Ledger
from paddock.model.operation import Action
from paddock.ports.repository import Put, WriteConflictError
from paddock.reconcile import ledger as counters
from paddock.reconcile.ledger import mend
from paddock.reconcile.run import Report
from tests.fakes import invariants
from tests.fakes.world import CLUSTER, World, bucket, nodearray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.identity import OperationId
    from paddock.model.node import Node
    from paddock.model.operation import Operation


def ledger(world: World) -> Ledger:
    found = world.repository.ledger(CLUSTER)
    assert found is not None
    return found


def drift(world: World, after: Ledger) -> None:
    """Write what no use case writes."""
    world.store.commit(Put(after, was=ledger(world)))


def busy() -> World:
    """Nodes of all kinds, in two buckets and a placement group."""
    world = World(nodearray("ondemand", bucket(), bucket("c7i-2xlarge")))
    world.ready(3)
    world.ready(2, placementGroupId="ring", definition={"machineType": "c7i-2xlarge"})
    world.ready(1, nameFormat="head")
    operation, _ = world.create(2, nodeAttributes={"StartAutomatically": False})
    world.drive(operation)
    operation, _ = world.manage(Action.DEALLOCATE, names=["ondemand-1", "ondemand-4"])
    world.drive(operation)
    return world


DRIFTS = {
    "too many": lambda one: one.with_use(
        next(iter(one.buckets)), one.use(next(iter(one.buckets))).changed(active=2, nodes=2)
    ),
    "too few": lambda one: one.with_use(next(iter(one.buckets)), BucketUse(active=1, nodes=1)),
    "an unused bucket": lambda one: one.with_use("bucket-of-old", BucketUse(active=1, nodes=1)),
    "a name too many": lambda one: replace(one, names={**one.names, "lost-": "1-3"}),
    "no names": lambda one: replace(one, names={}),
    "a placement group too many": lambda one: replace(
        one, placement_groups={**one.placement_groups, "ondemand/old": 1}
    ),
    "no placement groups": lambda one: replace(one, placement_groups={}),
}


def test_a_ledger_that_is_right_is_left_alone() -> None:
    world = busy()
    before = ledger(world)
    assert world.reconcile() == Report()
    assert ledger(world) == before


@pytest.mark.parametrize("change", DRIFTS.values(), ids=DRIFTS)
def test_a_ledger_that_differs_is_mended_loudly(change: object, caplog: pytest.LogCaptureFixture) -> None:
    world = busy()
    drift(world, change(ledger(world)))  # type: ignore[operator]
    assert invariants.at_rest(world) != []
    assert world.reconcile().mended == 1
    [told] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert told.getMessage() == "the ledger differs from the nodes"
    assert invariants.at_rest(world) == []
    assert world.reconcile() == Report()


def test_a_create_whose_nodes_are_not_on_record_yet_is_no_drift() -> None:
    world = busy()
    operation, _ = world.create(5)
    world.forget(*world.repository.nodes_made_by(operation))
    world.workflows.live.clear()
    before = ledger(world)
    world.workflows.unavailable = True
    assert world.reconcile().mended == 0
    assert ledger(world) == before
    # Beside it, a real difference is still found, and the create's part is kept.
    drift(world, replace(before, names={}))
    assert world.reconcile().mended == 1
    assert ledger(world).names == before.names
    world.workflows.unavailable = False
    world.clock.advance(120)
    world.reconcile()
    world.drive_all()
    assert invariants.at_rest(world) == []


def test_a_create_that_is_on_its_way_meanwhile_is_no_drift() -> None:
    """Its nodes are written, launched and some of them removed between the reconciler's two looks."""
    world = World()
    operation, _ = world.create(3)
    world.forget(*world.repository.nodes_made_by(operation))
    right = ledger(world)
    drift(world, replace(right, names={}))
    before = ledger(world)
    read = world.repository.operation
    looks: list[str] = []

    def look(operation_id: OperationId) -> Operation | None:
        found = read(operation_id)
        if not looks:
            looks.append(operation_id)
            world.step("launch", operation.id)
            world.drive(world.terminate(names=["ondemand-2"])[0])
        return found

    world.repository.operation = look  # type: ignore[method-assign]
    with pytest.raises(WriteConflictError):
        mend(world.store, before, [])
    assert looks[0] == operation.id
    assert world.reconcile().mended == 1
    world.drive_all()
    assert invariants.at_rest(world) == []


def test_a_create_counts_however_far_the_index_is_behind_and_however_long_its_request_sleeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = busy()
    operation, _ = world.create(5)
    world.forget(*world.repository.nodes_made_by(operation)[2:])
    before = ledger(world)
    drift(world, replace(before, names={}))
    monkeypatch.setattr(world.repository, "running_operations", list)
    world.clock.advance(5 * 3_600)
    assert mend(world.store, ledger(world), world.nodes())
    after = ledger(world)
    assert (after.buckets, after.names) == (before.buckets, before.names)
    assert after.unrecorded == (operation.id,)


def test_creates_that_are_on_record_are_taken_out_before_the_list_is_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counters, "MANY_UNRECORDED", 3)
    world = World(nodearray(maxCount=20))
    for _ in range(3):
        assert world.reconcile().mended == 0
        world.ready(1)
    waiting, _ = world.create(1)
    assert len(ledger(world).unrecorded) == 4
    assert world.reconcile().mended == 0
    assert ledger(world).unrecorded == (waiting.id,)
    assert invariants.always(world) == []


def test_a_node_that_a_create_no_longer_has_is_not_counted_while_it_runs() -> None:
    world = World()
    world.ec2.configure(boot_seconds=1e9)
    operation, _ = world.create(2)
    world.step("launch", operation.id)
    ending, _ = world.terminate(names=["ondemand-1"])
    world.drive(ending)
    drift(world, replace(ledger(world), names={}))
    assert world.reconcile().mended == 1
    assert world.operation(operation.id).is_running
    assert ledger(world).names == {"ondemand-": "2"}
    assert ledger(world).node_count == 1


def test_a_change_between_the_look_and_the_mending_wins(caplog: pytest.LogCaptureFixture) -> None:
    world = busy()
    drift(world, replace(ledger(world), names={}))
    read, uses_limits = world.repository.nodes, []

    def nodes(*arguments: object) -> Sequence[Node]:
        found = read(*arguments)  # type: ignore[arg-type]
        uses_limits.append(1)
        if len(uses_limits) == 2:
            drift(world, ledger(world))
        return found

    world.repository.nodes = nodes  # type: ignore[method-assign, assignment]
    assert world.reconcile() == Report()
    # Nothing was found to be wrong, so nobody is told that it was.
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []
    assert world.reconcile().mended == 1


def test_a_placement_group_that_waits_for_its_deletion_is_no_drift() -> None:
    world = World()
    world.ready(1, placementGroupId="ring")
    world.ec2.fail_next("DeletePlacementGroup", "RequestLimitExceeded", times=9)
    operation, _ = world.terminate(names=["ondemand-1"])
    world.drive(operation)
    assert ledger(world).placement_groups == {"ondemand/ring": 0}
    assert world.reconcile() == Report(failed=1)
    assert ledger(world).placement_groups == {"ondemand/ring": 0}
