"""An operation's goal for a node, and whether the node is there, on its way, or taken by a later operation.

Several operations may act on one node at a time. The last operation to take hold of the node decides its
goal: earlier operations with the same goal wait with it, and those with another goal are done with the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.model.node import NodeStatus, ShutdownPolicy, TargetState
from paddock.model.node_lifecycle import awaits_replacement, is_booting, is_waiting
from paddock.model.operation import Action

if TYPE_CHECKING:
    from collections.abc import Collection

    from paddock.model.identity import InstanceId, OperationId
    from paddock.model.node import Node
    from paddock.model.operation import LaunchBatch, Operation


def goal_of(node: Node, operation: Operation) -> TargetState:
    """Where the operation wants the node to be."""
    match operation.action:
        case Action.TERMINATE | Action.REMOVE:
            return TargetState.TERMINATED
        case Action.SHUTDOWN if node.shutdown_policy is ShutdownPolicy.TERMINATE:
            return TargetState.TERMINATED
        case Action.SHUTDOWN | Action.DEALLOCATE:
            return TargetState.DEALLOCATED
        case Action.CREATE if (group := operation.group_of(node.id)) and group.off:
            return TargetState.OFF
        case _:
            return TargetState.STARTED


def is_at_goal(node: Node, operation: Operation) -> bool:
    """Whether the node, which exists, is where the operation wants it.

    A node that is to end is there once it is Off; otherwise it is there when its record is gone. No other
    operation restarts or reimages a node in an operation's stead.
    """
    match goal_of(node, operation):
        case TargetState.STARTED:
            is_done = operation.action is not Action.REIMAGE or node.launched_at >= operation.start_time
            is_refused = operation.action in (Action.RESTART, Action.REIMAGE) and node.id in operation.errors
            return node.is_ready and is_done and not is_refused
        case TargetState.DEALLOCATED:
            return node.status is NodeStatus.DEALLOCATED
        case _:
            return node.status is NodeStatus.OFF and node.id not in operation.errors


def is_overtaken(node: Node, operation: Operation) -> bool:
    """Whether a later operation has taken hold of the node."""
    return node.managing_operation_id != operation.id and node.managed_at >= operation.start_time


def is_led_elsewhere(node: Node, operation: Operation) -> bool:
    """Whether a later operation has another goal for the node than this operation.

    Of the nodes that this operation was ending, only a fixed node comes back, as Off: it never took hold of
    any other node that exists.
    """
    goal = goal_of(node, operation)
    may_come_back = goal is not TargetState.TERMINATED or node.fixed
    return may_come_back and is_overtaken(node, operation) and node.target_state is not goal


def is_led_there(node: Node, operation: Operation) -> bool:
    """Whether the node shall be where the operation wants it."""
    return node.target_state is goal_of(node, operation)


def is_on_its_way(node: Node, operation: Operation) -> bool:
    """Whether the node is still being brought to where the operation wants it, by whatever operation."""
    if not is_led_there(node, operation) or is_at_goal(node, operation):
        return False
    return node.is_starting if node.is_wanted else node.status is not NodeStatus.FAILED


def is_untouched(node: Node, operation: Operation) -> bool:
    """Whether the operation may still take hold of the node: its tasks were throttled, or failed, before."""
    is_older = node.managing_operation_id != operation.id and node.managed_at < operation.start_time
    return is_older and node.id not in operation.errors


def leader_of(node: Node, operation: Operation) -> OperationId:
    """The id of the operation that led a node away from this operation's goal; others may hold it since."""
    has_come_back = node.is_wanted or goal_of(node, operation) is TargetState.TERMINATED
    return node.launching_operation_id if has_come_back else node.managing_operation_id


def is_unfinished_by(node: Node, operation: Operation) -> bool:
    """Whether the operation launches the node, and has not brought it to be Ready."""
    return node.is_starting and node.launching_operation_id == operation.id


def is_unlaunched_by(node: Node, operation: Operation) -> bool:
    """Whether the operation launches the node, and has not got it an instance."""
    return is_unfinished_by(node, operation) and not node.instance_ids


def may_use_instance(node: Node, operation: Operation) -> bool:
    """Whether this operation may still use the node's instance.

    A Ready node is rebooted whichever operation has taken hold of it since: no other operation reboots it.
    """
    if operation.action is Action.RESTART:
        return node.is_ready
    return node.launching_operation_id == operation.id and is_booting(node)


def replaced_by(node: Node, operation: Operation) -> Collection[InstanceId]:
    """The instance that the operation, where it is a reimage, has to end before the node gets another."""
    replaces = operation.action is Action.REIMAGE and node.launching_operation_id == operation.id
    return {node.replaced_instance_id} if replaces and awaits_replacement(node) else ()


def waits_in(node: Node, batch: LaunchBatch, operation: Operation) -> bool:
    """Whether the node is still to be launched by the operation, and in the batch's place."""
    is_there = (node.bucket_id, node.launch_place) == (batch.spec.bucket_id, batch.place)
    return is_waiting(node) and is_there and node.launching_operation_id == operation.id
