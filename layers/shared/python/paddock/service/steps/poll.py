"""The poll task: look at the instances of an operation's nodes, and record what has become of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.errors import ComputeThrottled, ComputeUnavailable
from paddock.model.identity import node_index
from paddock.model.node import NodeStatus
from paddock.model.operation import Action
from paddock.ports.repository import Put
from paddock.service.contention import commit_each
from paddock.service.observation import is_gone, observed
from paddock.service.settling import fail_nodes, remove_nodes
from paddock.service.steps.outcome import Next, Outcome, wait

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from paddock.model.node import Node
    from paddock.model.operation import Operation
    from paddock.ports.clock import Clock
    from paddock.ports.compute import Compute, Instance
    from paddock.ports.repository import Repository

# Ending an instance is asked for again after this many polls, for those that have not begun to end.
_POLLS_PER_TERMINATE = 3


def poll(repository: Repository, compute: Compute, clock: Clock, operation_id: str, polls: int) -> Outcome:
    """Record what the cloud shows now, and say how to go on. Throttled, it only waits longer."""
    operation = repository.operation(operation_id)
    if operation is None or not operation.is_running:
        return Outcome(Next.DONE)
    if clock.now() >= operation.deadline:
        return Outcome(Next.FINISH)
    try:
        if operation.action is Action.CREATE:
            return _poll_create(repository, compute, clock, operation, polls)
        return _poll_terminate(repository, compute, clock, operation, polls)
    except (ComputeThrottled, ComputeUnavailable):
        return wait(polls)


def _poll_create(
    repository: Repository, compute: Compute, clock: Clock, operation: Operation, polls: int
) -> Outcome:
    nodes = repository.nodes_made_by(operation)
    starting = [node for node in nodes if node.status is NodeStatus.PREPARING and node.is_wanted]
    seen = compute.describe([node.instance_id for node in starting]) if starting else {}
    pending = _record(repository, clock, starting, seen)
    if operation.launched_to < operation.total:
        return Outcome(Next.LAUNCH)
    return wait(polls) if pending else Outcome(Next.FINISH)


def _record(
    repository: Repository, clock: Clock, nodes: Sequence[Node], seen: Mapping[str, Instance]
) -> bool:
    """Write down what is new about these nodes; tells whether any still has to be looked at again."""
    now = clock.now()
    after = {node.id: observed(node, seen.get(node.instance_id), now) for node in nodes}
    lost = {identity for identity, node in after.items() if not node.counted}
    writes = [
        Put(after[node.id], was=node) for node in nodes if node.id not in lost and after[node.id] is not node
    ]
    conflicts = commit_each(repository, writes)
    for cluster in {node.cluster for node in nodes}:
        fail_nodes(
            repository,
            clock,
            cluster,
            lost,
            lambda node: observed(node, seen.get(node.instance_id), clock.now()) if node.is_wanted else node,
        )
    waiting = [node for node in after.values() if node.counted and node.status is NodeStatus.PREPARING]
    return bool(conflicts or waiting)


def _poll_terminate(
    repository: Repository, compute: Compute, clock: Clock, operation: Operation, polls: int
) -> Outcome:
    nodes = repository.nodes_by_id(operation.cluster, operation.managed_ids())
    ending = [node for node in nodes if not node.is_wanted]
    with_instance = [node for node in ending if node.instance_id]
    seen = compute.describe([node.instance_id for node in with_instance]) if with_instance else {}
    now = clock.now()
    gone = [node for node in with_instance if is_gone(node, seen.get(node.instance_id), now)]
    gone += _never_launched(repository, [node for node in ending if not node.instance_id])
    remove_nodes(repository, clock, operation.cluster, [node.id for node in gone])
    left = [node for node in ending if node not in gone]
    after = [(node, observed(node, seen.get(node.instance_id), now)) for node in left if node.instance_id]
    commit_each(repository, [Put(new, was=node) for node, new in after if new is not node])
    if not left:
        return Outcome(Next.FINISH)
    return (
        Outcome(Next.TERMINATE) if polls % _POLLS_PER_TERMINATE == _POLLS_PER_TERMINATE - 1 else wait(polls)
    )


def _never_launched(repository: Repository, nodes: Sequence[Node]) -> list[Node]:
    """Those of these nodes without an instance that will get none: their create has passed them, or ended."""
    creates = {identity: repository.operation(identity) for identity in {node.operation_id for node in nodes}}

    def is_settled(node: Node) -> bool:
        create = creates[node.operation_id]
        return create is None or not create.is_running or create.launched_to >= node_index(node.id)

    return [node for node in nodes if is_settled(node)]
