"""A change of state that is not in the tables is written nowhere."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from paddock.model import node_lifecycle, operation
from paddock.model.identity import InstanceId
from paddock.model.instance import Instance, InstanceState
from paddock.model.node import Node, NodeStatus, TargetState
from paddock.model.node_observation import noticed, polled
from paddock.model.operation import OperationState
from paddock.ports.repository import Delete, Put, Write
from paddock.store.store import TransitionError
from tests.fakes.world import World

TARGETS, NODE_CHANGES = node_lifecycle.TARGETS, node_lifecycle.TRANSITIONS
WORLD = World()
OPERATION, _ = WORLD.create(count=2)
NODE, OTHER = WORLD.nodes()
LATER = NODE.managed_at * 2


def node_in(status: NodeStatus, target: TargetState | None = None) -> Node:
    """The node in this status, with a target state that it may have then."""
    return replace(NODE, status=status, target_state=target or min(TARGETS[status]))


def is_written(world: World, write: Write) -> bool:
    """Whether the store takes a write that is based on what is stored; where it does not, nothing changes."""
    stored = [write.was] if write.was is not None else []
    world.plant(*stored)
    try:
        world.store.commit(write)
    except TransitionError:
        assert world.nodes() == stored
        return False
    finally:
        for node in world.nodes():
            world.forget(node)
    return True


@pytest.mark.parametrize("before", NodeStatus)
def test_a_node_changes_its_status_exactly_as_its_table_says(before: NodeStatus) -> None:
    world, was = World(), node_in(before)
    taken = {after for after in NodeStatus if is_written(world, Put(node_in(after), was=was))}
    assert taken == NODE_CHANGES[before] - {None} | {before}
    assert is_written(world, Delete(was)) == (None in NODE_CHANGES[before])
    assert is_written(world, Put(was, was=None)) == (before in NODE_CHANGES[None])


@pytest.mark.parametrize("status", NodeStatus)
def test_a_node_has_no_target_state_that_its_status_cannot_have(status: NodeStatus) -> None:
    """A Ready node whose target state is Terminated, for example, would be ended by nobody."""
    world, was = World(), node_in(status)
    taken = {target for target in TargetState if is_written(world, Put(node_in(status, target), was=was))}
    assert taken == TARGETS[status]


@pytest.mark.parametrize("status", NodeStatus)
def test_whatever_an_instance_shows_its_node_becomes_what_it_may(status: NodeStatus) -> None:
    """Whatever instances a node of the status has, and also where the cloud's answer is an old one."""
    either = (False, True)
    for target, has, replaces, counts in product(TARGETS[status], either, either, either):
        if (status, target, counts) == (NodeStatus.FAILED, TargetState.DEALLOCATED, True):
            continue  # One that fails while it stops gives its limits back.
        was = replace(
            node_in(status, target),
            uses_limits=counts,
            instance_id=InstanceId("i-1" if has else ""),
            replaced_instance_id=InstanceId("i-2" if replaces else ""),
        )
        for state in InstanceState:
            seen = {one: Instance(id=one, state=state, private_ip="10.0.0.1") for one in was.instance_ids}
            for unseen_since, instances in ((0, seen), (1, {})):
                node = replace(was, unseen_since=unseen_since)
                ended = {node.launching_operation_id}
                for after in (noticed(node, instances, ended, LATER), polled(node, instances, LATER)):
                    assert node_lifecycle.wrong_transition(node, after) == "", (node, state)


def test_an_operation_changes_its_state_exactly_as_its_table_says() -> None:
    """An operation that has ended stays as it has ended, and is not removed."""
    ends = {OperationState.SUCCEEDED, OperationState.PARTIALLY_SUCCEEDED, OperationState.FAILED}
    allowed = {
        (before, after)
        for before, after in product(OperationState, OperationState)
        if not operation.wrong_transition(replace(OPERATION, state=before), replace(OPERATION, state=after))
    }
    assert allowed == {
        *((state, state) for state in OperationState),
        *((OperationState.RUNNING, end) for end in ends),
    }
    with pytest.raises(TransitionError, match="an operation that is Running cannot be removed"):
        WORLD.store.commit(Delete(OPERATION))
    with pytest.raises(TransitionError, match="an operation cannot go from nothing to PartiallySucceeded"):
        WORLD.store.commit(Put(replace(OPERATION, state=OperationState.PARTIALLY_SUCCEEDED), was=None))
    assert WORLD.operation(OPERATION.id) == OPERATION


def test_one_wrong_change_keeps_all_that_is_written_with_it_from_being_done() -> None:
    with pytest.raises(TransitionError, match="a node cannot go from Acquiring to Ready"):
        WORLD.store.commit(
            Put(replace(NODE, status_message="read"), was=NODE),
            Put(replace(OTHER, status=NodeStatus.READY), was=OTHER),
        )
    assert WORLD.nodes() == [NODE, OTHER]
