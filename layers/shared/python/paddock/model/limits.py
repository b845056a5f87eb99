"""How many nodes a bucket may hold, holds, and can still take. Every limit is here, and only here.

A limit is a capacity in nodes or in vCPU, and its use. A bucket's maximum is the least that its limits allow
when nothing is used; its available count is the least that they have left. For example, if the bucket allows
10 nodes and the cluster 6, of which 4 are active, the maximum is 6 and the available count 2.
Beside the limits stand the cloud's recent refusals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddock.model.base import MAX_NODES
from paddock.model.definition import bucket_id
from paddock.model.quotas import quota_code
from paddock.model.time import SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from paddock.model.cluster import Cluster
    from paddock.model.definition import Bucket, ClusterDefinition, NodeArray
    from paddock.model.identity import ClusterName
    from paddock.model.ledger import Ledger

# How long a node array that throttles its capacity offers nothing after a refusal.
THROTTLE_NS = 300 * SECOND_NS
# For about this long EC2 is likely to refuse the same again.
AVOIDANCE_NS = 180 * SECOND_NS


@dataclass(frozen=True, slots=True)
class Limit:
    """``capacity`` and ``used`` in the same unit, of which one node takes ``per_node``."""

    capacity: int
    used: int
    per_node: int

    @property
    def max_count(self) -> int:
        """How many nodes fit when there are no others."""
        return self.capacity // self.per_node

    @property
    def available_count(self) -> int:
        """How many more nodes fit; a limit lowered below its use has none left."""
        return max(0, self.capacity - self.used) // self.per_node


@dataclass(frozen=True, slots=True)
class Quota(Limit):
    """A limit in vCPU that all buckets with the same ``id`` share."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketCounts:
    """A bucket's counts, in nodes, and its quota, which they include."""

    max_count: int
    active_count: int
    available_count: int
    quota: Quota


@dataclass(frozen=True, slots=True)
class Use:
    """Active nodes, and their vCPU."""

    nodes: int
    cores: int


def count_bucket(
    cluster: Cluster,
    ledger: Ledger,
    quotas: Mapping[str, int],
    array: NodeArray,
    bucket: Bucket,
    now: int,
) -> BucketCounts:
    """The counts of one bucket under all limits that hold for it at ``now``, in ns since the epoch.

    ``quotas`` are the account's, in vCPU by quota code.
    """
    key = bucket_id(cluster.name, array.name, bucket.machine_type)
    in_bucket = ledger.use(key).active
    in_use = _in_use(cluster.name, ledger, cluster.definition.nodearrays)
    quota = _quota(key, quotas, array, bucket, in_bucket, in_use)
    limits = [*_limits(cluster.definition, array, bucket, in_bucket, in_use), quota]
    is_closed = is_throttled(ledger, array, key, now)
    return BucketCounts(
        max_count=min(limit.max_count for limit in limits),
        active_count=in_bucket,
        available_count=0 if is_closed else min(limit.available_count for limit in limits),
        quota=quota,
    )


def together(quotas: Iterable[Quota], per_node: int) -> Limit:
    """The sum that different quotas allow; a quota that is exceeded takes nothing from the others."""
    each = {quota.id: quota for quota in quotas}.values()
    used = sum(min(quota.used, quota.capacity) for quota in each)
    return Limit(sum(quota.capacity for quota in each), used, per_node)


def is_throttled(ledger: Ledger, array: NodeArray, bucket_id: str, now: int) -> bool:
    """Whether the bucket offers nothing now, since the cloud refused it and its node array throttles."""
    since = ledger.since_capacity_failure(bucket_id, now)
    return array.throttle_capacity and since is not None and since < THROTTLE_NS


def is_avoided(ledger: Ledger, array: NodeArray, bucket_id: str, now: int) -> bool:
    """Whether other buckets should be preferred to this bucket for now."""
    since = ledger.since_capacity_failure(bucket_id, now)
    return is_throttled(ledger, array, bucket_id, now) or (since is not None and since < AVOIDANCE_NS)


def placement_group_room(bucket: Bucket, placed: int) -> int:
    """How many more nodes a placement group of this bucket takes, that holds ``placed``."""
    return max(0, bucket.placement_group_size - placed)


def other_bucket_with(
    cluster: ClusterName, ledger: Ledger, array: NodeArray, bucket: Bucket, placement_group: str
) -> Bucket | None:
    """A placement group has one machine type: the other bucket that has it already, if there is one."""
    for other in array.buckets:
        key = bucket_id(cluster, array.name, other.machine_type)
        if other is not bucket and placement_group in ledger.use(key).placement_groups:
            return other
    return None


def use_of(cluster: ClusterName, ledger: Ledger, arrays: tuple[NodeArray, ...]) -> Use:
    """The active nodes and vCPU of all buckets of these node arrays together."""
    return _sum(_in_use(cluster, ledger, arrays))


def _in_use(
    cluster: ClusterName, ledger: Ledger, arrays: tuple[NodeArray, ...]
) -> list[tuple[NodeArray, Bucket, int]]:
    """The buckets of these node arrays that are in use, with their active nodes.

    A create counts each bucket for each of its sets, so unused buckets are skipped here.
    """
    return [
        (array, bucket, use.active)
        for array in arrays
        for bucket in array.buckets
        if (use := ledger.buckets.get(bucket_id(cluster, array.name, bucket.machine_type))) is not None
    ]


def _sum(in_use: Iterable[tuple[NodeArray, Bucket, int]]) -> Use:
    each = [(active, active * bucket.cores) for _, bucket, active in in_use]
    return Use(sum(nodes for nodes, _ in each), sum(cores for _, cores in each))


def _limits(
    definition: ClusterDefinition,
    array: NodeArray,
    bucket: Bucket,
    in_bucket: int,
    in_use: list[tuple[NodeArray, Bucket, int]],
) -> list[Limit]:
    in_cluster = _sum(in_use)
    in_array = _sum(bucket_use for bucket_use in in_use if bucket_use[0].name == array.name)
    candidates = (
        (MAX_NODES, in_cluster.nodes, 1),
        (definition.max_count, in_cluster.nodes, 1),
        (definition.max_core_count, in_cluster.cores, bucket.cores),
        (array.max_count, in_array.nodes, 1),
        (array.max_core_count, in_array.cores, bucket.cores),
        (bucket.max_count, in_bucket, 1),
    )
    return [Limit(capacity, used, each) for capacity, used, each in candidates if capacity is not None]


def _quota(
    key: str,
    quotas: Mapping[str, int],
    array: NodeArray,
    bucket: Bucket,
    in_bucket: int,
    in_use: list[tuple[NodeArray, Bucket, int]],
) -> Quota:
    """The definition's own number, or else the account's, or else as much as a cluster can hold."""
    own = bucket.quota_core_count
    code = quota_code(bucket.instance_type, spot=array.interruptible)
    if own is None and code is not None and code in quotas:
        # A bucket with a number of its own is not limited by the account's quota, but still uses it up.
        used = sum(
            active * used_bucket.cores
            for used_array, used_bucket, active in in_use
            if quota_code(used_bucket.instance_type, spot=used_array.interruptible) == code
        )
        return Quota(quotas[code], used, bucket.cores, code)
    # Other buckets of the same machine type do not use up this quota.
    capacity = MAX_NODES * bucket.cores if own is None else own
    return Quota(capacity, in_bucket * bucket.cores, bucket.cores, key)
