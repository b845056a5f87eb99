"""Acting on nodes that exist: mark them in the request, let the workflow do the rest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paddock.model.identity import ClusterName, NodeId, OperationId, RequestId, new_operation_id
from paddock.model.limits import count_bucket, other_bucket_with, placement_group_room
from paddock.model.names import NameSet
from paddock.model.node_actions import RefusedError, act
from paddock.model.node_goals import is_overtaken
from paddock.model.node_lifecycle import has_failed
from paddock.model.operation import (
    EVERY_VIRTUAL_CLUSTER,
    Action,
    Operation,
    OperationState,
    deadline_of,
)
from paddock.ports.repository import Check, Put
from paddock.requests.filters import parse_filter
from paddock.store.lookup import known_quotas, require_cluster, require_ledger
from paddock.store.membership import with_departures
from paddock.store.operations import record_operation, require_new_request
from paddock.store.starting import REQUEST_NS, left_to_the_workflow, start

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from paddock.model.cluster import Cluster
    from paddock.model.definition import Bucket, NodeArray
    from paddock.model.ledger import Ledger
    from paddock.model.node import Node
    from paddock.ports.repository import Reads, Write
    from paddock.ports.workflows import Workflows
    from paddock.requests.bodies import NodeManagementRequest
    from paddock.store.store import Store


@dataclass(frozen=True, slots=True)
class NodeResult:
    """The outcome for one selected node; ``error`` is empty if the action will be done."""

    node: Node
    error: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """An action on nodes of a cluster; ``takes_from`` is the operation's."""

    cluster: ClusterName
    action: Action
    request_id: RequestId = RequestId("")
    takes_from: str = ""


@dataclass(frozen=True, slots=True)
class Forced:
    """An action of Paddock's own, which nothing holds back: the id of its operation, and its reason.

    Instances are left alone until the notice has passed.
    """

    operation_id: OperationId
    action: Action
    reason: str
    notice_ns: int = 0


def manage_nodes(
    store: Store,
    workflows: Workflows,
    cluster_name: ClusterName,
    action: Action,
    request: NodeManagementRequest,
) -> tuple[Operation, list[NodeResult]]:
    """Act on the selected nodes; returns one result for each, in the order of their ids.

    A node that may not be changed so is untouched and its result says why. A selector that matches nothing is
    no error. Raises ``NotFound`` for the cluster and ``DuplicateRequest``.
    """
    takes_from = EVERY_VIRTUAL_CLUSTER if request.force else ""
    command = Command(cluster_name, action, request.request_id or RequestId(""), takes_from)
    return manage(store, workflows, command, lambda: _select(store.read, cluster_name, request))


def manage(
    store: Store, workflows: Workflows, command: Command, select: Callable[[], Sequence[Node]]
) -> tuple[Operation, list[NodeResult]]:
    """Like ``manage_nodes``, for nodes that ``select`` finds; it is called again after a conflict."""

    def attempt() -> tuple[Operation, dict[NodeId, NodeResult]]:
        cluster, earlier = require_new_request(store.read, command.cluster, command.request_id)
        nodes = select()
        now = after_all(store.now(), nodes)
        candidate = replace(
            new_operation(now, cluster.name, new_operation_id(now), command.action, ()),
            takes_from=command.takes_from,
        )
        results = {node.id: _judge(node, candidate, now) for node in nodes}
        ids = [node_id for node_id, result in results.items() if not result.error]
        operation = replace(
            new_operation(now, cluster.name, candidate.id, command.action, ids),
            cluster_uid=cluster.uid,
            request_id=command.request_id,
            takes_from=command.takes_from,
            awaited=_launchers(nodes) if command.action is Action.START else (),
        )
        written = store.commit(*record_operation(operation, earlier))
        return written.stored(operation), results

    operation, results = store.retry_on_conflict(attempt)
    if operation.is_running:
        with left_to_the_workflow(operation):
            refused = mark_for_a_while(store, operation)
            results |= {node.id: NodeResult(node, error) for node, error in refused}
            _record_refused(store, operation, refused)
        start(workflows, operation)
    return operation, list(results.values())


def _launchers(nodes: Sequence[Node]) -> tuple[OperationId, ...]:
    """The operations that are launching any of these nodes already."""
    return tuple(sorted({node.launching_operation_id for node in nodes if node.is_starting}))


