"""A node's life: its states, the predicates on them, and the changes from state to state.

All of this is about the node alone. A node with its instance is in ``node_observation``, with an operation in
``node_goals``, and the effect of each action in ``node_actions``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.model.identity import InstanceId, VirtualClusterId
from paddock.model.node import NodeStatus, TargetState
from paddock.model.time import SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from paddock.model.node import LaunchSpec, Node

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
    """Why a node may not change so; empty if it may. ``None`` is no record.

    A node may always stay as it is. For example, a node that is Off cannot be Ready before it was Acquiring.
    """
    before = was.status if was is not None else None
    if becomes is None:
        return "" if None in TRANSITIONS[before] else f"a node that is {before} cannot be removed"
    if becomes.status is not before and becomes.status not in TRANSITIONS[before]:
        return f"a node cannot go from {before or 'nothing'} to {becomes.status}"
    if becomes.target_state not in TARGETS[becomes.status]:
        return f"a node that is {becomes.status} cannot have the target state {becomes.target_state}"
    return ""


def is_terminating(node: Node) -> bool:
    """Whether the node shall be there no more."""
    return node.target_state is TargetState.TERMINATED


def is_ending(node: Node) -> bool:
    """Whether the node can serve no longer, and its instance has still to end.

    Until then it uses up its limits, unless it was Deallocated and used none.
    """
    waits = node.uses_limits or is_terminating(node)
    return node.status is NodeStatus.FAILED and waits


def has_failed(node: Node) -> bool:
    """Whether the node is Failed and uses up no limits, as a node whose instance is gone."""
    return node.status is NodeStatus.FAILED and not node.uses_limits


def may_own_instances(node: Node) -> bool:
    """Whether the node has a right to its instances.

    A node that was given up, since its instance stayed out of sight, must not keep the instance alive later.
    """
    return node.status is not NodeStatus.FAILED or is_ending(node)


def is_waiting(node: Node) -> bool:
    """Whether the node is still to be launched."""
    return node.status is NodeStatus.ACQUIRING and node.is_wanted and not node.instance_ids


def is_launched_alike(node: Node, other: Node) -> bool:
    """Whether one call can ask for the instances of both nodes."""
    return (node.spec, node.placement_group_id, node.launch_place) == (
        other.spec,
        other.placement_group_id,
        other.launch_place,
    )


def awaits_replacement(node: Node) -> bool:
    """Whether the node gets another instance, as soon as its old instance has ended."""
    return node.is_wanted and bool(node.replaced_instance_id)


def is_booting(node: Node) -> bool:
    """Whether the node has an instance that has still to come up."""
    return node.status is NodeStatus.PREPARING and node.is_wanted


def was_ready(node: Node) -> bool:
    """Whether the node has an instance that was Ready once, and may have been stopped since."""
    return bool(node.instance_id and node.ready_at)


def is_stopping(node: Node) -> bool:
    """Whether the node's instance has still to stop."""
    return node.target_state is TargetState.DEALLOCATED and node.uses_limits and bool(node.instance_id)


def has_machine(node: Node) -> bool:
    """Whether the node's status is one in which it has a machine, or will have one."""
    return node.status not in (NodeStatus.OFF, NodeStatus.DEALLOCATED)


def has_first_launch(node: Node) -> bool:
    """Whether no later operation than its create has launched the node."""
    return node.launching_operation_id == node.created_by


def is_forgettable(node: Node) -> bool:
    """Whether the node was launched for a virtual cluster, has failed, and was not started again."""
    return node.provisioned and has_failed(node) and node.is_wanted and has_first_launch(node)


def is_idle(node: Node, timeout_seconds: int, now: int) -> bool:
    """Whether virtual clusters are done with the node, and it has been Ready and free for the timeout.

    With a timeout of 300 seconds: five minutes after it was Ready, or was given back. A timeout of 0 never
    passes.
    """
    since = max(node.ready_at, node.claim_changed_at)
    is_free = (node.provisioned or node.was_held) and not node.virtual_cluster
    may_end = is_free and node.is_ready and not node.keep_alive
    return may_end and 0 < timeout_seconds * SECOND_NS <= now - since


