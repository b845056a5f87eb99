"""Where an operation wants a node to be, and whether it is there, on its way, or somebody else's by now.

Several operations may be about one node at a time. The last one to take hold of it decides where it shall
be: earlier ones that want the same wait with it, and those that want something else are done with the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.model.node import NodeStatus, ShutdownPolicy, TargetState
from paddock.model.operation import Action

if TYPE_CHECKING:
    from paddock.model.node import Node
    from paddock.model.operation import Operation


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

    One that is to end is there once it is Off; otherwise it is there when its record is gone. What a restart
    or reimage does, no other operation does in its stead.
    """
    match goal_of(node, operation):
        case TargetState.STARTED:
            is_done = operation.action is not Action.REIMAGE or node.launched_at >= operation.start_time
            is_refused = operation.action in (Action.RESTART, Action.REIMAGE) and node.id in operation.errors
            return node.is_usable and is_done and not is_refused
        case TargetState.DEALLOCATED:
            return node.status is NodeStatus.DEALLOCATED
        case _:
            return node.status is NodeStatus.OFF and node.id not in operation.errors


def is_overtaken(node: Node, operation: Operation) -> bool:
    """Whether a later operation has taken hold of the node."""
    return node.managed_by != operation.id and node.managed_at >= operation.start_time


def is_led_elsewhere(node: Node, operation: Operation) -> bool:
    """Whether a later operation wants the node to be where this one does not.

    What this one was ending comes back as Off alone, if it is fixed: any other node it never took hold of.
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
    return node.is_coming if node.is_wanted else node.status is not NodeStatus.FAILED
