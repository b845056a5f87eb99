"""The terminate task: end the instances of all nodes of a termination."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.errors import ComputeThrottled, ComputeUnavailable
from paddock.model.identity import next_revision
from paddock.ports.repository import Put
from paddock.service.steps.outcome import Next, Outcome, wait
from paddock.service.terminate_nodes import mark

if TYPE_CHECKING:
    from paddock.ports.clock import Clock
    from paddock.ports.compute import Compute
    from paddock.ports.repository import Repository


def terminate(
    repository: Repository, compute: Compute, clock: Clock, operation_id: str, polls: int
) -> Outcome:
    """Mark what the request did not live to mark, and ask the cloud to end every instance.

    Doing it twice is harmless. Reasons why an instance cannot be ended go on record with the operation.
    """
    operation = repository.operation(operation_id)
    if operation is None or not operation.is_running:
        return Outcome(Next.DONE)
    if clock.now() >= operation.deadline:
        return Outcome(Next.FINISH)
    errors = {node.id: error for node, error in mark(repository, clock, operation)}
    nodes = repository.nodes_by_id(operation.cluster, operation.managed_ids())
    by_instance = {node.instance_id: node.id for node in nodes if node.instance_id and not node.is_wanted}
    try:
        refused = compute.terminate(list(by_instance)) if by_instance else {}
    except (ComputeThrottled, ComputeUnavailable):
        return wait(polls)
    errors |= {by_instance[instance_id]: reason for instance_id, reason in refused.items()}
    if errors != operation.errors:
        after = replace(operation, errors=errors, revision=next_revision(clock.now(), operation.revision))
        repository.commit(Put(after, was=operation))
    return wait(polls)
