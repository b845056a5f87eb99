"""Instances that no node has: ended, once it is sure that they are ours and nobody's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock.clusters.write import delete_cluster
from paddock.model.identity import ClusterName, InstanceId, OperationId, new_operation_id
from paddock.model.node import NodeStatus
from paddock.model.node_observation import UNSEEN_GRACE_NS
from paddock.model.operation import Action
from paddock.model.time import SECOND_NS
from paddock.ports.compute import LaunchRequest
from paddock.reconcile.garbage_collection import ORPHAN_GRACE_NS
from paddock.reconcile.run import Report
from tests.fakes import invariants
from tests.fakes.ec2 import ANSWER_LOST
from tests.fakes.world import CLUSTER, World

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.node import Node

GRACE = ORPHAN_GRACE_NS / SECOND_NS


def launch(
    world: World, cluster: ClusterName = CLUSTER, operation_id: OperationId = OperationId(""), count: int = 1
) -> Sequence[InstanceId]:
    """Launch instances of which no record tells, long ago."""
    request = LaunchRequest(
        client_token=f"lost-{world.clock.now()}",
        cluster=cluster,
        operation_id=operation_id or new_operation_id(world.clock.now()),
        count=count,
        instance_type="c7i.xlarge",
        launch_template_id="lt-0123456789abcdef0",
        launch_template_version="1",
        subnet_ids=("subnet-00000001",),
    )
    return world.compute.launch(request).instance_ids


def tag(world: World, instance_id: InstanceId, **tags: str) -> None:
    named = [{"Key": f"paddock:{name}", "Value": value} for name, value in tags.items()]
    world.ec2.call("CreateTags", {"Resources": [instance_id], "Tags": named})


def test_an_instance_without_a_node_is_ended_after_a_while() -> None:
    world = World()
    world.ready(2)
    launch(world, count=3)
    assert world.reconcile() == Report()
    world.clock.advance(GRACE)
    assert world.reconcile() == Report(orphans=3)
    assert world.reconcile() == Report()
    assert len(world.alive()) == 2
    assert world.ec2.calls["TerminateInstances"] == 1


def test_one_of_a_cluster_that_is_gone_is_ended_too() -> None:
    world = World()
    launch(world, cluster=ClusterName("gone"))
    delete_cluster(world.store, CLUSTER, None)
    launch(world)
    world.clock.advance(GRACE)
    assert world.reconcile() == Report(orphans=2)
    assert not world.alive()
    world.clock.advance(60)
    calls = world.ec2.calls["DescribeInstances"]
    assert world.reconcile() == Report()
    assert world.ec2.calls["DescribeInstances"] == calls + 1


@pytest.mark.parametrize(
    "tags", [{"deployment": "another"}, {"deployment": ""}, {"operation": ""}, {"cluster": ""}]
)
def test_an_instance_that_another_launched_is_none_of_ours(tags: dict[str, str]) -> None:
    world = World()
    [foreign] = launch(world)
    tag(world, foreign, **tags)
    world.clock.advance(GRACE)
    assert world.reconcile() == Report()
    assert world.alive() == {foreign}


def test_while_an_operation_runs_its_instances_are_its_own() -> None:
    world = World()
    operation, _ = world.create(1)
    world.ec2.fail_next("CreateFleet", ANSWER_LOST, after_effect=True)
    world.step("launch", operation.id)
    world.clock.advance(GRACE)
    assert world.reconcile() == Report(seen=1)
    assert len(world.alive()) == 1
    world.drive_all()
    assert [node.status for node in world.nodes()] == [NodeStatus.READY]
    assert world.reconcile() == Report()
    assert invariants.at_rest(world) == []


def test_one_that_gets_its_node_while_the_reconciler_looks_is_not_ended() -> None:
    """The operation has not written it down when nodes are read, and has ended when operations are."""
    world = World()
    operation, _ = world.create(1)
    world.ec2.fail_next("CreateFleet", ANSWER_LOST, after_effect=True)
    world.step("launch", operation.id)
    world.clock.advance(GRACE)
    read = world.repository.nodes

    def nodes(*arguments: object) -> Sequence[Node]:
        found = read(*arguments)  # type: ignore[arg-type]
        world.repository.nodes = read  # type: ignore[method-assign]
        world.drive_all()
        return found

    world.repository.nodes = nodes  # type: ignore[method-assign, assignment]
    assert world.reconcile().orphans == 0
    assert [node.status for node in world.nodes()] == [NodeStatus.READY]
    assert invariants.at_rest(world) == []


def test_an_instance_that_comes_back_after_its_node_was_given_up_is_ended() -> None:
    world = World()
    [node] = world.ready(1)
    there = world.ec2.snapshot()
    world.ec2.lose(node.instance_id)
    world.reconcile()
    world.clock.advance(max(GRACE, UNSEEN_GRACE_NS / SECOND_NS))
    assert world.reconcile() == Report(noticed=1)
    world.ec2.restore(there)
    assert world.reconcile() == Report(orphans=1)
    assert not world.alive()
    assert invariants.at_rest(world) == []


def test_stopped_instances_of_nodes_are_not_orphans_but_those_of_nobody_are() -> None:
    world = World()
    [node] = world.ready(1)
    operation, _ = world.manage(Action.DEALLOCATE, ids=[node.id])
    world.drive(operation)
    [lost] = launch(world)
    world.clock.advance(GRACE)
    world.ec2.call("StopInstances", {"InstanceIds": [lost]})
    world.clock.advance(60)
    assert world.reconcile() == Report(orphans=1)
    assert world.existing() == {node.instance_id}


def test_a_protected_one_holds_back_no_other_and_is_asked_for_and_told_of_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    kept, *others = launch(world, count=5)
    world.ec2.protect(kept)
    world.clock.advance(GRACE)
    assert world.reconcile() == Report(orphans=1 + len(others))
    [told] = [one for one in caplog.records if one.message == "ended instances that no node had"]
    assert (sorted(told.ended), list(told.refused)) == (sorted(others), [kept])  # type: ignore[attr-defined]
    assert world.alive() == {kept}
    assert world.reconcile() == Report(orphans=1)
    world.ec2.protect(kept, protected=False)
    assert world.reconcile() == Report(orphans=1)


def test_throttled_it_is_left_to_the_next_run() -> None:
    world = World()
    launch(world)
    world.clock.advance(GRACE)
    world.ec2.fail_next("TerminateInstances", "RequestLimitExceeded")
    assert world.reconcile() == Report(failed=1)
    assert world.reconcile() == Report(orphans=1)


def test_the_operation_of_an_instance_may_have_ended_or_be_unknown() -> None:
    world = World()
    operation, _ = world.create(1)
    ended = world.drive(operation)
    launch(world, operation_id=ended.id)
    launch(world, operation_id=replace(ended, id=new_operation_id(world.clock.now())).id)
    world.clock.advance(GRACE)
    assert world.reconcile() == Report(orphans=2)
    assert world.alive() == {node.instance_id for node in world.nodes()}


def test_what_was_launched_by_hand_like_one_of_ours_is_never_ended() -> None:
    """It bears copies of all our tags, and only EC2 can give the tag of a fleet."""
    world = World()
    [node] = world.ready(1)
    copies = {world.ec2.copy(node.instance_id) for _ in range(2)}
    world.clock.advance(GRACE)
    assert world.reconcile() == Report()
    operation, _ = world.terminate(ids=[node.id])
    world.drive(operation)
    world.clock.advance(GRACE)
    world.settle()
    assert world.alive() == copies
