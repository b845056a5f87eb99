"""A cluster's status: what each bucket holds, and can still take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddock.model.definition import bucket_id
from paddock.model.limits import BucketCounts, Limit, Quota, count_bucket, together
from paddock.model.quotas import quota_code
from paddock.store.lookup import known_quotas, require_cluster, require_ledger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.cluster import Cluster
    from paddock.model.definition import Bucket, NodeArray
    from paddock.model.identity import ClusterName
    from paddock.model.node import Node
    from paddock.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketStatus:
    """One bucket with its counts, and the active count of each of its placement groups.

    ``quota`` is its own; ``family`` and ``regional`` are what the quotas of all buckets of its family, and of
    its market (on demand or spot), allow together. Spot has no quotas of families.
    ``since_capacity_failure`` is how long ago the cloud had too little for it, in ns; ``None`` for never.
    """

    id: str
    array: NodeArray
    bucket: Bucket
    counts: BucketCounts
    quota: Limit
    family: Limit | None
    regional: Limit
    placement_groups: dict[str, int]
    since_capacity_failure: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """A cluster, its buckets in the definition's order, and its nodes when they were asked for."""

    cluster: Cluster
    buckets: Sequence[BucketStatus]
    nodes: Sequence[Node] | None


def cluster_status(store: Store, name: ClusterName, *, with_nodes: bool) -> ClusterStatus:
    """The status of a cluster. Raises ``NotFound``."""
    cluster = require_cluster(store.read, name)
    ledger = require_ledger(store.read, name)
    quotas = known_quotas(store.read)
    now = store.now()
    uses_limits = [
        (array, bucket, count_bucket(cluster, ledger, quotas, array, bucket, now))
        for array, bucket in cluster.definition.buckets()
    ]
    by_family: dict[str, list[Quota]] = {}
    by_market: dict[bool, list[Quota]] = {}
    for array, bucket, counts in uses_limits:
        by_market.setdefault(array.interruptible, []).append(counts.quota)
        if not array.interruptible:
            by_family.setdefault(_family(bucket), []).append(counts.quota)
    buckets = []
    for array, bucket, counts in uses_limits:
        key = bucket_id(name, array.name, bucket.machine_type)
        family = None if array.interruptible else together(by_family[_family(bucket)], bucket.cores)
        buckets.append(
            BucketStatus(
                id=key,
                array=array,
                bucket=bucket,
                counts=counts,
                quota=together([counts.quota], bucket.cores),
                family=family,
                regional=together(by_market[array.interruptible], bucket.cores),
                placement_groups=ledger.use(key).placement_groups,
                since_capacity_failure=ledger.since_capacity_failure(key, now),
            )
        )
    nodes = store.read.nodes(name) if with_nodes else None
    return ClusterStatus(cluster=cluster, buckets=buckets, nodes=nodes)


def _family(bucket: Bucket) -> str:
    """What tells the bucket's family from others; a machine whose family is not known is one of its own."""
    return quota_code(bucket.instance_type, spot=False) or bucket.machine_type
