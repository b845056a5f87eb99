"""What an instance's state says about its node: from what is seen, and when, to what the node becomes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from paddock.model.instance import InstanceState
from paddock.model.node import Node, NodeStatus, TargetState
from paddock.model.operation import SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paddock.model.instance import Instance

# Descriptions lag minutes behind a launch; only an instance that stays out of sight for this long is gone.
UNSEEN_GRACE_NS = 300 * SECOND_NS


def instance_of(node: Node, seen: Mapping[str, Instance]) -> Instance | None:
    """What the cloud showed of the node's instance, or of the one to be replaced where it has no other."""
    return seen.get(node.instance_id or node.replaced_instance_id)


def is_gone(node: Node, instance: Instance | None, now: int) -> bool:
    """Whether the node's instance has ended, by the cloud's word or by having been out of sight for long."""
    if instance is not None:
        return instance.state is InstanceState.TERMINATED
    return bool(node.unseen_since) and now - node.unseen_since >= UNSEEN_GRACE_NS


def is_to_end(node: Node) -> bool:
    """Whether the node shall be there no more."""
    return node.target_state is TargetState.TERMINATED


def is_ending(node: Node) -> bool:
    """Whether the node can serve no longer, and its instance has still to end.

    Until then it uses up its limits, unless it was Deallocated and used none.
    """
    waits = node.counted or is_to_end(node)
    return node.status is NodeStatus.FAILED and waits


def observed(node: Node, instance: Instance | None, now: int) -> Node:
    """The node after a look at its instance; the very same where nothing is new.

    A node is Ready once its instance runs and has its addresses, and Failed once its instance is gone.
    """
    if is_gone(node, instance, now):
        reason = "its instance was not seen any more" if instance is None else _end(instance)
        # EC2 gives its addresses to others; they must not lead to this node any more.
        return replace(failed(node, reason), hostname="", dns_name="", private_ip="")
    if instance is None:
        changes: dict[str, Any] = {} if node.unseen_since else {"unseen_since": now}
    else:
        changes = {"unseen_since": 0} if node.unseen_since else {}
        if _has_started(node, instance):
            changes |= {"status": NodeStatus.READY, "ready_at": now, **_addresses(instance)}
    return replace(node, **changes) if changes else node


def failed(node: Node, reason: str) -> Node:
    """The node as Failed: it has no instance, and uses up no limits."""
    return replace(
        node,
        status=NodeStatus.FAILED,
        status_message=reason,
        counted=False,
    )


def switched_off(node: Node) -> Node:
    """The node as Off: it exists, and has no instance."""
    return replace(
        node.without_instance(),
        status=NodeStatus.OFF,
        target_state=TargetState.OFF,
        counted=False,
        replaced_instance_id="",
    )


def deallocated(node: Node) -> Node:
    """The node as Deallocated: its instance is stopped, and uses up no limits."""
    return replace(node, status=NodeStatus.DEALLOCATED, counted=False)


def stopped(node: Node, reason: str) -> Node:
    """The node as Deallocated, and to stay so: its instance was found stopped, or would not start."""
    return replace(deallocated(node), target_state=TargetState.DEALLOCATED, status_message=reason)


def _has_started(node: Node, instance: Instance) -> bool:
    running = instance.state is InstanceState.RUNNING
    return running and bool(instance.private_ip) and node.status is NodeStatus.PREPARING


def _addresses(instance: Instance) -> dict[str, str]:
    return {
        "private_ip": instance.private_ip,
        "hostname": instance.private_dns_name.partition(".")[0] or instance.id,
        "dns_name": instance.public_dns_name or instance.private_dns_name or instance.private_ip,
    }


def _end(instance: Instance) -> str:
    return f"its instance {instance.id} ended: {instance.state_reason or 'no reason given'}"
