"""The poll task: look at the instances of an operation's nodes, and record what has become of them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.errors import TransientCompute
from paddock.model.identity import InstanceId, NodeId, OperationId, node_index
from paddock.model.instance import InstanceState
from paddock.model.node_goals import is_led_there, is_on_its_way, is_untouched
from paddock.model.node_lifecycle import awaits_replacement, is_booting, is_stopping, is_terminating
from paddock.model.node_observation import is_unheard, polled, seen_state
from paddock.model.operation import ENDING, Action
from paddock.nodes.read import nodes_of, some_nodes_of
from paddock.nodes.tags import TAGS_PER_POLL, tag_instances
from paddock.ports.repository import Put, WriteConflictError
from paddock.store.release import is_removal, never_launched, write_verdicts
from paddock.virtual_clusters.reconcile import join
from paddock.workflow.outcome import Next, Outcome, wait

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from paddock.model.instance import Instance
    from paddock.model.node import Node
    from paddock.model.operation import Operation
    from paddock.ports.compute import Compute
    from paddock.ports.repository import Reads
    from paddock.store.store import Store

# A change that has not come about is asked for again after this many polls.
_POLLS_PER_CALL = 3
# A write of the operation costs about as much as so many reads of nodes.
_WORTH_A_MARK = 50


def poll(store: Store, compute: Compute, operation_id: OperationId, polls: int) -> Outcome:
    """Record what the cloud shows now, and say how to go on. Throttled, it only waits longer.

    Nodes that another operation brings to this operation's goal are waited for, and not written. Nodes that
    are Ready join the virtual cluster that they were launched for. Tags come last, so they delay nothing.
    """
    operation = store.read.operation(operation_id)
    if operation is None or not operation.is_running:
        return Outcome(Next.DONE)
    if store.now() >= operation.deadline:
        return Outcome(Next.FINISH)
    try:
        if operation.action in ENDING:
            return _poll_ending(store, compute, operation, polls)
        outcome, looked_at, seen = _poll_launching(store, compute, operation, polls)
    except TransientCompute:
        return wait(polls)
    for name in sorted(operation.virtual_clusters()):
        join(store, name)
    tag_instances(compute, store.now, looked_at, seen, TAGS_PER_POLL)
    return outcome


def _poll_launching(
    store: Store, compute: Compute, operation: Operation, polls: int
) -> tuple[Outcome, Sequence[Node], Mapping[InstanceId, Instance]]:
    """How to go on; and the nodes whose instances were looked at, with the instances seen, by id."""
    looked_at = _to_look_at(store.read, operation)
    nodes = [node for node in looked_at if node.launching_operation_id == operation.id]
    awaited = {
        node.id
        for node in looked_at
        if node.launching_operation_id != operation.id and is_on_its_way(node, operation)
    }
    starting = [node for node in nodes if is_booting(node)]
    replaced = [node for node in nodes if awaits_replacement(node)]
    ids = [node.instance_id for node in starting] + [node.replaced_instance_id for node in replaced]
    seen = compute.describe(ids) if ids else {}
    after = write_verdicts(
        store, operation.cluster, [*starting, *replaced], lambda node: polled(node, seen, store.now())
    )
    pending = {node.id for node in after.values() if node is not None and is_booting(node)}
    left = [after[node.id] for node in replaced]
    if any(node is not None and awaits_replacement(node) for node in left):
        unheard = any(is_unheard(node, seen) for node in replaced)
        outcome = Outcome(Next.TERMINATE) if unheard else _again_or_wait(Next.TERMINATE, polls)
    elif operation.launched_to < operation.total:
        outcome = Outcome(Next.LAUNCH)
    elif any(seen_state(node, seen) is InstanceState.STOPPED for node in starting):
        # EC2 has not acted on its start.
        outcome = _again_or_wait(Next.LAUNCH, polls)
    else:
        outcome = wait(polls) if pending or awaited else Outcome(Next.FINISH)
    if operation.action is Action.CREATE and outcome.next is not Next.FINISH:
        # A node that another operation could not stop goes on booting, as this one's.
        stopping = {node.id for node in nodes if is_stopping(node)}
        _mark_resolved(store, operation, pending | awaited | stopping)
    return outcome, starting, seen


def _to_look_at(read: Reads, operation: Operation) -> Sequence[Node]:
    """The nodes that may have news. Of a create: those that are launched, and not seen to the end of it.

    While its nodes come up in turns, as fast as EC2 allows, these are not more than boot at one time.
    """
    if operation.action is not Action.CREATE:
        return nodes_of(read, operation)
    # A launch task may have died after it gave the nodes of its batch their instances.
    batch = operation.batch
    last = batch.first + batch.count - 1 if batch is not None else operation.launched_to
    return some_nodes_of(read, operation, operation.resolved_to, last - operation.resolved_to)


def _mark_resolved(store: Store, operation: Operation, unsettled: Collection[NodeId]) -> None:
    """Record the place up to which no node has to be looked at again, if that spares many reads."""
    resolved_to = min([operation.launched_to, *(node_index(node_id) - 1 for node_id in unsettled)])
    if resolved_to - operation.resolved_to < _WORTH_A_MARK:
        return
    with suppress(WriteConflictError):
        store.commit(Put(replace(operation, resolved_to=resolved_to), was=operation))


def _again_or_wait(again: Next, polls: int) -> Outcome:
    """Mostly wait; now and then ask the cloud again for changes that have not begun."""
    return Outcome(again) if polls % _POLLS_PER_CALL == _POLLS_PER_CALL - 1 else wait(polls)


def _poll_ending(store: Store, compute: Compute, operation: Operation, polls: int) -> Outcome:
    operation_nodes = nodes_of(store.read, operation)
    nodes = [node for node in operation_nodes if is_led_there(node, operation)]
    stopping = [node for node in nodes if is_stopping(node)]
    ending = [node for node in nodes if is_terminating(node)]
    ids = [instance_id for node in (*ending, *stopping) for instance_id in node.instance_ids]
    seen = compute.describe(ids) if ids else {}
    waiting = [node for node in ending if not node.instance_ids]
    passed = {node.id for node in never_launched(store.read, waiting)}

    def judge(node: Node) -> Node | None:
        return None if node.id in passed and is_terminating(node) else polled(node, seen, store.now())

    after = write_verdicts(store, operation.cluster, [*ending, *stopping], judge)
    left = [node for node in ending if not is_removal(after[node.id])]
    stops = any(node is not None and is_stopping(node) for node in after.values())
    if not left and not stops and not any(is_untouched(node, operation) for node in operation_nodes):
        return Outcome(Next.FINISH)
    unheard = [node for node in left if node.id not in operation.errors and is_unheard(node, seen)]
    unheard += [node for node in stopping if seen_state(node, seen) is InstanceState.RUNNING]
    if unheard and store.now() >= operation.not_before:
        return Outcome(Next.TERMINATE)
    return _again_or_wait(Next.TERMINATE, polls)
