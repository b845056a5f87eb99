"""A node's life: the states that it may have, and the changes of state that there may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.model.node import NodeStatus, TargetState

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from paddock.model.node import Node

# The statuses that may follow each status. ``None`` is a node that has no record.
TRANSITIONS: Mapping[NodeStatus | None, AbstractSet[NodeStatus | None]] = {
    None: {NodeStatus.ACQUIRING, NodeStatus.OFF},
    NodeStatus.OFF: {NodeStatus.ACQUIRING, NodeStatus.TERMINATING},
    NodeStatus.ACQUIRING: {NodeStatus.PREPARING, NodeStatus.FAILED, NodeStatus.TERMINATING},
    NodeStatus.PREPARING: {
        NodeStatus.READY,
        NodeStatus.DEALLOCATED,
        NodeStatus.FAILED,
        NodeStatus.TERMINATING,
    },
    NodeStatus.READY: {
        NodeStatus.ACQUIRING,
        NodeStatus.DEALLOCATED,
        NodeStatus.FAILED,
        NodeStatus.TERMINATING,
    },
    NodeStatus.DEALLOCATED: {NodeStatus.PREPARING, NodeStatus.FAILED, NodeStatus.TERMINATING},
    NodeStatus.TERMINATING: {NodeStatus.OFF, NodeStatus.FAILED, None},
    NodeStatus.FAILED: {NodeStatus.ACQUIRING, NodeStatus.OFF, NodeStatus.TERMINATING, None},
}
# The target states that a node of each status may have.
TARGETS: Mapping[NodeStatus, AbstractSet[TargetState]] = {
    NodeStatus.OFF: {TargetState.OFF},
    NodeStatus.ACQUIRING: {TargetState.STARTED},
    NodeStatus.PREPARING: {TargetState.STARTED, TargetState.DEALLOCATED},
    NodeStatus.READY: {TargetState.STARTED, TargetState.DEALLOCATED},
    NodeStatus.DEALLOCATED: {TargetState.DEALLOCATED},
    NodeStatus.TERMINATING: {TargetState.TERMINATED},
    NodeStatus.FAILED: {TargetState.STARTED, TargetState.DEALLOCATED, TargetState.TERMINATED},
}


def wrong_transition(was: Node | None, becomes: Node | None) -> str:
    """Why a node may not become so, or nothing where it may; ``None`` is no record.

    A node may always stay as it is. For example, one that is Off cannot be Ready before it was Acquiring.
    """
    before = was.status if was is not None else None
    if becomes is None:
        return "" if None in TRANSITIONS[before] else f"a node that is {before} cannot be removed"
    if becomes.status is not before and becomes.status not in TRANSITIONS[before]:
        return f"a node cannot go from {before or 'nothing'} to {becomes.status}"
    if becomes.target_state not in TARGETS[becomes.status]:
        return f"a node that is {becomes.status} cannot have the target state {becomes.target_state}"
    return ""
