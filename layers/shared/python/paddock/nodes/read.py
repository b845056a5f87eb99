"""Reading nodes, whole clusters of them or those of one operation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddock.errors import InvalidRequest, NotFound
from paddock.model.identity import ClusterName, OperationId, RequestId, is_id
from paddock.model.operation import Action
from paddock.model.wording import quoted
from paddock.store.lookup import operation_of_request, require_cluster, require_operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.node import Node
    from paddock.model.operation import Operation
    from paddock.ports.repository import Reads


def list_nodes(
    read: Reads, cluster: ClusterName, operation_id: OperationId | None, request_id: RequestId | None
) -> tuple[Sequence[Node], Operation | None]:
    """The nodes of a cluster, or those of the operation asked for, with that operation.

    Raises ``NotFound`` for the cluster, or for an operation or request id unknown in it, and
    ``InvalidRequest`` when both are given.
    """
    if operation_id is not None and request_id is not None:
        msg = "the query must have operation or request_id, not both"
        raise InvalidRequest(msg)
    found = require_cluster(read, cluster)
    if operation_id is not None:
        operation = require_operation(read, operation_id)
        if (operation.cluster, operation.cluster_uid) != (found.name, found.uid):
            msg = f"No operation found with the id {quoted(operation_id)} in cluster {quoted(cluster)}"
            raise NotFound(msg)
    elif request_id is not None:
        operation = operation_of_request(read, found, request_id)
    else:
        return read.nodes(cluster), None
    return nodes_of(read, operation), operation


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePage:
    """Some of the nodes that were asked for, in the order of their ids.

    ``next_token`` is where to go on, ``None`` if there are no more. ``operation`` is the operation that was
    asked for, and ``operation_nodes`` are all of its nodes, whatever the page holds.
    """

    nodes: Sequence[Node]
    next_token: str | None
    operation: Operation | None
    operation_nodes: Sequence[Node]


def page_of_nodes(
    read: Reads,
    cluster: ClusterName,
    operation_id: OperationId | None = None,
    request_id: RequestId | None = None,
    limit: int | None = None,
    after: str = "",
) -> NodePage:
    """At most ``limit`` of what ``list_nodes`` lists, from where ``after`` (a ``next_token``) says.

    A node that exists throughout appears on exactly one page, whatever other nodes come and go. Raises the
    errors of ``list_nodes``, and ``InvalidRequest`` for a token that no page can have given.
    """
    if after and not is_id(after):
        msg = "nextToken must be one that a reply gave"
        raise InvalidRequest(msg)
    # One node more than the page returns, to know whether there are more.
    most = None if limit is None else limit + 1
    if operation_id is None and request_id is None:
        require_cluster(read, cluster)
        operation_nodes: Sequence[Node] = ()
        found, operation = read.nodes(cluster, most, after), None
    else:
        operation_nodes, operation = list_nodes(read, cluster, operation_id, request_id)
        found = [node for node in operation_nodes if node.id > after][:most]
    nodes = found[:limit]
    return NodePage(
        nodes=nodes,
        next_token=nodes[-1].id if len(found) > len(nodes) else None,
        operation=operation,
        operation_nodes=operation_nodes,
    )


def nodes_of(read: Reads, operation: Operation) -> Sequence[Node]:
    """The nodes that an operation is about, as far as they still exist."""
    if operation.action is Action.CREATE:
        return read.nodes_made_by(operation)
    return read.nodes_by_id(operation.cluster, operation.ids())


def some_nodes_of(read: Reads, operation: Operation, after: int, count: int) -> Sequence[Node]:
    """Like ``nodes_of``, for the ``count`` places behind ``after`` among the operation's ids."""
    if operation.action is Action.CREATE:
        return read.nodes_made_by(operation, after, count)
    ids = operation.ids()[after : after + count]
    return read.nodes_by_id(operation.cluster, ids) if ids else ()