def retry_failed(store: Store, workflows: Workflows, cluster_name: ClusterName) -> Operation:
    """Start again every node of the cluster that failed and has no instance. Raises ``NotFound``."""

    def select() -> list[Node]:
        nodes = store.read.nodes(cluster_name)
        return [node for node in nodes if has_failed(node) and node.is_wanted]

    operation, _ = manage(store, workflows, Command(cluster_name, Action.START), select)
    return operation


def after_all(now: int, nodes: Sequence[Node]) -> int:
    """Now (ns), but later than the last operation on any of these nodes, even if its clock was ahead."""
    return max(now, *(node.managed_at + 1 for node in nodes), 0)


def new_operation(
    now: int, cluster: ClusterName, operation_id: OperationId, action: Action, node_ids: Collection[NodeId]
) -> Operation:
    """The record of an operation on these nodes; without nodes, the operation has ended already."""
    return Operation(
        id=operation_id,
        cluster=cluster,
        action=action,
        state=OperationState.RUNNING if node_ids else OperationState.SUCCEEDED,
        start_time=now,
        deadline=deadline_of(action, len(node_ids), now),
        finish_time=0 if node_ids else now,
        total=len(node_ids),
        node_ids=NameSet(node_ids).to_document(),
    )


def begin_forced(store: Store, workflows: Workflows, forced: Forced, nodes: Sequence[Node]) -> None:
    """Begin an operation of Paddock's own on these nodes of one cluster, of which it takes hold at once.

    Raises ``WriteConflictError`` where an operation of its id exists.
    """
    now = after_all(store.now(), nodes)
    cluster = require_cluster(store.read, nodes[0].cluster)
    operation = replace(
        new_operation(now, cluster.name, forced.operation_id, forced.action, [node.id for node in nodes]),
        cluster_uid=cluster.uid,
        forced=True,
        reason=forced.reason,
        not_before=now + forced.notice_ns if forced.notice_ns else 0,
    )
    operation = store.commit(Put(operation, was=None)).stored(operation)
    mark(store, operation)
    start(workflows, operation)


def mark_for_a_while(store: Store, operation: Operation) -> list[tuple[Node, str]]:
    """Like ``mark``, for as many nodes as a request has time for; the workflow marks the rest."""
    return mark(store, operation, until=store.now() + REQUEST_NS)


def mark(store: Store, operation: Operation, until: int | None = None) -> list[tuple[Node, str]]:
    """Let the operation take hold of its nodes; returns the reasons of those that refuse, by node id.

    A node may have changed since the operation was recorded, and its present state counts. Called again after
    a crash, or after it stopped at ``until`` (ns), it goes on where it stopped. An operation that has ended
    takes hold of no more nodes: no task would bring them to its goal.
    """
    current: Operation | None = operation
    tried: Sequence[NodeId] = ()
    refused: dict[NodeId, tuple[Node, str]] = {}

    def decide(ids: Sequence[NodeId]) -> list[Write]:
        nonlocal current, tried
        if ids == tried:
            # A record has changed: perhaps the operation's, which has ended, was resumed, or noted an error.
            current = store.read.operation(operation.id)
        tried = ids
        for node_id in ids:
            # What an earlier attempt found is no longer so.
            refused.pop(node_id, None)
        if current is None or not current.is_running:
            current = None
            return []
        plan = _Marking(store.read, current)
        for node in store.read.nodes_by_id(operation.cluster, ids):
            if node.managing_operation_id != operation.id:
                plan.take(node, store.now())
        refused.update({node.id: (node, reason) for node, reason in plan.refused})
        writes = [*with_departures(store.read, plan.writes, store.now()), *plan.ledger_writes()]
        return [*writes, Check(current)] if writes else []

    def may_go_on() -> bool:
        return current is not None and (until is None or store.now() < until)

    # Beside the nodes, a transaction checks the operation, and may check the cluster and write the ledger.
    store.in_transactions(operation.ids(), decide, writes_per_id=1, writes_beside=3, may_go_on=may_go_on)
    return list(refused.values())


