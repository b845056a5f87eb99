"""From an instance, as seen at a time, to its node: predicates on both, and the node after the look.

``seen`` are the instances that the cloud shows, by id; an instance that is not among them was not seen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from paddock.model.instance import InstanceState
from paddock.model.node import Node, NodeStatus
from paddock.model.node_lifecycle import (
    awaits_replacement,
    deallocated,
    failed,
    failing,
    is_booting,
    is_ending,
    is_stopping,
    is_terminating,
    keeping_its_instance,
    stopped,
    without_replaced,
)
from paddock.model.time import SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from paddock.model.identity import InstanceId, OperationId
    from paddock.model.instance import Instance

# Descriptions lag minutes behind a launch; only an instance that stays out of sight for this long is gone.
UNSEEN_GRACE_NS = 300 * SECOND_NS
# A description may be older than the start that made a node Ready, and still show its instance as stopped.
STOPPED_GRACE_NS = 60 * SECOND_NS
_RUNS = frozenset({InstanceState.PENDING, InstanceState.RUNNING})


def instance_of(node: Node, seen: Mapping[InstanceId, Instance]) -> Instance | None:
    """The node's instance as the cloud showed it; the instance to be replaced, if it has no other."""
    return seen.get(node.instance_id or node.replaced_instance_id)


def is_gone(node: Node, instance: Instance | None, now: int) -> bool:
    """Whether the node's instance has ended, by the cloud's word or by having been out of sight for long."""
    if instance is not None:
        return instance.state is InstanceState.TERMINATED
    return bool(node.unseen_since) and now - node.unseen_since >= UNSEEN_GRACE_NS


def seen_state(node: Node, seen: Mapping[InstanceId, Instance]) -> InstanceState | None:
    """The state of the node's instance, if it is seen."""
    instance = seen.get(node.instance_id)
    return instance.state if instance else None


def has_ended(node: Node, seen: Mapping[InstanceId, Instance], now: int) -> bool:
    """Whether all instances of the node have ended."""
    return all(is_gone(node, seen.get(instance_id), now) for instance_id in node.instance_ids)


def is_unheard(node: Node, seen: Mapping[InstanceId, Instance]) -> bool:
    """Whether EC2 has not heard yet that the node's instance shall end: it was throttled, or away."""
    instance = instance_of(node, seen)
    return instance is not None and not instance.state.is_ending


def is_watched(node: Node, ended: Collection[OperationId]) -> bool:
    """Whether the node's instance is for the reconciler to look at.

    A node on its way to another state is its operation's, which looks by itself until it has ``ended``.
    """
    at_rest = node.is_ready or node.status is NodeStatus.DEALLOCATED or is_ending(node)
    return (at_rest or (node.is_starting and node.launching_operation_id in ended)) and bool(
        node.instance_ids
    )


def is_stranded(node: Node, ended: Collection[OperationId]) -> bool:
    """Whether the node waits for an instance that no operation launches any more."""
    return node.is_starting and not node.instance_ids and node.launching_operation_id in ended


def must_stop(node: Node, instance: Instance) -> bool:
    """Whether the node is Deallocated, and its instance runs all the same."""
    return node.status is NodeStatus.DEALLOCATED and instance.state in _RUNS


def must_end(node: Node, instance: Instance) -> bool:
    """Whether the node's termination has given up, and this instance of it is not about to end."""
    return is_ending(node) and is_terminating(node) and not instance.state.is_ending


def lacks_tags(node: Node, instance: Instance | None) -> bool:
    """Whether the node's instance is there, is this deployment's, and does not say which node it is."""
    if instance is None or not node.spec.tag_instances:
        return False
    is_ours = instance.cluster == node.cluster and not instance.state.is_ending
    return is_ours and (instance.node_id, instance.name) != (node.id, node.name)


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


def looked_for(node: Node, seen: Mapping[InstanceId, Instance], now: int) -> Node:
    """The node with the time since when none of its instances is seen; the very same where nothing is new."""
    since = 0 if any(instance_id in seen for instance_id in node.instance_ids) else node.unseen_since or now
    if since == node.unseen_since or not node.instance_ids:
        return node
    return replace(node, unseen_since=since)


def polled(node: Node, seen: Mapping[InstanceId, Instance], now: int) -> Node | None:
    """A node after its operation's look at its instances; ``None`` where it was to end, and has ended.

    The very same where nothing is new. A replaced instance that has ended is let go of, and a node whose
    instance has stopped, as it should, is Deallocated.
    """
    instance = instance_of(node, seen)
    if is_terminating(node):
        return None if node.instance_ids and has_ended(node, seen, now) else looked_for(node, seen, now)
    if awaits_replacement(node):
        replaced = seen.get(node.replaced_instance_id)
        return without_replaced(node) if is_gone(node, replaced, now) else looked_for(node, seen, now)
    if is_stopping(node):
        if seen_state(node, seen) is InstanceState.STOPPED:
            return deallocated(node)
        is_over = is_gone(node, instance, now)
        return observed(node, instance, now) if is_over else looked_for(node, seen, now)
    return observed(node, instance, now) if is_booting(node) else node


def noticed(
    node: Node, seen: Mapping[InstanceId, Instance], ended: Collection[OperationId], now: int
) -> Node | None:
    """A node after the reconciler's look at its instances; ``None`` where it was to end, and has ended.

    The very same node if nothing is new. A node whose instance has ended, or was not seen for long, has
    Failed, and so has a node that no operation launches any more, since its launching operation is among the
    ``ended``. A node whose instance is about to end has Failed too, and uses up its limits until the instance
    is gone. A node whose instance was stopped is Deallocated, and shall be: only a start brings it back. A
    node whose instance should have been replaced, and was not ended, keeps it.
    """
    if not is_watched(node, ended):
        reason = "the operation that should have launched it has ended"
        return failed(node, reason) if is_stranded(node, ended) else node
    instance = instance_of(node, seen)
    if is_terminating(node) and is_gone(node, instance, now):
        return None
    if instance is not None and _may_keep(node, instance):
        return keeping_its_instance(node)
    state = instance.state if instance is not None else None
    # A description may be older than the end of an instance that was stopped before.
    may_stop = node.is_ready or is_booting(node)
    if state is InstanceState.STOPPED and may_stop and now - node.ready_at >= STOPPED_GRACE_NS:
        return stopped(node, "its instance was stopped, and not by an action of this cluster")
    if instance is not None and state is InstanceState.SHUTTING_DOWN and node.is_ready:
        reason = f"its instance {instance.id} is being ended: {instance.state_reason or 'no reason given'}"
        return failing(node, reason)
    return observed(node, instance, now)


def _may_keep(node: Node, instance: Instance) -> bool:
    return node.is_starting and awaits_replacement(node) and not instance.state.is_ending


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
