"""The repository in memory: the same promises, kept by one lock."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

from paddock.adapters.dynamodb import keys
from paddock.adapters.dynamodb.items import bytes_of, from_item, to_item
from paddock.model.cluster import Cluster
from paddock.model.identity import (
    MAX_INDEX,
    ClusterName,
    NodeId,
    OperationId,
    RequestId,
    VirtualClusterId,
    node_index,
    operation_of,
)
from paddock.model.ledger import Ledger
from paddock.model.node import Node
from paddock.model.operation import Operation, UsedRequestId
from paddock.model.pace import Pace
from paddock.model.quotas import Quotas
from paddock.model.usage import UsageInterval
from paddock.model.virtual_cluster import VirtualCluster, VirtualClusterChange
from paddock.ports.repository import (
    MAX_TRANSACTION_BYTES,
    MAX_WRITES,
    Put,
    WriteConflictError,
    require_raised_revisions,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from paddock.adapters.dynamodb.keys import Key
    from paddock.ports.repository import Record, Write

Found = TypeVar("Found", bound="Record")


class FakeRepository:
    """Keeps records by their keys; each goes through its item, so that only what can be stored is."""

    max_writes = MAX_WRITES

    def __init__(self) -> None:
        self._records: dict[Key, Record] = {}
        self._lock = threading.Lock()

    def copy(self) -> FakeRepository:
        """Another repository that holds the same; records are shared, for nobody changes one."""
        other = FakeRepository()
        with self._lock:
            other._records = dict(self._records)
        return other

    def commit(self, *writes: Write) -> None:
        require_raised_revisions(writes)
        items = {id(write): to_item(write.record) for write in writes if isinstance(write, Put)}
        written = {
            id(write): from_item(type(write.record), items[id(write)])
            for write in writes
            if isinstance(write, Put)
        }
        targets = [keys.key_of(write.record if isinstance(write, Put) else write.was) for write in writes]
        size = sum(map(bytes_of, items.values()))
        fits = 0 < len(writes) <= self.max_writes and size <= MAX_TRANSACTION_BYTES
        if not fits or len(set(targets)) < len(targets):
            msg = "a transaction writes 1 to 100 different records, and at most 4 MB"
            raise AssertionError(msg)
        for key in targets:
            _must_be_key(*key)
        with self._lock:
            lost = [
                write for write, key in zip(writes, targets, strict=True) if not self._holds(key, write.was)
            ]
            if lost:
                raise WriteConflictError(lost)
            for write, key in zip(writes, targets, strict=True):
                if id(write) in written:
                    self._records[key] = written[id(write)]
                elif type(write).__name__ == "Delete":
                    del self._records[key]

    def fits(self, *writes: Write) -> bool:
        size = sum(bytes_of(to_item(write.record)) for write in writes if isinstance(write, Put))
        return len(writes) <= self.max_writes and size <= MAX_TRANSACTION_BYTES

    def cluster(self, name: ClusterName) -> Cluster | None:
        return self._get(Cluster, keys.cluster(name))

    def clusters(self, after: str = "") -> Sequence[Cluster]:
        return self._query(Cluster, keys.CLUSTERS, after=after)

    def cluster_names(self) -> Sequence[ClusterName]:
        return [one.name for one in self._query(Cluster, keys.CLUSTERS)]

    def ledger(self, cluster: ClusterName) -> Ledger | None:
        return self._get(Ledger, keys.ledger(cluster))

    def nodes(self, cluster: ClusterName, limit: int | None = None, after: str = "") -> Sequence[Node]:
        return [node for node in self._query(Node, *keys.node(cluster, NodeId(""))) if node.id > after][
            :limit
        ]

    def nodes_made_by(self, operation: Operation, after: int = 0, count: int = MAX_INDEX) -> Sequence[Node]:
        # The ids of an operation's nodes differ in their last part alone.
        first_parts, _, _ = operation.id.rpartition("-")
        alike = self._query(Node, *keys.node(operation.cluster, NodeId(first_parts)))
        made = [node for node in alike if operation_of(node.id) == operation.id]
        return [node for node in made if after < node_index(node.id) <= after + count]

    def nodes_by_id(self, cluster: ClusterName, ids: Collection[NodeId]) -> Sequence[Node]:
        wanted = set(ids)
        for one in wanted:
            _must_be_key(*keys.node(cluster, one))
        return [node for node in self._query(Node, *keys.node(cluster, NodeId(""))) if node.id in wanted]

    def operation(self, operation_id: OperationId) -> Operation | None:
        return self._get(Operation, keys.operation(operation_id))

    def pace(self) -> Pace | None:
        return self._get(Pace, keys.pace())

    def quotas(self) -> Quotas | None:
        return self._get(Quotas, keys.quotas())

    def request(self, cluster: ClusterName, request_id: RequestId) -> UsedRequestId | None:
        return self._get(UsedRequestId, keys.request(request_id, cluster))

    def requests(self, request_id: RequestId) -> Sequence[UsedRequestId]:
        return self._query(UsedRequestId, keys.request(request_id, ClusterName("")).pk)

    def running_operations(self) -> Sequence[OperationId]:
        with self._lock:
            records = list(self._records.values())
        return sorted(one.id for one in records if isinstance(one, Operation) and one.is_running)

    def usage_intervals(self, cluster: ClusterName, ended_after: int) -> Sequence[UsageInterval]:
        recorded = self._query(UsageInterval, keys.usage_interval(cluster, 0, NodeId("")).pk)
        return [one for one in recorded if one.end > ended_after]

    def virtual_cluster(self, virtual_cluster_id: VirtualClusterId) -> VirtualCluster | None:
        return self._get(VirtualCluster, keys.virtual_cluster(virtual_cluster_id))

    def virtual_cluster_ids(self) -> Sequence[VirtualClusterId]:
        return [one.id for one in self._query(VirtualCluster, keys.VIRTUAL_CLUSTERS) if not one.deleted]

    def virtual_clusters(
        self, limit: int | None = None, after: str = ""
    ) -> tuple[Sequence[VirtualCluster], str | None]:
        everything = self._query(VirtualCluster, keys.VIRTUAL_CLUSTERS, after=after)
        found = [one for one in everything if not one.deleted]
        if limit is None or len(found) <= limit:
            return found, None
        return found[:limit], found[limit - 1].id

    def unsatisfied_virtual_clusters(self) -> Sequence[VirtualClusterId]:
        with self._lock:
            records = list(self._records.values())
        return sorted(one.id for one in records if isinstance(one, VirtualCluster) and one.is_unsatisfied)

    def virtual_cluster_changes(
        self, virtual_cluster_id: VirtualClusterId, limit: int, before: int | None = None
    ) -> Sequence[VirtualClusterChange]:
        pk = keys.virtual_cluster_change(virtual_cluster_id, 0).pk
        found = [
            one for one in self._query(VirtualClusterChange, pk) if before is None or one.revision < before
        ]
        return found[::-1][:limit]

    def _holds(self, key: Key, was: Record | None) -> bool:
        stored = self._records.get(key)
        if stored is None or was is None:
            return stored is was
        return stored.revision == was.revision

    def _get(self, kind: type[Found], key: Key) -> Found | None:
        _must_be_key(*key)
        with self._lock:
            record = self._records.get(key)
        assert record is None or isinstance(record, kind)
        return record

    def _query(self, kind: type[Found], pk: str, begins_with: str = "", after: str = "") -> list[Found]:
        _must_be_key(pk, max(begins_with, after) or "any")
        with self._lock:
            matching = sorted(
                key
                for key in self._records
                if key.pk == pk and key.sk.startswith(begins_with) and key.sk > after
            )
            records = [self._records[key] for key in matching]
        return [record for record in records if isinstance(record, kind)]


def _must_be_key(pk: str, sk: str) -> None:
    """DynamoDB refuses other keys, in reads too: not asking for them is for those who call."""
    assert 0 < len(pk.encode()) <= 2_048, f"no partition key: {pk!r:.80}"
    assert 0 < len(sk.encode()) <= 1_024, f"no sort key: {sk!r:.80}"
