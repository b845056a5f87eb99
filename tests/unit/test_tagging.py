"""Instances bear their node's name and id where the node array wants it, and no node waits for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from paddock.model.node import NodeStatus
from paddock.model.operation import Action, OperationState
from paddock.model.time import SECOND_NS
from paddock.nodes.tags import TAGS_PER_POLL, TAGS_PER_RUN
from tests.fakes.compute import InProcessEc2
from tests.fakes.world import UNLIMITED, World, nodearray

if TYPE_CHECKING:
    from paddock.model.identity import InstanceId
    from paddock.model.node import Node


@pytest.fixture
def world() -> World:
    world = World(nodearray(tagInstances=True), nodearray("plain"))
    world.rates = UNLIMITED
    return world


def tags(world: World, instance_id: InstanceId) -> dict[str, str]:
    """What EC2 has of an instance, without what each launch tags."""
    every: dict[str, str] = world.ec2.snapshot()["instances"][instance_id]["tags"]
    return {key: value for key, value in every.items() if key in ("Name", "paddock:node")}


def is_tagged(world: World, node: Node) -> bool:
    return tags(world, node.instance_id) == {"Name": node.name, "paddock:node": node.id}


def tagged(world: World) -> int:
    return sum(is_tagged(world, node) for node in world.nodes())


def test_a_node_array_s_instances_bear_their_nodes_once_they_are_ready(world: World) -> None:
    nodes = world.ready(3)
    assert [tags(world, node.instance_id) for node in nodes] == [
        {"Name": node.name, "paddock:node": node.id} for node in nodes
    ]
    assert world.ec2.calls["CreateTags"] == 3


def test_without_the_choice_nothing_is_tagged(world: World) -> None:
    [node] = world.ready(1, array="plain")
    world.reconcile()
    assert tags(world, node.instance_id) == {}
    assert world.ec2.calls["CreateTags"] == 0


def test_a_task_tags_a_portion_and_the_reconciler_the_rest_once_each(world: World) -> None:
    count = TAGS_PER_POLL + TAGS_PER_RUN + 5
    nodes = world.ready(count)
    assert {node.status for node in nodes} == {NodeStatus.READY}
    assert TAGS_PER_POLL <= tagged(world) < count
    before = tagged(world)
    world.reconcile()
    assert tagged(world) == min(count, before + TAGS_PER_RUN)
    for _ in range(3):
        world.reconcile()
    assert tagged(world) == count
    assert world.ec2.calls["CreateTags"] == count


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "InternalError", "UnauthorizedOperation"])
def test_what_is_throttled_refused_or_unanswered_keeps_no_node_from_ready(world: World, code: str) -> None:
    world.ec2.fail_next("CreateTags", code, times=1_000)
    operation, _ = world.create(30)
    polls = world.ec2.calls["DescribeInstances"]
    assert world.drive(operation).state is OperationState.SUCCEEDED
    assert {node.status for node in world.nodes()} == {NodeStatus.READY}
    # One attempt a look is all that such a day costs.
    assert world.ec2.calls["CreateTags"] <= world.ec2.calls["DescribeInstances"] - polls
    assert world.reconcile().failed == 0
    world.ec2.reset_faults()
    world.reconcile()
    assert tagged(world) == 30


def test_an_operation_takes_as_many_tasks_with_tags_as_without(world: World) -> None:
    waits = {}
    for array in ("ondemand", "plain"):
        world.ec2.fail_next("CreateTags", "RequestLimitExceeded", times=1_000)
        began = world.clock.now()
        world.ready(50, array=array)
        waits[array] = (world.clock.now() - began) // SECOND_NS
    assert waits["ondemand"] == waits["plain"]


def test_an_instance_that_refuses_its_tags_does_not_keep_others_from_theirs(world: World) -> None:
    world.ec2.fail_next("CreateTags", "RequestLimitExceeded", times=1_000)
    nodes = world.ready(10)
    world.ec2.reset_faults()
    others = [{"Key": f"mine-{number}", "Value": ""} for number in range(46)]
    world.ec2.call("CreateTags", {"Resources": [nodes[0].instance_id], "Tags": others})
    for _ in range(30):
        world.clock.advance(61)
        world.reconcile()
    assert [is_tagged(world, node) for node in nodes] == [False] + [True] * 9


def test_a_name_changed_by_hand_becomes_the_node_s_again(world: World) -> None:
    [node] = world.ready(1)
    by_hand = {"Resources": [node.instance_id], "Tags": [{"Key": "Name", "Value": "mine"}]}
    world.ec2.call("CreateTags", by_hand)
    world.reconcile()
    assert is_tagged(world, node)


def test_what_is_not_this_deployment_s_any_more_is_left_alone(world: World) -> None:
    operation, _ = world.create(1)
    world.step("launch", operation.id)
    [node] = world.nodes()
    lost = [{"Key": "Name", "Value": "mine"}, {"Key": "paddock:deployment", "Value": "another"}]
    world.ec2.call("CreateTags", {"Resources": [node.instance_id], "Tags": lost})
    world.drive(operation, "poll")
    world.reconcile()
    assert tags(world, node.instance_id) == {"Name": "mine"}


def test_the_instance_of_a_reimaged_node_is_tagged_too(world: World) -> None:
    [before] = world.ready(1)
    operation, _ = world.manage(Action.REIMAGE, ids=[before.id])
    world.drive(operation)
    [after] = world.nodes()
    assert after.instance_id != before.instance_id
    assert is_tagged(world, after)


def test_a_slow_cloud_is_asked_for_seconds_and_no_longer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation, _ = world.create(TAGS_PER_POLL)
    world.step("launch", operation.id)
    world.clock.advance(10)
    call = InProcessEc2.__getattr__

    def slow(self: InProcessEc2, name: str) -> Any:
        if name == "create_tags":
            world.clock.advance(2)
        return call(self, name)

    monkeypatch.setattr(InProcessEc2, "__getattr__", slow)
    world.step("poll", operation.id)
    assert world.ec2.calls["CreateTags"] == 3
