"""Putting operations on record, once for each request id, and the nodes of creates, once for each node.

A create's nodes are written after it, by its request, by the workflow's first task, or by a process that is
about to remove a node of it. Each of these writes is on condition that the operation runs and is not
``recorded``. So however long a writer sleeps, it never brings back a removed node: nodes are removed only
after ``recorded`` is set.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from paddock.errors import DuplicateRequest
from paddock.model.node_lifecycle import has_first_launch
from paddock.model.operation import UsedRequestId
from paddock.model.wording import quoted
from paddock.ports.repository import Check, Put, WriteConflictError
from paddock.store.lookup import require_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from paddock.model.cluster import Cluster
    from paddock.model.identity import ClusterName, OperationId, RequestId
    from paddock.model.node import Node
    from paddock.model.operation import Operation
    from paddock.ports.repository import Reads
    from paddock.store.store import Store


def require_new_request(
    read: Reads, cluster_name: ClusterName, request_id: RequestId | None
) -> tuple[Cluster, UsedRequestId | None]:
    """The cluster, and what the request id was used for in a former one of that name, to be replaced.

    Refuses a request id that was used before in the cluster itself, naming the operation that it started.
    """
    # In this order: a request id of another cluster is then one of a former cluster, and not of the next.
    earlier = read.request(cluster_name, request_id) if request_id else None
    cluster = require_cluster(read, cluster_name)
    if earlier is not None and earlier.cluster_uid == cluster.uid:
        started = f"it started operation {earlier.operation_id}"
        msg = f"The request id {quoted(request_id)} was used before, {started}"
        raise DuplicateRequest(msg, operation_id=earlier.operation_id, request_id=earlier.request_id)
    return cluster, earlier


def record_operation(operation: Operation, earlier: UsedRequestId | None = None) -> list[Put]:
    """The writes that record a new operation, and that its request id is used, also by ``earlier``."""
    writes = [Put(operation, was=None)]
    if operation.request_id:
        request = UsedRequestId(
            request_id=operation.request_id,
            cluster=operation.cluster,
            cluster_uid=operation.cluster_uid,
            operation_id=operation.id,
        )
        writes.append(Put(request, was=earlier))
    return writes


def record_nodes(store: Store, operation: Operation, may_go_on: Callable[[], bool]) -> None:
    """Write the nodes of a create that was just recorded, while it may go on and is not taken over."""
    writes = [Put(node, was=None) for node in operation.planned_nodes()]
    with suppress(WriteConflictError):
        store.commit_each(writes, may_go_on, guard=Check(operation))


def record_missing_nodes(store: Store, operation: Operation) -> Sequence[Node]:
    """Write the node records that a create's request did not live to write.

    Returns all nodes if it had to read them and none was missing, else nothing.
    """
    if not operation.may_lack_records:
        return ()

    def attempt() -> Sequence[Node]:
        existing = store.read.nodes_made_by(operation)
        ids = {node.id for node in existing}
        missing = [Put(node, was=None) for node in operation.planned_nodes() if node.id not in ids]
        if not missing:
            return existing
        current = store.read.operation(operation.id)
        # As long as it is not ``recorded`` after that look, whatever was missing then has never been there.
        if current is None or not current.may_lack_records:
            return ()
        if conflicts := store.commit_each(missing, guard=Check(current)).conflicts:
            raise WriteConflictError(conflicts)
        return ()

    return store.retry_on_conflict(attempt)


def require_recorded(store: Store, nodes: Iterable[Node]) -> None:
    """Put all nodes of the creates that made these nodes on record, so that these may be removed.

    The create of a node that still has its first instance is not looked up: it recorded its nodes before.
    """
    unsure = {node.created_by for node in nodes if not (has_first_launch(node) and node.instance_ids)}
    for operation_id in sorted(unsure):
        store.retry_on_conflict(partial(_complete, store, operation_id))


def _complete(store: Store, operation_id: OperationId) -> None:
    operation = store.read.operation(operation_id)
    if operation is not None and operation.may_lack_records:
        record_missing_nodes(store, operation)
        store.commit(Put(replace(operation, recorded=True), was=operation))