def serves_on(was: Node, becomes: Node) -> bool:
    """Whether the node is of as much use to its virtual cluster as it was: Ready, or on its way to be so."""
    return becomes.is_ready or (becomes.is_starting and not was.is_ready)


def claimed_for(node: Node, virtual_cluster: VirtualClusterId, uid: str, now: int) -> Node:
    """The node claimed for a virtual cluster."""
    return replace(node, virtual_cluster=virtual_cluster, virtual_cluster_uid=uid, claim_changed_at=now)


def unclaimed(node: Node, now: int) -> Node:
    """The node free again, after a claim that no virtual cluster confirmed."""
    return claimed_for(node, VirtualClusterId(""), "", now)


def given_back(node: Node, now: int) -> Node:
    """The node free again, after a virtual cluster had it."""
    return replace(unclaimed(node, now), was_held=True)


def asked_elsewhere(node: Node, place: int, message: str) -> Node:
    """The node as it is to be launched in other subnets of its bucket."""
    return replace(node, launch_place=place, status_message=message)


def moved(node: Node, spec: LaunchSpec, message: str) -> Node:
    """The node as it is to be launched in another bucket."""
    return replace(node, spec=spec, launch_place=0, status_message=message)


def launched(node: Node, instance_id: InstanceId, now: int) -> Node:
    """The node with its new instance; it prepares, unless it shall run no longer."""
    return replace(
        node,
        instance_id=instance_id,
        launched_at=now,
        status=NodeStatus.PREPARING if node.is_wanted else node.status,
        status_message="",
        launch_place=0,
    )


def without_instance(node: Node) -> Node:
    """The node once its instance is no longer its own."""
    return replace(
        node,
        instance_id=InstanceId(""),
        hostname="",
        dns_name="",
        private_ip="",
        launched_at=0,
        ready_at=0,
        unseen_since=0,
        launch_place=0,
    )


def replacing(node: Node) -> Node:
    """The node as Acquiring, for the instance that it has is to end before it gets another.

    Its machine is in use until then.
    """
    return replace(
        without_instance(node),
        status=NodeStatus.ACQUIRING,
        replaced_instance_id=node.instance_id,
        launched_at=node.launched_at,
    )


def keeping_its_instance(node: Node) -> Node:
    """The node as Preparing, with the instance that was to be replaced, for the cloud will not end it."""
    return replace(
        node,
        status=NodeStatus.PREPARING,
        instance_id=node.replaced_instance_id,
        replaced_instance_id=InstanceId(""),
    )


def without_replaced(node: Node) -> Node:
    """The node once the instance that is replaced has ended."""
    return replace(node, replaced_instance_id=InstanceId(""), launched_at=0, unseen_since=0)


def failed(node: Node, reason: str) -> Node:
    """The node as Failed: it has no instance, and uses up no limits."""
    return replace(node, status=NodeStatus.FAILED, status_message=reason, uses_limits=False)


def failing(node: Node, reason: str) -> Node:
    """The node as Failed while its instance has still to end: it uses up as many limits as before."""
    return replace(failed(node, reason), uses_limits=node.uses_limits)


def switched_off(node: Node) -> Node:
    """The node as Off: it exists, and has no instance."""
    return replace(
        without_instance(node),
        status=NodeStatus.OFF,
        target_state=TargetState.OFF,
        uses_limits=False,
        replaced_instance_id=InstanceId(""),
    )


def deallocated(node: Node) -> Node:
    """The node as Deallocated: its instance is stopped, and uses up no limits."""
    return replace(node, status=NodeStatus.DEALLOCATED, uses_limits=False)


def stopped(node: Node, reason: str) -> Node:
    """The node as Deallocated, and to stay so: its instance was found stopped, or would not start."""
    return replace(deallocated(node), target_state=TargetState.DEALLOCATED, status_message=reason)


def given_up(node: Node, reason: str) -> Node:
    """The node whose instance would not end or stop; the very same node if it was given up before.

    A node that was to end is Failed until its instance has ended; a node that was to stop goes on running.
    """
    if is_terminating(node) and node.status is not NodeStatus.FAILED:
        return failing(node, reason)
    if node.target_state is TargetState.DEALLOCATED:
        return replace(node, target_state=TargetState.STARTED, status_message=reason)
    return node
