"""The finish task: end an operation truthfully, and leave nothing behind it."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.errors import TransientCompute
from paddock.model.identity import NodeId, OperationId, derived_operation_id
from paddock.model.node import NodeStatus
from paddock.model.node_goals import (
    is_at_goal,
    is_led_elsewhere,
    is_on_its_way,
    is_overtaken,
    is_unfinished_by,
    is_unlaunched_by,
    leader_of,
)
from paddock.model.node_lifecycle import failed, given_up, was_ready
from paddock.model.node_observation import UNSEEN_GRACE_NS
from paddock.model.operation import ENDING, LAUNCHING, Action, OperationState
from paddock.nodes.manage import Forced, begin_forced
from paddock.nodes.orphans import end_instances, find_orphans
from paddock.nodes.placement_groups import delete_empty_groups
from paddock.nodes.read import nodes_of
from paddock.ports.repository import Put, WriteConflictError
from paddock.store.operations import record_missing_nodes
from paddock.store.release import forget_failed, write_verdicts
from paddock.virtual_clusters.reconcile import reconcile_unsatisfied, reconcile_virtual_cluster
from paddock.workflow.outcome import Next, Outcome, wait

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from paddock.model.node import Node
    from paddock.model.operation import Operation
    from paddock.ports.compute import Compute
    from paddock.ports.repository import Reads
    from paddock.ports.workflows import Workflows
    from paddock.store.store import Store

# Their message says how they came to be so.
_TELLING = frozenset({NodeStatus.FAILED, NodeStatus.DEALLOCATED})
_MAX_REASONS = 5
_LATE = "not ready before the operation's deadline"
_STILL_THERE = "not ended before the operation's deadline"
_OVERTAKEN = "a later operation has taken hold of the node"


def finish(
    store: Store,
    compute: Compute,
    workflows: Workflows,
    operation_id: OperationId,
    polls: int,
) -> Outcome:
    """End an operation: Succeeded, PartiallySucceeded or Failed, with the reasons.

    Nodes that should run and are not Ready by now have failed; an operation of their own ends their
    instances, or stops them again. Instances of the operation that no node has are ended at once. Placement
    groups of the cluster that no node is in any more are deleted, or left to the reconciler while the cloud
    is busy. Virtual clusters that nodes were launched for get them, and look further if there are too few;
    nodes of theirs that failed are removed, since no client asked for them by name.
    """
    operation = store.read.operation(operation_id)
    if operation is None or not operation.is_running:
        return Outcome(Next.DONE)
    if operation.action is Action.CREATE:
        record_missing_nodes(store, operation)
    nodes = nodes_of(store.read, operation)
    if store.now() < operation.deadline and any(is_on_its_way(node, operation) for node in nodes):
        # Another operation has taken hold of one since the last poll, and brings it there once more.
        return wait(polls)
    orphans = 0
    try:
        if operation.action in LAUNCHING:
            if operation.batch is not None and store.now() < operation.deadline + UNSEEN_GRACE_NS:
                # A launch call was not answered: what it launched must have time to come into sight.
                return wait(polls)
            errors, orphans = _finish_launching(store, compute, workflows, operation, nodes)
        elif operation.action in ENDING:
            errors = _finish_ending(store, operation, nodes)
        else:
            errors = _reasons(store.read, operation, nodes)
    except TransientCompute:
        return wait(polls)
    _end(store, operation, errors)
    _reconcile_virtual_clusters(store, workflows, operation, errors)
    # The last thing to do: whatever is wrong with a group must not keep an operation from its end.
    with suppress(TransientCompute):
        delete_empty_groups(store, compute, operation.cluster)
    return Outcome(Next.DONE, orphans=orphans)


def _reconcile_virtual_clusters(
    store: Store,
    workflows: Workflows,
    operation: Operation,
    errors: Collection[NodeId],
) -> None:
    """Let virtual clusters have the nodes launched for them, or the room that the operation has made."""
    if names := sorted(operation.virtual_clusters()):
        for name in names:
            reconcile_virtual_cluster(store, workflows, name)
        failures = store.read.nodes_by_id(operation.cluster, errors) if errors else ()
        # A client that has started a failed node since knows it, and waits for it: it stays.
        unknown = [node.id for node in failures if node.managing_operation_id == operation.id]
        forget_failed(store, operation.cluster, unknown)
    if operation.action in ENDING:
        reconcile_unsatisfied(store, workflows, operation.cluster)


def _finish_launching(
    store: Store,
    compute: Compute,
    workflows: Workflows,
    operation: Operation,
    nodes: Sequence[Node],
) -> tuple[dict[NodeId, str], int]:
    """The reasons of nodes that failed, and the number of instances that had no node."""

    def judge(node: Node) -> Node:
        return failed(node, _LATE) if is_unlaunched_by(node, operation) else node

    unlaunched = [node for node in nodes if is_unlaunched_by(node, operation)]
    write_verdicts(store, operation.cluster, unlaunched, judge)
    nodes = _read_again(store.read, operation, nodes, [node.id for node in unlaunched])
    abandoned = _abandon(store, workflows, operation, nodes)
    nodes = _read_again(store.read, operation, nodes, abandoned)
    orphans = _end_orphans(compute, operation, nodes)
    return _reasons(store.read, operation, nodes) | dict.fromkeys(abandoned, _LATE), orphans


def _read_again(
    read: Reads, operation: Operation, nodes: Sequence[Node], ids: Collection[NodeId]
) -> Sequence[Node]:
    """The operation's nodes, of which those with these ids are read again, as far as they still exist."""
    if not ids:
        return nodes
    again = set(ids)
    kept = [node for node in nodes if node.id not in again]
    return sorted([*kept, *read.nodes_by_id(operation.cluster, ids)], key=lambda node: node.id)


