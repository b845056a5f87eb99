"""Reading the records that a request names; a missing record is reported as ``NotFound``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.errors import NotFound
from paddock.model.definition import is_cluster_name
from paddock.model.identity import ClusterName, OperationId, RequestId, is_id
from paddock.model.wording import quoted
from paddock.requests.bodies import is_request_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from paddock.model.cluster import Cluster
    from paddock.model.ledger import Ledger
    from paddock.model.operation import Operation
    from paddock.ports.repository import Reads


def require_cluster(read: Reads, name: ClusterName) -> Cluster:
    """The cluster, or ``NotFound``."""
    cluster = read.cluster(name) if is_cluster_name(name) else None
    if cluster is None:
        msg = f"No cluster found with the name {quoted(name)}"
        raise NotFound(msg)
    return cluster


def require_ledger(read: Reads, cluster: ClusterName) -> Ledger:
    """The ledger of a cluster that was there a moment ago, or ``NotFound``."""
    ledger = read.ledger(cluster)
    if ledger is None:
        msg = f"No cluster found with the name {quoted(cluster)}"
        raise NotFound(msg)
    return ledger


def known_quotas(read: Reads) -> Mapping[str, int]:
    """The account's quotas in vCPU by quota code, as far as they are known."""
    found = read.quotas()
    return found.cores if found else {}


def require_operation(read: Reads, operation_id: OperationId) -> Operation:
    """The operation, or ``NotFound``."""
    operation = read.operation(operation_id) if is_id(operation_id) else None
    if operation is None:
        msg = f"No operation found with the id {quoted(operation_id)}"
        raise NotFound(msg)
    return operation


def running_among(read: Reads, operation_ids: Iterable[OperationId]) -> dict[OperationId, Operation]:
    """The operations that still run, by id; an operation without a record has ended."""
    found = {operation_id: read.operation(operation_id) for operation_id in set(operation_ids)}
    return {
        operation_id: operation
        for operation_id, operation in found.items()
        if operation and operation.is_running
    }


def operation_of_request(read: Reads, cluster: Cluster, request_id: RequestId) -> Operation:
    """The operation that a request id started in a cluster, or ``NotFound``."""
    request = read.request(cluster.name, request_id) if is_request_id(request_id) else None
    is_its_own = request is not None and request.cluster_uid == cluster.uid
    operation = read.operation(request.operation_id) if request and is_its_own else None
    if operation is None:
        msg = f"No operation found for request id {quoted(request_id)}"
        raise NotFound(msg)
    return operation
