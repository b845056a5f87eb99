"""The finish task: end an operation truthfully, and leave nothing behind it."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.errors import ComputeThrottled, ComputeUnavailable
from paddock.model.identity import derived_operation_id, next_revision
from paddock.model.node import NodeStatus
from paddock.model.operation import Action, OperationState
from paddock.ports.compute import InstanceState
from paddock.ports.repository import Put, WriteConflictError
from paddock.service.contention import commit_each, until_won
from paddock.service.create_nodes import record_missing_nodes
from paddock.service.observation import UNSEEN_GRACE_NS, failed
from paddock.service.placement_groups import delete_empty_groups
from paddock.service.read_nodes import nodes_of
from paddock.service.settling import fail_nodes
from paddock.service.starting import start
from paddock.service.steps.outcome import Next, Outcome, wait
from paddock.service.terminate_nodes import mark, new_termination

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.node import Node
    from paddock.model.operation import Operation
    from paddock.ports.clock import Clock
    from paddock.ports.compute import Compute
    from paddock.ports.repository import Repository
    from paddock.ports.workflows import Workflows

_ENDING = frozenset({InstanceState.SHUTTING_DOWN, InstanceState.TERMINATED})
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

    Nodes of a create that are not Ready by now have failed; their instances are ended by a termination of
    their own. Instances of the operation that no node has are ended at once. Placement groups of the
    cluster that no node is in any more are deleted, or left to the reconciler while the cloud is busy.
    """
    operation = repository.operation(operation_id)
    if operation is None or not operation.is_running:
        return Outcome(Next.DONE)
    try:
        if operation.action is Action.CREATE:
            if operation.batch is not None and clock.now() < operation.deadline + UNSEEN_GRACE_NS:
                # A launch call was not answered: what it launched must have time to come into sight.
                return wait(polls)
            errors = _finish_create(repository, compute, workflows, clock, operation)
        else:
            errors = _finish_terminate(repository, clock, operation)
    except (ComputeThrottled, ComputeUnavailable):
        return wait(polls)
    with suppress(ComputeThrottled, ComputeUnavailable):
        delete_empty_groups(repository, compute, clock, operation.cluster)
    _end(repository, clock, operation, errors)
    return Outcome(Next.DONE)


def _finish_create(
    repository: Repository, compute: Compute, workflows: Workflows, clock: Clock, operation: Operation
) -> dict[str, str]:
    record_missing_nodes(repository, operation)
    unlaunched = [node.id for node in _unfinished(repository, operation) if not node.instance_id]
    fail_nodes(
        repository,
        clock,
        operation.cluster,
        unlaunched,
        lambda node: node if node.instance_id or not node.is_wanted else failed(node, _LATE, clock.now()),
    )
    abandoned = _abandon(repository, workflows, clock, operation)
    nodes = repository.nodes_made_by(operation)
    _end_orphans(compute, operation, nodes)
    errors = {node.id: node.status_message for node in nodes if node.status is NodeStatus.FAILED}
    return errors | dict.fromkeys(abandoned, _LATE)


def _unfinished(repository: Repository, operation: Operation) -> list[Node]:
    waiting = (NodeStatus.ACQUIRING, NodeStatus.PREPARING)
    return [node for node in repository.nodes_made_by(operation) if node.status in waiting and node.is_wanted]


def _abandon(repository: Repository, workflows: Workflows, clock: Clock, operation: Operation) -> list[str]:
    """End nodes that did not become Ready, by an operation whose id follows from this one's.

    Answers their ids, the same when the task is run again.
    """
    identity = derived_operation_id(operation.id)
    earlier = repository.operation(identity)
    if earlier is not None:
        # Where its start was lost in a crash, the reconciler starts it, with a deadline of its own.
        return earlier.managed_ids()
    stuck = [node.id for node in _unfinished(repository, operation)]
    if stuck:
        termination = new_termination(clock.now(), operation.cluster, identity, stuck, forced=True)
        repository.commit(Put(termination, was=None))
        mark(repository, clock, termination)
        start(workflows, termination)
    return stuck


def _end_orphans(compute: Compute, operation: Operation, nodes: Sequence[Node]) -> None:
    """End instances that were launched for this operation and belong to none of its nodes."""
    if not operation.batches:
        return
    owned = {node.instance_id for node in nodes}
    launched = compute.launched_by(operation.cluster, operation.id)
    orphans = [one.id for one in launched if one.id not in owned and one.state not in _ENDING]
    if orphans:
        compute.terminate(orphans)


def _finish_terminate(repository: Repository, clock: Clock, operation: Operation) -> dict[str, str]:
    """What is left goes on existing, and counting; what was to end is Failed, and can be ended again."""

    def attempt() -> dict[str, str]:
        left = nodes_of(repository, operation)
        errors = {node.id: operation.errors.get(node.id, _STILL_THERE) for node in left}
        writes = [
            Put(replace(failed(node, errors[node.id], clock.now()), counted=node.counted), was=node)
            for node in left
            if not node.is_wanted and node.status is not NodeStatus.FAILED
        ]
        if conflicts := commit_each(repository, writes):
            raise WriteConflictError(conflicts)
        return errors

    return until_won(clock, attempt)


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
