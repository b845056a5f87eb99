"""Putting operations on record, once for each request id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.errors import DuplicateRequest
from paddock.model.operation import Request
from paddock.ports.repository import Put

if TYPE_CHECKING:
    from paddock.model.operation import Operation
    from paddock.ports.repository import Repository


def require_new_request(repository: Repository, cluster: str, request_id: str) -> None:
    """Refuse a request id that was used before in this cluster, naming the operation that it started."""
    earlier = repository.request(cluster, request_id)
    if earlier is not None:
        msg = f"The request id {request_id!r} was used before, it started operation {earlier.operation_id}"
        raise DuplicateRequest(msg, operationId=earlier.operation_id, requestId=request_id)


def record_operation(operation: Operation) -> list[Put]:
    """The writes that record a new operation, and that its request id is used."""
    writes = [Put(operation, was=None)]
    if operation.request_id:
        request = Request(
            request_id=operation.request_id,
            cluster=operation.cluster,
            operation_id=operation.id,
            revision=operation.revision,
        )
        writes.append(Put(request, was=None))
    return writes
