"""Ending nodes: mark them in the request, end their instances in the workflow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paddock.model.filters import parse_filter
from paddock.model.identity import new_operation_id, next_revision
from paddock.model.names import NameSet
from paddock.model.node import NodeStatus, TargetState
from paddock.model.operation import DEADLINE_NS, Action, Operation, OperationState
from paddock.ports.repository import Put, WriteConflictError
from paddock.service.contention import commit_each, until_won
from paddock.service.create_nodes import record_operation, require_new_request
from paddock.service.lookup import require_cluster
from paddock.service.starting import start

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from paddock.model.node import Node
    from paddock.model.requests import NodeManagementRequest
    from paddock.ports.clock import Clock
    from paddock.ports.repository import Repository
    from paddock.ports.workflows import Workflows


@dataclass(frozen=True, slots=True)
class NodeResult:
    """What became of one selected node; ``error`` is empty where it will be ended."""

    node: Node
    error: str = ""


def terminate_nodes(
    repository: Repository,
    workflows: Workflows,
    clock: Clock,
    cluster_name: str,
    request: NodeManagementRequest,
) -> tuple[Operation, list[NodeResult]]:
    """End the selected nodes; answers one result for each, in the order of their ids.

    A node that may not be ended is untouched and its result says why. A selector that matches nothing is no
    error. Raises ``NotFound`` for the cluster and ``DuplicateRequest``.
    """

    def attempt() -> tuple[Operation, Sequence[Node]]:
        if request.request_id:
            require_new_request(repository, cluster_name, request.request_id)
        require_cluster(repository, cluster_name)
        nodes = _select(repository, cluster_name, request)
        ids = [node.id for node in nodes if not refusal(node)]
        now = clock.now()
        operation = new_termination(now, cluster_name, new_operation_id(now), ids, request.request_id or "")
        repository.commit(*record_operation(operation))
        return operation, nodes

    operation, nodes = until_won(clock, attempt)
    results = {node.id: NodeResult(node, refusal(node)) for node in nodes}
    if operation.is_running:
        results |= {node.id: NodeResult(node, error) for node, error in mark(repository, clock, operation)}
        start(workflows, operation)
    return operation, [results[node.id] for node in nodes]


def refusal(node: Node) -> str:
    """Why this node must not be ended by a client, or nothing."""
    if node.keep_alive:
        return "KeepAlive must be false"
    if node.virtual_cluster:
        return f"virtual cluster {node.virtual_cluster} holds the node, it must release it first"
    return ""


def new_termination(
    now: int,
    cluster: str,
    operation_id: str,
    node_ids: Collection[str],
    request_id: str = "",
    *,
    forced: bool = False,
) -> Operation:
    """The record of an operation that ends these nodes; one that ends none has ended itself."""
    return Operation(
        id=operation_id,
        cluster=cluster,
        action=Action.TERMINATE,
        revision=next_revision(now),
        state=OperationState.RUNNING if node_ids else OperationState.SUCCEEDED,
        start_time=now,
        deadline=now + DEADLINE_NS,
        finish_time=0 if node_ids else now,
        total=len(node_ids),
        request_id=request_id,
        forced=forced,
        node_ids=NameSet(node_ids).to_document(),
    )


def ending(node: Node, now: int) -> Node:
    """The node as it is once its end is wanted."""
    return replace(
        node,
        revision=next_revision(now, node.revision),
        status=NodeStatus.TERMINATING,
        target_state=TargetState.TERMINATED,
        status_message="",
    )


def mark(repository: Repository, clock: Clock, operation: Operation) -> list[tuple[Node, str]]:
    """Mark the nodes of a termination that are not marked yet; answers those that must not be any longer.

    A node may have been claimed since the operation was recorded: the claim came first, and stands.
    """

    def attempt() -> list[tuple[Node, str]]:
        nodes = repository.nodes_by_id(operation.cluster, operation.managed_ids())
        wanted = [node for node in nodes if node.is_wanted]
        refused = [(node, error) for node in wanted if (error := refusal(node)) and not operation.forced]
        spared = {node.id for node, _ in refused}
        writes = [Put(ending(node, clock.now()), was=node) for node in wanted if node.id not in spared]
        if conflicts := commit_each(repository, writes):
            raise WriteConflictError(conflicts)
        return refused

    return until_won(clock, attempt)


def _select(repository: Repository, cluster: str, request: NodeManagementRequest) -> list[Node]:
    ids, names = set(request.ids or ()), set(request.names or ())
    hostnames, addresses = set(request.hostnames or ()), set(request.ip_addresses or ())
    condition = parse_filter(request.filter) if request.filter is not None else None
    return [
        node
        for node in repository.nodes(cluster)
        if node.id in ids
        or node.name in names
        or (node.hostname and node.hostname in hostnames)
        or (node.private_ip and node.private_ip in addresses)
        or (condition and condition.holds(node.attributes_as_named()))
    ]