def _record_refused(store: Store, operation: Operation, refused: Sequence[tuple[Node, str]]) -> None:
    """Record the nodes that the reply reports as refused, as many as fit: the workflow must leave them."""
    if refused:
        after = operation.with_errors({node.id: error for node, error in refused})
        store.commit_each([Put(after, was=operation)])


def prepare(store: Store, operation: Operation) -> dict[NodeId, str]:
    """Take hold of the nodes that an action's request did not mark before it ended; returns refusals by node.

    A node that a later operation has taken hold of is no refusal: its final state counts.
    """
    refused = mark(store, operation)
    return {
        node.id: error
        for node, error in refused
        if node.id in operation.errors or not is_overtaken(node, operation)
    }


def _judge(node: Node, operation: Operation, now: int) -> NodeResult:
    try:
        act(node, operation, now)
    except RefusedError as refusal:
        return NodeResult(node, str(refusal))
    return NodeResult(node)


class _Marking:
    """The writes that mark nodes; nodes that use limits again are counted in the same transaction."""

    def __init__(self, read: Reads, operation: Operation) -> None:
        self._records = read
        self._operation = operation
        self._read: tuple[Cluster, Ledger, Mapping[str, int]] | None = None
        self._ledger: Ledger | None = None
        self.writes: list[Write] = []
        self.refused: list[tuple[Node, str]] = []

    def take(self, node: Node, now: int) -> None:
        """Mark a node, or note why it refuses; a node that was refused once stays refused."""
        if node.id in self._operation.errors:
            self.refused.append((node, self._operation.errors[node.id]))
            return
        try:
            after = act(node, self._operation, now)
            if after.uses_limits and not node.uses_limits:
                self._count(node, now)
            self.writes.append(Put(after, was=node))
        except RefusedError as refusal:
            self.refused.append((node, str(refusal)))

    def ledger_writes(self) -> list[Write]:
        """The writes that belong to nodes which begin to use limits."""
        if self._read is None or self._ledger is None:
            return []
        cluster, ledger, _ = self._read
        return [Check(cluster), Put(self._ledger, was=ledger)]

    def _count(self, node: Node, now: int) -> None:
        cluster, ledger, quotas = self._limits()
        found = cluster.definition.array(node.spec.node_array)
        bucket = found.bucket(node.spec.machine_type) if found else None
        if found is None or bucket is None:
            raise RefusedError("the node's bucket must be in the cluster's definition")
        counts = count_bucket(cluster, ledger, quotas, found, bucket, now)
        if not counts.available_count:
            raise RefusedError(f"limits and quotas leave no room for {bucket.machine_type} in {found.name}")
        self._require_group(node, found, bucket, ledger)
        use = ledger.use(node.bucket_id).changed(active=1, placement_group=node.placement_group_id)
        self._ledger = ledger.with_use(node.bucket_id, use)

    @staticmethod
    def _require_group(node: Node, array: NodeArray, bucket: Bucket, ledger: Ledger) -> None:
        """Require room in the placement group: a node that did not count has left its place to others."""
        group = node.placement_group_id
        other = other_bucket_with(node.cluster, ledger, array, bucket, group)
        if other is not None:
            raise RefusedError(f"placement group {group} has machine type {other.machine_type}")
        placed = ledger.use(node.bucket_id).placement_groups.get(group, 0)
        if group and not placement_group_room(bucket, placed):
            raise RefusedError(f"placement group {group} has room for 0")

    def _limits(self) -> tuple[Cluster, Ledger, Mapping[str, int]]:
        if self._read is None:
            name = self._operation.cluster
            self._read = (
                require_cluster(self._records, name),
                require_ledger(self._records, name),
                known_quotas(self._records),
            )
        cluster, ledger, quotas = self._read
        return cluster, self._ledger or ledger, quotas


def _select(read: Reads, cluster: ClusterName, request: NodeManagementRequest) -> list[Node]:
    ids, names = set(request.ids or ()), set(request.names or ())
    hostnames, addresses = set(request.hostnames or ()), set(request.ip_addresses or ())
    condition = parse_filter(request.filter) if request.filter is not None else None
    return [
        node
        for node in read.nodes(cluster)
        if node.id in ids
        or node.name in names
        or (node.hostname and node.hostname in hostnames)
        or (node.private_ip and node.private_ip in addresses)
        or (condition and condition.holds(node.attributes_as_named()))
    ]
