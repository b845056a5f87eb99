"""Where Paddock's records are kept.

Every record has a revision, and every write names the record that it was based on. That is the whole of the
concurrency control: a use case reads, decides, and commits; when anything that it based its decision on has
changed since, nothing is written and ``WriteConflictError`` is raised.

All reads are strongly consistent, but for ``running_operations`` and ``unsatisfied_virtual_clusters``. Any
method may raise ``StoreUnavailable``, and ``StoreThrottled`` once it has tried again for as long as there was
time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from paddock.model.cluster import Cluster
from paddock.model.identity import MAX_INDEX, ClusterName, NodeId, OperationId, RequestId, VirtualClusterId
from paddock.model.ledger import Ledger
from paddock.model.node import Node
from paddock.model.operation import Operation, UsedRequestId
from paddock.model.pace import Pace
from paddock.model.quotas import Quotas
from paddock.model.usage import UsageInterval
from paddock.model.virtual_cluster import VirtualCluster, VirtualClusterChange

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

Record = (
    Cluster
    | Ledger
    | Node
    | Operation
    | Pace
    | Quotas
    | UsedRequestId
    | UsageInterval
    | VirtualCluster
    | VirtualClusterChange
)

# DynamoDB's limits on one transaction; of bytes it takes 4 MB.
MAX_WRITES = 100
MAX_TRANSACTION_BYTES = 3_900_000


@dataclass(frozen=True, slots=True)
class Put:
    """Write ``record``, if what is stored is still ``was``; ``None``: if nothing is stored."""

    record: Record
    was: Record | None


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the record, if what is stored is still ``was``."""

    was: Record


@dataclass(frozen=True, slots=True)
class Check:
    """Write nothing, but only let the others be written if what is stored is still ``was``."""

    was: Record


Write = Put | Delete | Check


def require_raised_revisions(writes: Sequence[Write]) -> None:
    """Raise ``ValueError`` for a record whose revision is not above that of the record that it replaces.

    With the same revision, a writer that had read the record before would find nothing changed, and would
    overwrite this change.
    """
    for write in writes:
        if isinstance(write, Put):
            previous = write.was.revision if write.was is not None else 0
            if write.record.revision <= previous:
                msg = f"a write must raise the revision above {previous}, not to {write.record.revision}"
                raise ValueError(msg)


class WriteConflictError(Exception):
    """Nothing was written, for these writes found something else than they were based on.

    ``writes`` may name fewer than all of them, and never none.
    """

    def __init__(self, writes: Sequence[Write]) -> None:
        super().__init__(f"{len(writes)} records changed since they were read")
        self.writes = tuple(writes)


class Reads(Protocol):
    """Reads of every kind of record. Those who only read take no more than this."""

    def cluster(self, name: ClusterName) -> Cluster | None:
        """The cluster of this name."""

    def clusters(self, after: str = "") -> Sequence[Cluster]:
        """All clusters, or those with names above ``after``, by name."""

    def cluster_names(self) -> Sequence[ClusterName]:
        """The names of all clusters, in order; also of one whose record cannot be understood."""

    def ledger(self, cluster: ClusterName) -> Ledger | None:
        """The ledger of a cluster; there is one exactly as long as the cluster exists."""

    def nodes(self, cluster: ClusterName, limit: int | None = None, after: str = "") -> Sequence[Node]:
        """Nodes of a cluster in the order of their ids, from the first id above ``after``; at most ``limit``.

        ``after`` need not be the id of a node that exists, but must have an id's form. Fewer than ``limit``
        are all that there are.
        """

    def nodes_made_by(self, operation: Operation, after: int = 0, count: int = MAX_INDEX) -> Sequence[Node]:
        """Those of the nodes of a create that exist, in the order of their ids.

        Of those with the next ``count`` indexes behind ``after``; it asks for no others.
        """

    def nodes_by_id(self, cluster: ClusterName, ids: Collection[NodeId]) -> Sequence[Node]:
        """Those of these nodes that exist, in the order of their ids."""

    def operation(self, operation_id: OperationId) -> Operation | None:
        """The operation of this id."""

    def pace(self) -> Pace | None:
        """EC2's token buckets, as far as this deployment empties them; ``None`` where it never has."""

    def quotas(self) -> Quotas | None:
        """The account's quotas as they were last asked for."""

    def request(self, cluster: ClusterName, request_id: RequestId) -> UsedRequestId | None:
        """What a request id was used for in a cluster."""

    def requests(self, request_id: RequestId) -> Sequence[UsedRequestId]:
        """What a request id was used for, in all clusters."""

    def running_operations(self) -> Sequence[OperationId]:
        """The ids of the operations that run. Eventually consistent: some may be missing, or have ended."""

    def usage_intervals(self, cluster: ClusterName, ended_after: int) -> Sequence[UsageInterval]:
        """The intervals of a cluster's nodes that ended later than this (ns), in the order of their ends."""

    def virtual_cluster(self, virtual_cluster_id: VirtualClusterId) -> VirtualCluster | None:
        """The virtual cluster of this id; a deleted one that is still remembered included."""

    def virtual_cluster_ids(self) -> Sequence[VirtualClusterId]:
        """The ids of all virtual clusters but deleted ones, in order; also where a record cannot be read."""

    def virtual_clusters(
        self, limit: int | None = None, after: str = ""
    ) -> tuple[Sequence[VirtualCluster], str | None]:
        """Virtual clusters by id, deleted ones left out, from the first id above ``after``.

        At most ``limit`` of them, and the id to go on after where there may be more.
        """

    def unsatisfied_virtual_clusters(self) -> Sequence[VirtualClusterId]:
        """The ids of those that want more nodes than they have. Eventually consistent."""

    def virtual_cluster_changes(
        self, virtual_cluster_id: VirtualClusterId, limit: int, before: int | None = None
    ) -> Sequence[VirtualClusterChange]:
        """Changes of one virtual cluster, also of a deleted one, latest first; at most ``limit``.

        From the first one on whose revision is below ``before``.
        """


class Repository(Reads, Protocol):
    """``Reads``, and one way to write.

    ``max_writes`` is the most writes that one commit takes.
    """

    max_writes: int

    def commit(self, *writes: Write) -> None:
        """Do all of these writes, which fit and are to different records, or none.

        Each record must have a higher revision than the record it replaces, else ``ValueError`` is raised.
        Raises ``WriteConflictError``, and ``RecordTooLarge`` for a record that cannot be stored. When the
        call fails in any other way, it may or may not have been done: read again.
        """

    def fits(self, *writes: Write) -> bool:
        """Whether one ``commit`` can do these writes: they are few and small enough. It makes no call."""
