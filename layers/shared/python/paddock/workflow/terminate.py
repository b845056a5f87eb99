"""The terminate task: end or stop the instances of an operation's nodes, as each shall be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.errors import TransientCompute
from paddock.model.instance import InstanceState
from paddock.model.node_goals import is_led_there, replaced_by
from paddock.model.node_lifecycle import is_stopping, is_terminating, keeping_its_instance
from paddock.model.operation import Action
from paddock.model.pace import DEFAULT_RATES, Bucket
from paddock.nodes.manage import prepare
from paddock.nodes.read import nodes_of
from paddock.ports.repository import Put
from paddock.workflow.outcome import Next, Outcome, wait, wait_for
from paddock.workflow.pacing import paced

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from paddock.model.identity import InstanceId, OperationId
    from paddock.model.node import Node
    from paddock.model.operation import Operation
    from paddock.model.pace import Rates
    from paddock.ports.compute import Compute
    from paddock.store.store import Store


_STOPPED = frozenset({InstanceState.STOPPING, InstanceState.STOPPED})


def terminate(
    store: Store,
    compute: Compute,
    operation_id: OperationId,
    polls: int,
    rates: Rates = DEFAULT_RATES,
) -> Outcome:
    """Mark the nodes that the request could not mark, and ask the cloud to end or stop every instance.

    As many at a time as EC2's rate allows; an instance that has begun to end is not asked for again. Doing it
    twice is harmless. Reasons why an instance cannot be changed go on record with the operation.
    """
    operation = store.read.operation(operation_id)
    if operation is None or not operation.is_running:
        return Outcome(Next.DONE)
    if store.now() >= operation.deadline:
        return Outcome(Next.FINISH)
    errors = prepare(store, operation)
    # Work that was given notice goes on until then.
    operation_nodes = nodes_of(store.read, operation) if store.now() >= operation.not_before else ()
    # A node with another goal by a later operation is that operation's to change, in its own time.
    nodes = [node for node in operation_nodes if is_led_there(node, operation)]
    ending = {instance_id: node.id for node in nodes for instance_id in _to_end(node, operation)}
    stopping = {node.instance_id: node.id for node in nodes if is_stopping(node)}
    try:
        seen = compute.describe([*ending, *stopping]) if polls and (ending or stopping) else {}
        to_end = [
            instance_id
            for instance_id in sorted(ending)
            if instance_id not in seen or not seen[instance_id].state.is_ending
        ]
        to_stop = [
            instance_id
            for instance_id in sorted(stopping)
            if instance_id not in seen or seen[instance_id].state not in _STOPPED
        ]
        ended = paced(store, rates, Bucket.TERMINATE, to_end, compute.terminate)
        stopped = paced(store, rates, Bucket.STOP, to_stop, compute.stop)
    except TransientCompute:
        return wait(polls)
    refused = {**ended.refused, **stopped.refused}
    errors |= {(ending | stopping)[instance_id]: reason for instance_id, reason in refused.items()}
    if operation.action is Action.REIMAGE:
        # An instance that is kept is not asked for again, so it has no other reason than its first.
        errors = {**errors, **operation.errors}
    after = operation.with_errors(errors)
    if after != operation:
        store.commit(Put(after, was=operation))
    if operation.action is Action.REIMAGE:
        _keep(store, [node for node in nodes if not refused.keys().isdisjoint(replaced_by(node, operation))])
    turns = [calls.wait_seconds for calls in (ended, stopped) if calls.left]
    return wait_for(min(turns)) if turns else wait(polls)


def _to_end(node: Node, operation: Operation) -> Collection[InstanceId]:
    """Instances to end: all of a node that shall end, and the instance that a reimage replaces."""
    return node.instance_ids if is_terminating(node) else replaced_by(node, operation)


def _keep(store: Store, nodes: Sequence[Node]) -> None:
    """Let nodes keep the instances that the cloud will not end; the polls find their addresses again."""
    # A node that another writer has changed meanwhile is tried again by the next task.
    store.commit_each([Put(keeping_its_instance(node), was=node) for node in nodes])
