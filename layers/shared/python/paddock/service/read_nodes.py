"""Reading nodes, whole clusters of them or those of one operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.errors import InvalidRequest, NotFound
from paddock.model.operation import Action
from paddock.service.lookup import operation_of_request, require_cluster, require_operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.node import Node
    from paddock.model.operation import Operation
    from paddock.ports.repository import Repository


def list_nodes(
    repository: Repository, cluster: str, operation_id: str | None, request_id: str | None
) -> tuple[Sequence[Node], Operation | None]:
    """The nodes of a cluster, or those of the operation asked for, with that operation.

    Raises ``NotFound`` for the cluster, or for an operation or request id unknown in it, and
    ``InvalidRequest`` when both are given.
    """
    if operation_id is not None and request_id is not None:
        msg = "the query must have operation or request_id, not both"
        raise InvalidRequest(msg)
    require_cluster(repository, cluster)
    if operation_id is not None:
        operation = require_operation(repository, operation_id)
        if operation.cluster != cluster:
            msg = f"No operation found with the id {operation_id!r} in cluster {cluster!r}"
            raise NotFound(msg)
    elif request_id is not None:
        operation = operation_of_request(repository, cluster, request_id)
    else:
        return repository.nodes(cluster), None
    return nodes_of(repository, operation), operation


def nodes_of(repository: Repository, operation: Operation) -> Sequence[Node]:
    """The nodes that an operation is about, as far as they still exist."""
    if operation.action is Action.CREATE:
        return repository.nodes_made_by(operation)
    return repository.nodes_by_id(operation.cluster, operation.ids())
