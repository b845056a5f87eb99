"""What a machine is told of itself, and what it is not told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paddock.model.identity import InstanceId
from paddock.model.operation import Action
from tests.fakes.api import ACCOUNT, ask, serve
from tests.fakes.stored import StoredRepository
from tests.fakes.world import CLUSTER, World, bucket, nodearray

FIELDS = {
    *("Name", "NodeId", "ClusterName", "Template", "MachineType", "PlacementGroupId", "VirtualCluster"),
    *("Configuration", "peers"),
}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(nodearray("a", bucket(), bucket("c7i-large")), nodearray("b"))
    serve(world, monkeypatch)
    return world


def me(instance_id: str, account: str = ACCOUNT, role: str = "compute") -> tuple[int, Any]:
    return ask("GET", "/self", {"caller": f"arn:aws:sts::{account}:assumed-role/{role}/{instance_id}"})


def test_each_machine_learns_which_node_it_is_and_nothing_of_others(world: World) -> None:
    nodes = world.ready(3, array="a")
    world.claim("vc", x4c8g=1)
    for node in world.nodes():
        status, told = me(node.instance_id)
        assert (status, told.keys()) == (200, FIELDS)
        assert (told["Name"], told["NodeId"], told["ClusterName"]) == (node.name, node.id, CLUSTER)
        assert told["VirtualCluster"] == (node.virtual_cluster or None)
        assert (told["Template"], told["PlacementGroupId"], told["peers"]) == ("a", None, [])
    assert len({node.instance_id for node in nodes}) == 3


def test_peers_are_the_others_of_the_same_placement_group(world: World) -> None:
    ring = [
        *world.ready(2, array="a", placementGroupId="ring"),
        *world.ready(1, array="a", placementGroupId="ring"),
    ]
    world.ready(1, array="a", placementGroupId="other")
    world.ready(1, array="b", placementGroupId="ring")
    world.ready(1, array="a")
    first, *others = ring
    told = me(first.instance_id)[1]["peers"]
    expected = [{"Name": one.name, "PrivateIp": one.private_ip} for one in others]
    assert sorted(told, key=str) == sorted(expected, key=str)


def test_a_peer_that_ends_is_told_no_more(world: World) -> None:
    first, second = world.ready(2, array="a", placementGroupId="ring")
    world.terminate(ids=[second.id])
    assert me(first.instance_id)[1]["peers"] == []


def test_a_reimaged_node_s_new_machine_is_known_and_its_old_one_is_not(world: World) -> None:
    [before] = world.ready(1, array="a")
    operation, _ = world.manage(Action.REIMAGE, ids=[before.id])
    world.drive(operation)
    [after] = world.nodes()
    assert me(after.instance_id)[1]["NodeId"] == before.id
    assert me(before.instance_id)[0] == 404


def test_a_machine_is_known_for_longer_than_its_operation(world: World) -> None:
    [node] = world.ready(1, array="a")
    world.forget(world.operation(node.created_by))
    assert me(node.instance_id)[1]["NodeId"] == node.id


def test_a_machine_costs_the_reads_of_its_batch_and_not_of_all_that_were_launched_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten thousand machines that boot must not read ten thousand nodes each; here 1,100 in three batches."""
    world = World(nodearray("a", bucket()), stored=True)
    serve(world, monkeypatch)
    nodes = world.ready(1_100, array="a")
    assert isinstance(world.repository, StoredRepository)
    table = world.repository.table
    for node in (nodes[0], nodes[600], nodes[1_099]):
        table.items.clear()
        assert me(node.instance_id)[1]["NodeId"] == node.id
        # A batch has at most 500 nodes; the operation and the cluster's machine come with them.
        assert table.items.total() <= 500 + 3


@pytest.mark.proves("GET /self: 404")
def test_who_is_no_instance_of_a_node_is_told_nothing(world: World) -> None:
    [node] = world.ready(1, array="a")
    operation, _ = world.terminate(ids=[node.id])
    world.drive(operation)
    [other] = world.ready(1, array="a")
    assert me(node.instance_id)[0] == 404
    assert me("i-0123456789abcdef0")[0] == 404
    assert me(other.instance_id, account="210987654321")[0] == 404
    for session in ("admin", f"{other.instance_id}x", f"x/{other.instance_id}", ""):
        assert me(session)[0] == 404
    assert ask("GET", "/self", {"caller": f"arn:aws:iam::{ACCOUNT}:user/{other.instance_id}"})[0] == 404
    assert ask("GET", "/self", {})[0] == 404


def test_an_instance_that_only_bears_a_node_s_tags_is_not_that_node(world: World) -> None:
    [node] = world.ready(1, array="a")
    moved = replace(node, instance_id=InstanceId("i-0fedcba9876543210"), revision=node.revision + 1)
    world.forget(node)
    world.plant(moved)
    assert me(node.instance_id)[0] == 404
