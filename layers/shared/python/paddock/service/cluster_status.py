"""A cluster's status: what each bucket holds, and can still take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddock.model.counting import BucketCounts, count_bucket
from paddock.model.definition import bucket_id
from paddock.service.lookup import require_cluster, require_ledger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.cluster import Cluster
    from paddock.model.definition import Bucket, NodeArray
    from paddock.model.node import Node
    from paddock.ports.clock import Clock
    from paddock.ports.repository import Repository


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketStatus:
    """One bucket with its counts, and the active count of each of its placement groups.

    ``since_capacity_failure`` is how long ago the cloud had too little for it, in ns; ``None`` for never.
    """

    id: str
    array: NodeArray
    bucket: Bucket
    counts: BucketCounts
    placement_groups: dict[str, int]
    since_capacity_failure: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """A cluster, its buckets in the definition's order, and its nodes when they were asked for."""

    cluster: Cluster
    buckets: Sequence[BucketStatus]
    nodes: Sequence[Node] | None


def cluster_status(repository: Repository, clock: Clock, name: str, *, with_nodes: bool) -> ClusterStatus:
    """The status of a cluster. Raises ``NotFound``."""
    cluster = require_cluster(repository, name)
    ledger = require_ledger(repository, name)
    now = clock.now()
    buckets = []
    for array, bucket in cluster.definition.buckets():
        key = bucket_id(name, array.name, bucket.machine_type)
        buckets.append(
            BucketStatus(
                id=key,
                array=array,
                bucket=bucket,
                counts=count_bucket(name, cluster.definition, ledger, array, bucket, now),
                placement_groups=ledger.use(key).placement_groups,
                since_capacity_failure=ledger.since_capacity_failure(key, now),
            )
        )
    nodes = repository.nodes(name) if with_nodes else None
    return ClusterStatus(cluster=cluster, buckets=buckets, nodes=nodes)
