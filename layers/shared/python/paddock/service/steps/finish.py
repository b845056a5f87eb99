"""The finish task: end an operation truthfully, and leave nothing behind it."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.errors import ComputeThrottled, ComputeUnavailable
from paddock.model.identity import derived_operation_id, next_revision
from paddock.model.node import NodeStatus, TargetState
from paddock.model.operation import ENDING, LAUNCHING, Action, OperationState
from paddock.ports.repository import Put, WriteConflictError
from paddock.service.contention import commit_each, until_won
from paddock.service.create_nodes import record_missing_nodes
from paddock.service.healing import heal, heal_unmet
from paddock.service.manage_nodes import begin_forced
from paddock.service.observation import UNSEEN_GRACE_NS, failed, is_to_end
from paddock.service.orphans import end_instances, find_orphans
from paddock.service.placement_groups import delete_empty_groups
from paddock.service.read_nodes import nodes_of
from paddock.service.settling import forget_failed, release_nodes
from paddock.service.steps.outcome import Next, Outcome, wait

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.node import Node
    from paddock.model.operation import Operation
    from paddock.ports.clock import Clock
    from paddock.ports.compute import Compute
    from paddock.ports.repository import Repository
    from paddock.ports.workflows import Workflows

_NOT_BEGUN = frozenset({NodeStatus.OFF, NodeStatus.DEALLOCATED})
_MAX_REASONS = 5
_LATE = "not ready before the operation's deadline"
_STILL_THERE = "not ended before the operation's deadline"


def finish(
    repository: Repository,
    compute: Compute,
    workflows: Workflows,
    clock: Clock,
    operation_id: str,
    polls: int,
) -> Outcome:
    """End an operation: Succeeded, PartiallySucceeded or Failed, with the reasons.

    Nodes that should run and are not Ready by now have failed; an operation of their own ends their
    instances, or stops them again. Instances of the operation that no node has are ended at once. Placement
    groups of the cluster that no node is in any more are deleted, or left to the reconciler while the cloud
    is busy. Virtual clusters that nodes were launched for get them, and look further if there are too few;
    nodes of theirs that failed are removed, since nobody asked for them by name.
    """
    operation = repository.operation(operation_id)
    if operation is None or not operation.is_running:
        return Outcome(Next.DONE)
    orphans = 0
    try:
        if operation.action in LAUNCHING:
            if operation.batch is not None and clock.now() < operation.deadline + UNSEEN_GRACE_NS:
                # A launch call was not answered: what it launched must have time to come into sight.
                return wait(polls)
            errors, orphans = _finish_launching(repository, compute, workflows, clock, operation)
        elif operation.action in ENDING:
            errors = _finish_ending(repository, clock, operation)
        else:
            errors = operation.errors
    except (ComputeThrottled, ComputeUnavailable):
        return wait(polls)
    _end(repository, clock, operation, errors)
    if names := sorted(operation.virtual_clusters()):
        for name in names:
            heal(repository, workflows, clock, name)
        forget_failed(repository, clock, operation.cluster, errors)
    if operation.action in ENDING:
        # It may have taken nodes away, and has made room for others.
        heal_unmet(repository, workflows, clock, operation.cluster)
    # The last thing to do: whatever is wrong with a group must not keep an operation from its end.
    with suppress(ComputeThrottled, ComputeUnavailable):
        delete_empty_groups(repository, compute, clock, operation.cluster)
    return Outcome(Next.DONE, orphans=orphans)


def _finish_launching(
    repository: Repository, compute: Compute, workflows: Workflows, clock: Clock, operation: Operation
) -> tuple[dict[str, str], int]:
    """The reasons of nodes that failed, and the number of instances that had no node."""
    if operation.action is Action.CREATE:
        record_missing_nodes(repository, clock, operation)
    unlaunched = [node.id for node in _unfinished(repository, operation) if not node.instance_ids]
    release_nodes(
        repository,
        clock,
        operation.cluster,
        unlaunched,
        lambda node: node if node.instance_ids or not node.is_wanted else failed(node, _LATE, clock.now()),
    )
    abandoned = _abandon(repository, workflows, clock, operation)
    nodes = nodes_of(repository, operation)
    orphans = _end_orphans(compute, operation, nodes)
    errors = {node.id: node.status_message for node in nodes if node.status is NodeStatus.FAILED}
    if operation.action is not Action.CREATE:
        not_begun = (node for node in nodes if node.status in _NOT_BEGUN)
        errors |= {node.id: _LATE for node in not_begun} | operation.errors
    return errors | dict.fromkeys(abandoned, _LATE), orphans


def _unfinished(repository: Repository, operation: Operation) -> list[Node]:
    nodes = nodes_of(repository, operation)
    return [node for node in nodes if node.is_coming and node.launcher == operation.id]


def _abandon(repository: Repository, workflows: Workflows, clock: Clock, operation: Operation) -> list[str]:
    """Give up nodes that did not become Ready: end what was launched for them, stop what was there before.

    Answers their ids, the same when the task is run again.
    """
    stuck = _unfinished(repository, operation)
    stopped = [node for node in stuck if _was_stopped(node, operation)]
    launched = [node for node in stuck if not _was_stopped(node, operation)]
    abandoned = _clean_up(repository, workflows, clock, operation, Action.TERMINATE, launched)
    if operation.action is Action.START:
        abandoned += _clean_up(repository, workflows, clock, operation, Action.DEALLOCATE, stopped)
    return abandoned


def _was_stopped(node: Node, operation: Operation) -> bool:
    """Whether the node has an instance that was Ready once, before this operation."""
    return bool(node.instance_id) and 0 < node.ready_at < operation.start_time


def _clean_up(
    repository: Repository,
    workflows: Workflows,
    clock: Clock,
    operation: Operation,
    action: Action,
    nodes: Sequence[Node],
) -> list[str]:
    """Start the operation that cleans up after this one, and has an id that follows; answers its nodes."""
    identity = derived_operation_id(operation.id, action)
    earlier = repository.operation(identity)
    if earlier is not None:
        # Where its start was lost in a crash, the reconciler starts it, with a deadline of its own.
        return earlier.ids()
    if nodes:
        begin_forced(repository, workflows, clock, identity, action, nodes)
    return [node.id for node in nodes]


def _end_orphans(compute: Compute, operation: Operation, nodes: Sequence[Node]) -> int:
    """End instances that were launched for this operation and belong to none of its nodes; tells how many."""
    if not operation.batches:
        return 0
    orphans = find_orphans(compute.launched_by(operation.cluster, operation.id), nodes)
    return end_instances(compute, orphans, operation_id=operation.id)


def _finish_ending(repository: Repository, clock: Clock, operation: Operation) -> dict[str, str]:
    """What is left goes on existing, and counting: it can be ended again, or goes on running."""

    def attempt() -> dict[str, str]:
        left = [node for node in nodes_of(repository, operation) if _is_left(node, operation)]
        errors = {node.id: operation.errors.get(node.id, _STILL_THERE) for node in left}
        after = [(node, _given_up(node, errors[node.id], clock.now())) for node in left]
        writes = [Put(new, was=node) for node, new in after if new is not node]
        if conflicts := commit_each(repository, writes):
            raise WriteConflictError(conflicts)
        return errors

    return until_won(clock, attempt)


def _is_left(node: Node, operation: Operation) -> bool:
    """Whether the operation has not done to the node what it should."""
    if node.status in (NodeStatus.OFF, NodeStatus.DEALLOCATED):
        return node.id in operation.errors
    taken_over = node.managed_by != operation.id and node.managed_at >= operation.start_time
    return not (taken_over and node.is_wanted) or node.id in operation.errors


def _given_up(node: Node, reason: str, now: int) -> Node:
    """The node, whose instance would not end or stop."""
    if is_to_end(node) and node.status is not NodeStatus.FAILED:
        return replace(failed(node, reason, now), counted=node.counted)
    if node.target_state is TargetState.DEALLOCATED:
        revision = next_revision(now, node.revision)
        return replace(node, revision=revision, target_state=TargetState.STARTED, status_message=reason)
    return node


def _end(repository: Repository, clock: Clock, operation: Operation, errors: dict[str, str]) -> None:
    now = clock.now()
    after = replace(
        operation,
        revision=next_revision(now, operation.revision),
        state=_state(operation.total, len(errors)),
        finish_time=now,
        batch=None,
        launched_to=operation.total,
        succeeded=operation.total - len(errors),
        failed=len(errors),
        errors={},
        error=_summary(errors),
    )
    repository.commit(Put(after, was=operation))


def _state(total: int, failures: int) -> OperationState:
    if not failures:
        return OperationState.SUCCEEDED
    return OperationState.PARTIALLY_SUCCEEDED if failures < total else OperationState.FAILED


def _summary(errors: dict[str, str]) -> str:
    """The commonest reasons, each with its number of nodes."""
    reasons = Counter(errors.values()).most_common(_MAX_REASONS)
    return "; ".join(f"{count} of the nodes: {reason}" for reason, count in reasons)