def _reasons(read: Reads, operation: Operation, nodes: Sequence[Node]) -> dict[NodeId, str]:
    """Why nodes are not where the operation wants them, by node; these are its nodes that exist.

    A node that a later operation leads elsewhere is no failure of this one, unless Paddock itself gave it up.
    """
    led_elsewhere = [node for node in nodes if is_led_elsewhere(node, operation)]
    leaders = {node.id: leader_of(node, operation) for node in led_elsewhere}
    found = {operation_id: read.operation(operation_id) for operation_id in set(leaders.values())}
    reasons = _given_up_by_others(read, operation, nodes)
    for node in nodes:
        if is_at_goal(node, operation):
            continue
        if node.id in operation.errors:
            reasons[node.id] = operation.errors[node.id]
        elif node.id not in leaders:
            reasons[node.id] = _why_not(node, operation)
        elif reason := _why_not_led(found[leaders[node.id]], operation):
            reasons[node.id] = reason
    return reasons


def _why_not_led(leader: Operation | None, operation: Operation) -> str:
    """Why a node that this operation has led elsewhere does not count as the later operation's."""
    if leader is None or leader.start_time < operation.start_time:
        # The later operation found the node where it is, before this one could take hold of it.
        return _OVERTAKEN
    return leader.reason if leader.forced and operation.action not in ENDING else ""


def _why_not(node: Node, operation: Operation) -> str:
    if node.status in _TELLING and node.status_message:
        return node.status_message
    if is_overtaken(node, operation) and not is_on_its_way(node, operation):
        return _OVERTAKEN
    return _STILL_THERE if operation.action in ENDING else _LATE


def _given_up_by_others(read: Reads, operation: Operation, nodes: Sequence[Node]) -> dict[NodeId, str]:
    """Reasons of nodes that are gone since another operation, which launched them, gave them up."""
    if not operation.awaited:
        return {}
    gone = set(operation.ids()) - {node.id for node in nodes}
    endings = [
        read.operation(derived_operation_id(launching_id, Action.TERMINATE))
        for launching_id in operation.awaited
    ]
    given_up = {node_id for ending in endings if ending is not None for node_id in ending.ids()}
    return dict.fromkeys(gone & given_up, _LATE)


def _abandon(
    store: Store,
    workflows: Workflows,
    operation: Operation,
    nodes: Sequence[Node],
) -> list[NodeId]:
    """Give up nodes that did not become Ready: end what was launched for them, stop what was there before.

    Returns their ids, the same when the task is run again.
    """
    stuck = [node for node in nodes if is_unfinished_by(node, operation)]
    stopped = [node for node in stuck if was_ready(node)]
    launched = [node for node in stuck if not was_ready(node)]
    abandoned = _clean_up(store, workflows, operation, Action.TERMINATE, launched)
    if operation.action is Action.START:
        abandoned += _clean_up(store, workflows, operation, Action.DEALLOCATE, stopped)
    return abandoned


def _clean_up(
    store: Store,
    workflows: Workflows,
    operation: Operation,
    action: Action,
    nodes: Sequence[Node],
) -> list[NodeId]:
    """Start the operation that cleans up after this one, with an id derived from it; returns its node ids."""
    identity = derived_operation_id(operation.id, action)
    earlier = store.read.operation(identity)
    if earlier is not None:
        # If its start was lost in a crash, the reconciler starts it, with a deadline of its own.
        return earlier.ids()
    if nodes:
        begin_forced(store, workflows, Forced(identity, action, _LATE), nodes)
    return [node.id for node in nodes]


def _end_orphans(compute: Compute, operation: Operation, nodes: Sequence[Node]) -> int:
    """End instances that were launched for this operation without a node of it; returns how many."""
    if not operation.batches:
        return 0
    orphans = find_orphans(compute.launched_by(operation.cluster, operation.id), nodes)
    return end_instances(compute, orphans, operation_id=operation.id)


def _finish_ending(store: Store, operation: Operation, nodes: Sequence[Node]) -> dict[NodeId, str]:
    """Give up nodes that did not end: they keep their record and their limits; returns the reasons by node.

    They can be ended again, or go on running. A node that another operation has taken hold of since is not
    written. ``nodes`` are the operation's as they were just read; they are read again after a conflict.
    """
    looks = iter([nodes])

    def attempt() -> dict[NodeId, str]:
        nodes = next(looks, None) or nodes_of(store.read, operation)
        errors = _reasons(store.read, operation, nodes)
        mine = [node for node in nodes if node.id in errors and node.managing_operation_id == operation.id]
        after = [(node, given_up(node, errors[node.id])) for node in mine]
        writes = [Put(new, was=node) for node, new in after if new is not node]
        if conflicts := store.commit_each(writes).conflicts:
            raise WriteConflictError(conflicts)
        return errors

    return store.retry_on_conflict(attempt)


def _end(store: Store, operation: Operation, errors: dict[NodeId, str]) -> None:
    now = store.now()
    after = replace(
        operation,
        state=_state(operation.total, len(errors)),
        finish_time=now,
        batch=None,
        launched_to=operation.total,
        recorded=operation.action is Action.CREATE,
        succeeded=operation.total - len(errors),
        failed=len(errors),
        errors={},
        error=_summary(errors),
    )
    store.commit(Put(after, was=operation))


def _state(total: int, failures: int) -> OperationState:
    if not failures:
        return OperationState.SUCCEEDED
    return OperationState.PARTIALLY_SUCCEEDED if failures < total else OperationState.FAILED


def _summary(errors: dict[NodeId, str]) -> str:
    """The commonest reasons, each with its number of nodes."""
    reasons = Counter(errors.values()).most_common(_MAX_REASONS)
    return "; ".join(f"{count} of the nodes: {reason}" for reason, count in reasons)
