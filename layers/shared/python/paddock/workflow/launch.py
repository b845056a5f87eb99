"""The launch task: get nodes their instances, a batch in one call; start and reboot those that are there.

Batches keep to EC2's rate: each waits for its turn in the token bucket that all operations share.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.errors import ComputeUnavailable, LaunchRefused, TransientCompute
from paddock.model.instance import InstanceState
from paddock.model.node_goals import may_use_instance
from paddock.model.node_lifecycle import awaits_replacement, is_launched_alike, is_waiting, launched, stopped
from paddock.model.node_observation import UNSEEN_GRACE_NS
from paddock.model.operation import BATCH_SIZE, DEADLINE_NS, Action, LaunchBatch
from paddock.model.pace import DEFAULT_RATES, Bucket, Pace
from paddock.model.places import places_of
from paddock.model.time import SECOND_NS
from paddock.nodes.fallback import fall_back
from paddock.nodes.manage import prepare
from paddock.nodes.placement_groups import cloud_placement_group
from paddock.nodes.read import nodes_of, some_nodes_of
from paddock.ports.compute import LaunchRequest, LaunchResult, Refusal, RefusalKind
from paddock.ports.repository import Put, WriteConflictError
from paddock.store.operations import record_missing_nodes
from paddock.store.release import write_verdicts
from paddock.workflow.outcome import Next, Outcome, wait, wait_for
from paddock.workflow.pacing import Paced, paced, seconds_until

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from paddock.model.identity import NodeId, OperationId
    from paddock.model.node import Node
    from paddock.model.operation import Operation
    from paddock.model.pace import Rate, Rates
    from paddock.ports.compute import Compute
    from paddock.ports.repository import Reads
    from paddock.store.store import Store

_STARTED = frozenset({InstanceState.PENDING, InstanceState.RUNNING})


def launch(
    store: Store,
    compute: Compute,
    operation_id: OperationId,
    polls: int,
    rates: Rates = DEFAULT_RATES,
) -> Outcome:
    """Launch the next batch of an operation's nodes; start its stopped instances, or reboot those to restart.

    The batch is on record before the call, and its token derives from it: after a crash anywhere, the next
    run makes the same call again and gets the same instances. Nodes that got none for want of capacity go to
    their next bucket, which is another batch; with none left they are Failed, and their limits given back.
    Throttled, they are asked for again after a wait. Once the deadline has passed nothing more is launched.
    """
    operation = store.read.operation(operation_id)
    if operation is None or not operation.is_running:
        return Outcome(Next.DONE)
    if store.now() >= operation.deadline:
        return Outcome(Next.FINISH)
    try:
        operation, seconds = _with_batch(store, compute, operation, polls, rates)
        batch = operation.batch
        if batch is None or seconds:
            return wait_for(seconds) if seconds else wait(polls)
        result = _call(compute, operation, batch, store.now())
    except TransientCompute:
        # A batch stays open; the same call is made again after the wait.
        return wait(polls)
    left = _assign(store, operation, batch, result)
    is_throttled = bool(left) and result.refusal_kind is RefusalKind.THROTTLED
    operation = replace(operation, throttled=is_throttled and not result.instance_ids)
    operation = _close_batch(store, operation, batch, left, rates, is_throttled=is_throttled)
    more = operation.launched_to < operation.total and not is_throttled
    return Outcome(Next.LAUNCH) if more else wait(polls)


def _with_batch(
    store: Store, compute: Compute, operation: Operation, polls: int, rates: Rates
) -> tuple[Operation, int]:
    """The operation with its open batch or its next one, if there is any, and the seconds until its turn."""
    if operation.batch is None:
        found: Sequence[Node] = ()
        errors = dict(operation.errors)
        if operation.action is Action.CREATE:
            found = record_missing_nodes(store, operation)
        else:
            errors |= prepare(store, operation)
        unused, used, touched = _use_instances(store, compute, operation, errors, polls, rates)
        operation = operation.with_errors(errors | unused)
        if used.left:
            turn = store.now() + used.wait_seconds * SECOND_NS
            if touched:
                operation = _extended(operation, turn, rates[Bucket.START], used.left)
            return _save(store, operation, operation), used.wait_seconds
        operation = _open_batch(store, operation, rates, found)
    turn = operation.batch.not_before if operation.batch else 0
    return operation, seconds_until(turn, store.now())


def _call(compute: Compute, operation: Operation, batch: LaunchBatch, now: int) -> LaunchResult:
    """Launch a batch. Raises ``ComputeUnavailable`` also if more of its instances may still come into sight.

    An instance that comes into sight later than that is ended as an orphan.
    """
    try:
        result = compute.launch(_launch_request(operation, batch))
    except LaunchRefused as refused:
        fault = Refusal(kind=RefusalKind.FAULT, code=refused.code, message=refused.message)
        return LaunchResult(instance_ids=(), refusals=(fault,))
    if not result.is_told and now < batch.not_before + UNSEEN_GRACE_NS:
        msg = "the cloud does not show yet what it launched"
        raise ComputeUnavailable(msg)
    return result


def _use_instances(
    store: Store,
    compute: Compute,
    operation: Operation,
    refused: Collection[NodeId],
    polls: int,
    rates: Rates,
) -> tuple[dict[NodeId, str], Paced, bool]:
    """Start or reboot the instances that nodes have already.

    Returns the refusals by node with the number of instances left, and whether any call was due.
    """
    if operation.action not in (Action.START, Action.RESTART):
        return {}, Paced({}), False
    nodes = [
        node
        for node in nodes_of(store.read, operation)
        if node.id not in refused and may_use_instance(node, operation)
    ]
    by_instance = {node.instance_id: node.id for node in nodes if node.instance_id}
    ids = sorted(by_instance)
    if operation.action is Action.RESTART:
        done = Paced(compute.restart(ids) if ids else {})
    else:
        has_launched = operation.batches > 0
        if ids and (polls or has_launched):
            # Instances that have started already would use up the turns that the others need. Instances that
            # this operation has launched are not for it to start; they may be out of sight.
            seen = compute.describe(ids)
            ids = [
                instance_id
                for instance_id in ids
                if (seen[instance_id].state not in _STARTED if instance_id in seen else not has_launched)
            ]
        done = paced(store, rates, Bucket.START, ids, compute.start)
    errors = {by_instance[instance_id]: reason for instance_id, reason in done.refused.items()}
    if operation.action is Action.START:
        failing = [node for node in nodes if node.id in errors]

        def judge(node: Node) -> Node:
            return stopped(node, errors[node.id]) if may_use_instance(node, operation) else node

        write_verdicts(store, operation.cluster, failing, judge)
    return errors, done, done.left < len(ids)


def _open_batch(store: Store, operation: Operation, rates: Rates, found: Sequence[Node]) -> Operation:
    """Write down the next run of nodes that are wanted, alike and not launched; or that none are left.

    As many as the token bucket has for them now, or else a portion that has to wait for its turn. The
    operation then has as long from its turn on as it would have had without waiting. Only one that EC2
    throttles at its turn does not go on for ever. ``found`` are all of its nodes, if they were just read.
    """
    rate = rates[Bucket.LAUNCH]
    room = (store.read.pace() or Pace()).room(Bucket.LAUNCH, rate, store.now())
    run = _next_run(store.read, operation, min(BATCH_SIZE, max(rate.portion, room)), found)
    if run is None:
        return _save(store, operation, operation)
    if not run:
        return _save(store, operation, replace(operation, launched_to=operation.total))
    place, first = run[0]

    def open_batch(pace: Pace, now: int) -> tuple[Operation, Pace]:
        # What is placed together is launched together.
        least = len(run) if first.placement_group_id else min(len(run), rate.portion)
        count = max(least, min(len(run), pace.room(Bucket.LAUNCH, rate, now)))
        turn = pace.may_at(Bucket.LAUNCH, rate, count, now)
        batch = LaunchBatch(
            number=operation.batches + 1,
            first=place,
            count=count,
            spec=first.spec,
            placement_group_id=first.placement_group_id,
            not_before=turn,
            place=first.launch_place,
        )
        firsts = (*operation.firsts, place)
        opened = replace(operation, batch=batch, batches=batch.number, firsts=firsts)
        if turn > now and not operation.throttled:
            # Some of the others may not be wanted any more, and then it has a little longer.
            opened = _extended(opened, turn, rate, operation.total - (place - 1) - count)
        return opened, pace.taken(Bucket.LAUNCH, rate, count, now)

    return _save_paced(store, operation, open_batch)


def _extended(operation: Operation, turn: int, rate: Rate, rest: int) -> Operation:
    """The operation with the time that it would have had, had its turn (ns) not been so late."""
    deadline = max(operation.deadline, turn + DEADLINE_NS + rate.nanoseconds(rest))
    return replace(operation, deadline=deadline)


def _next_run(
    read: Reads, operation: Operation, portion: int, found: Sequence[Node]
) -> list[tuple[int, Node]] | None:
    """The next nodes that can be asked for in one call, by place: following each other, and launched alike.

    About a portion of them, or up to ``BATCH_SIZE`` that are placed together. No other nodes are read, except
    those on the way there. ``None``: the next node's old instance has still to end.
    """
    ids = operation.ids()
    run: list[tuple[int, Node]] = []
    for begin in range(operation.launched_to, operation.total, portion):
        nodes = found or some_nodes_of(read, operation, begin, portion)
        known = {node.id: node for node in nodes}
        for place, node_id in enumerate(ids[begin : begin + portion], start=begin + 1):
            node = known.get(node_id)
            is_ours = node is not None and node.launching_operation_id == operation.id
            if node is not None and is_ours and awaits_replacement(node):
                return run or None
            if (
                node is not None
                and is_ours
                and is_waiting(node)
                and (not run or is_launched_alike(node, run[0][1]))
            ):
                run.append((place, node))
            elif run:
                return run
            if len(run) == BATCH_SIZE:
                return run
        if run and not run[0][1].placement_group_id:
            return run
    return run


def _launch_request(operation: Operation, batch: LaunchBatch) -> LaunchRequest:
    places = places_of(batch.spec, in_group=bool(batch.placement_group_id))
    place = places[batch.place]
    return LaunchRequest(
        client_token=operation.client_token(batch.number),
        cluster=operation.cluster,
        operation_id=operation.id,
        count=batch.count,
        instance_type=batch.spec.instance_type,
        launch_template_id=batch.spec.launch_template_id,
        launch_template_version=batch.spec.launch_template_version,
        subnet_ids=place.subnet_ids,
        interruptible=batch.spec.interruptible,
        placement_group=cloud_placement_group(
            operation.cluster, batch.spec.node_array, batch.placement_group_id
        ),
        together=place.together and batch.count > 1,
    )


def _assign(store: Store, operation: Operation, batch: LaunchBatch, result: LaunchResult) -> list[NodeId]:
    """Give the i-th instance to the i-th node of the batch; settles those that are left without one.

    A node that does not count was given up while the call took its time; its instance is an orphan.

    Returns the ids of the nodes left without: they are the last of the batch, unless the cloud did not report
    what it launched. Some instances may then be out of sight, and none may be given to two nodes for it.
    """
    ids = operation.ids()[batch.first - 1 : batch.first - 1 + batch.count]
    instances = dict(zip(ids, result.instance_ids, strict=False))

    def attempt() -> list[NodeId]:
        count = len(instances) if result.is_told else batch.count
        nodes = some_nodes_of(store.read, operation, batch.first - 1, count)
        held = {node.instance_id for node in nodes}
        without = [node for node in nodes if not node.instance_id and node.id in instances]
        writes = [
            Put(launched(node, instances[node.id], store.now()), was=node)
            for node in without
            if node.launching_operation_id == operation.id
            and node.uses_limits
            and instances[node.id] not in held
        ]
        if conflicts := store.commit_each(writes).conflicts:
            raise WriteConflictError(conflicts)
        return [node.id for node in without if instances[node.id] in held]

    left = [*store.retry_on_conflict(attempt), *ids[len(instances) :]]
    fall_back(store, operation, batch, left, result)
    return left


def _close_batch(
    store: Store,
    operation: Operation,
    batch: LaunchBatch,
    left: Sequence[NodeId],
    rates: Rates,
    *,
    is_throttled: bool,
) -> Operation:
    """Pass the batch; but not beyond its launched nodes if any of the others is still to be launched."""
    rate = rates[Bucket.LAUNCH]
    last = batch.first + batch.count - 1
    nodes = store.read.nodes_by_id(operation.cluster, left) if left else ()
    if waiting := {node.id for node in nodes if is_waiting(node)}:
        places = enumerate(operation.ids()[batch.first - 1 :], start=batch.first)
        last = next(place for place, identity in places if identity in waiting) - 1
    closed = replace(operation, batch=None, launched_to=last)
    if not left:
        return _save(store, operation, closed)

    def close(pace: Pace, now: int) -> tuple[Operation, Pace]:
        # EC2 counts what it launches; and where it throttles, it is its own bucket that counts.
        if is_throttled:
            return closed, pace.emptied(Bucket.LAUNCH, rate, now)
        return closed, pace.taken(Bucket.LAUNCH, rate, -len(left), now)

    return _save_paced(store, operation, close)


def _save_paced(
    store: Store,
    before: Operation,
    decide: Callable[[Pace, int], tuple[Operation, Pace]],
) -> Operation:
    """Like ``_save``, together with the token bucket, from which other operations take as well."""

    def attempt() -> Operation | WriteConflictError:
        stored, now = store.read.pace(), store.now()
        after, pace = decide(stored or Pace(), now)
        after = _recorded(after)
        put = Put(after, was=before)
        try:
            written = store.commit(put, Put(pace, was=stored))
        except WriteConflictError as conflict:
            if put in conflict.writes:
                return conflict
            raise
        return written.stored(after)

    saved = store.retry_on_conflict(attempt)
    if isinstance(saved, WriteConflictError):
        raise saved
    return saved


def _save(store: Store, before: Operation, after: Operation) -> Operation:
    """Write the operation. When another run was faster, this one fails and the task is tried again."""
    after = _recorded(after)
    return store.commit(Put(after, was=before)).stored(after)


def _recorded(operation: Operation) -> Operation:
    """The operation as this task writes it: by then all nodes of a create are on record."""
    return replace(operation, recorded=operation.action is Action.CREATE)
