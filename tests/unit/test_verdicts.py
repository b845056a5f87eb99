"""A verdict on a node is written as it was judged, or not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock.model.identity import InstanceId
from paddock.model.node import NodeStatus
from paddock.model.node_lifecycle import failed, failing
from paddock.ports.repository import Put
from paddock.store.release import write_verdicts
from tests.fakes import invariants
from tests.fakes.world import CLUSTER, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.model.node import Node


def lost(node: Node) -> Node:
    return failed(node, "lost")


@pytest.mark.parametrize("verdict", [failed, failing])
def test_a_node_that_fails_leaves_its_virtual_cluster_and_gives_its_limits_back_with_its_instance(
    verdict: Callable[[Node, str], Node],
) -> None:
    world = World()
    world.ready(3)
    world.claim("vc", x4c8g=2)
    member = next(node for node in world.nodes() if node.virtual_cluster)
    write_verdicts(world.store, CLUSTER, [member], lambda node: verdict(node, "lost"))
    assert [node.status for node in world.nodes()].count(NodeStatus.FAILED) == 1
    assert member.id not in world.held("vc").node_instances
    assert not invariants.always(world)


def test_a_node_that_has_another_instance_by_then_is_left_alone() -> None:
    world = World()
    world.ready(1)
    [judged] = world.nodes()
    world.store.commit(Put(replace(judged, instance_id=InstanceId("i-other")), was=judged))
    write_verdicts(world.store, CLUSTER, [judged], lost)
    assert [(node.status, node.instance_id) for node in world.nodes()] == [(NodeStatus.READY, "i-other")]


def test_a_node_that_is_judged_otherwise_when_it_is_read_again_is_left_alone() -> None:
    """A node that was kept alive, for example, while its instance was looked for."""
    world = World()
    world.ready(1)
    [judged] = world.nodes()
    world.store.commit(Put(replace(judged, keep_alive=True), was=judged))
    [changed] = world.nodes()
    verdicts = write_verdicts(
        world.store, CLUSTER, [judged], lambda node: node if node.keep_alive else lost(node)
    )
    assert world.nodes() == [changed]
    assert verdicts == {judged.id: changed}


def test_a_node_that_is_to_be_removed_at_the_second_look_alone_is_left_alone() -> None:
    """Its create may not be on record yet, which is looked after for the first verdicts."""
    world = World()
    world.ready(1)
    [judged] = world.nodes()
    world.terminate(names=[judged.name])
    before = world.nodes()
    write_verdicts(world.store, CLUSTER, [judged], lambda node: lost(node) if node.is_wanted else None)
    assert world.nodes() == before


def test_a_sighting_of_a_node_that_has_changed_meanwhile_is_not_written() -> None:
    world = World()
    world.ready(2)
    judged, other = world.nodes()
    world.store.commit(Put(replace(judged, keep_alive=True), was=judged))
    changed, _ = world.nodes()
    verdicts = write_verdicts(
        world.store, CLUSTER, [judged, other], lambda node: replace(node, unseen_since=1)
    )
    assert verdicts == {judged.id: judged, other.id: replace(other, unseen_since=1)}
    assert [(node.keep_alive, node.unseen_since) for node in world.nodes()] == [(True, 0), (False, 1)]
    assert world.nodes()[0] == changed
