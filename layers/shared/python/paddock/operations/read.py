"""Reading operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.nodes.read import nodes_of
from paddock.requests.bodies import is_request_id
from paddock.store.lookup import require_operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.cluster import Cluster
    from paddock.model.identity import OperationId, RequestId
    from paddock.model.node import Node
    from paddock.model.operation import Operation, UsedRequestId
    from paddock.ports.repository import Reads


def get_operation(read: Reads, operation_id: OperationId) -> tuple[Operation, Sequence[Node]]:
    """An operation, and its nodes as far as they still exist. Raises ``NotFound``."""
    operation = require_operation(read, operation_id)
    return operation, nodes_of(read, operation)


def find_operation(read: Reads, request_id: RequestId) -> tuple[Operation, Sequence[Node]] | None:
    """The operation that a request id started, with its nodes as far as they still exist.

    The latest one, where several clusters know the request id; a cluster knows nothing of what was asked of a
    former one of its name.
    """
    used = read.requests(request_id) if is_request_id(request_id) else ()
    clusters = {request.cluster: read.cluster(request.cluster) for request in used}
    known = [request for request in used if _is_known(request, clusters[request.cluster])]
    found = [read.operation(request.operation_id) for request in known]
    latest = max(
        (operation for operation in found if operation is not None),
        key=lambda operation: operation.start_time,
        default=None,
    )
    return None if latest is None else (latest, nodes_of(read, latest))


def _is_known(request: UsedRequestId, cluster: Cluster | None) -> bool:
    return cluster is None or cluster.uid == request.cluster_uid
