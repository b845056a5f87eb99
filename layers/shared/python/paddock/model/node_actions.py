"""What each action does to one node: a pure decision, from what the node is to what it becomes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.model.node import Node, NodeStatus, ShutdownPolicy, TargetState
from paddock.model.node_lifecycle import has_failed, is_terminating, replacing, without_instance
from paddock.model.operation import ENDING, EVERY_VIRTUAL_CLUSTER, Action, Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_RUNS = frozenset({NodeStatus.ACQUIRING, NodeStatus.PREPARING, NodeStatus.READY})


class RefusedError(Exception):
    """The node must not, or cannot, be changed so; the message says why."""


def act(node: Node, operation: Operation, now: int) -> Node:
    """The node once the operation has taken hold of it. Raises ``RefusedError``."""
    if node.managed_at >= operation.start_time:
        raise RefusedError("a later operation has taken hold of the node")
    _require_free(node, operation)
    changed = _ACTIONS[operation.action](node)
    if changed.instance_id and changed.uses_limits and not node.uses_limits:
        # It begins to use its machine again.
        changed = replace(changed, launched_at=now)
    if operation.reason and changed is not node:
        changed = replace(changed, status_message=operation.reason)
    return replace(
        changed,
        managing_operation_id=operation.id,
        managed_at=operation.start_time,
        launching_operation_id=operation.id
        if changed.is_wanted and changed is not node
        else node.launching_operation_id,
    )


def _require_free(node: Node, operation: Operation) -> None:
    if operation.forced:
        return
    # A node that nothing at all could take away would keep its cluster for ever.
    if operation.action in ENDING - {Action.REMOVE} and node.keep_alive:
        raise RefusedError("KeepAlive must be false")
    is_meant = operation.takes_from and operation.takes_from == node.claim
    may_take = is_meant or operation.takes_from == EVERY_VIRTUAL_CLUSTER
    if operation.action in ENDING | {Action.REIMAGE} and node.virtual_cluster and not may_take:
        raise RefusedError(
            f"virtual cluster {node.virtual_cluster} holds the node, it must release it first, "
            "or force must be true"
        )


def _terminate(node: Node) -> Node:
    return replace(
        node, status=NodeStatus.TERMINATING, target_state=TargetState.TERMINATED, status_message=""
    )


def _remove(node: Node) -> Node:
    # So that no operation that ends it earlier keeps it as Off.
    return replace(_terminate(node), fixed=False)


def _shutdown(node: Node) -> Node:
    return _deallocate(node) if node.shutdown_policy is ShutdownPolicy.DEALLOCATE else _terminate(node)


def _deallocate(node: Node) -> Node:
    if node.target_state is TargetState.DEALLOCATED:
        return node
    if node.spec.interruptible:
        raise RefusedError("an interruptible node must be terminated, its instance cannot be stopped")
    if not node.is_wanted or not node.instance_id or node.status not in _RUNS:
        raise RefusedError(f"the node must run to be deallocated, it is {node.status}")
    return replace(node, target_state=TargetState.DEALLOCATED, status_message="")


def _start(node: Node) -> Node:
    if node.is_wanted and node.status in _RUNS:
        return node
    if is_terminating(node):
        raise RefusedError("the node is still terminating")
    if node.status is NodeStatus.DEALLOCATED:
        status = NodeStatus.PREPARING
    elif node.status is NodeStatus.OFF or has_failed(node):
        status = NodeStatus.ACQUIRING
    else:
        raise RefusedError(
            f"the node must be Off, Deallocated, or Failed without an instance, it is {node.status}"
        )
    started = node if status is NodeStatus.PREPARING else without_instance(node)
    return replace(
        started, status=status, target_state=TargetState.STARTED, status_message="", uses_limits=True
    )


def _restart(node: Node) -> Node:
    if not node.is_ready:
        raise RefusedError(f"the node must be Ready to be restarted, it is {node.status}")
    return node


def _reimage(node: Node) -> Node:
    if not node.is_ready:
        raise RefusedError(f"the node must be Ready to be reimaged, it is {node.status}")
    return replacing(node)


_ACTIONS: Mapping[Action, Callable[[Node], Node]] = {
    Action.START: _start,
    Action.REIMAGE: _reimage,
    Action.RESTART: _restart,
    Action.TERMINATE: _terminate,
    Action.SHUTDOWN: _shutdown,
    Action.DEALLOCATE: _deallocate,
    Action.REMOVE: _remove,
}
