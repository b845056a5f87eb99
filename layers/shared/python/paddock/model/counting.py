"""How many nodes a bucket may hold, holds, and can still take. Every limit is here, and only here.

A limit is a capacity in nodes or in vCPU, and what is used of it. A bucket's maximum is the least of what its
limits allow when nothing is used; what is available is the least of what each has left.
Beside the limits stands what the cloud refused lately.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddock.model.base import MAX_NODES
from paddock.model.definition import bucket_id
from paddock.model.operation import SECOND_NS

if TYPE_CHECKING:
    from paddock.model.definition import Bucket, ClusterDefinition, NodeArray
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketCounts:
    """A bucket's counts, in nodes."""

    max_count: int
    active_count: int
    available_count: int


@dataclass(frozen=True, slots=True)
class Use:
    """Active nodes, and their vCPU."""

    nodes: int
    cores: int


def count_bucket(
    cluster: str, definition: ClusterDefinition, ledger: Ledger, array: NodeArray, bucket: Bucket, now: int
) -> BucketCounts:
    """The counts of one bucket under all limits that hold for it at ``now``, in ns since the epoch."""
    limits = _limits(cluster, definition, ledger, array, bucket)
    key = bucket_id(cluster, array.name, bucket.machine_type)
    is_closed = is_throttled(ledger, array, key, now)
    return BucketCounts(
        max_count=min(limit.max_count for limit in limits),
        active_count=ledger.use(key).active,
        available_count=0 if is_closed else min(limit.available_count for limit in limits),
    )


def is_throttled(ledger: Ledger, array: NodeArray, bucket_id: str, now: int) -> bool:
    """Whether the bucket offers nothing now since the cloud refused it, as its node array wants it."""
    since = ledger.since_capacity_failure(bucket_id, now)
    return array.throttle_capacity and since is not None and since < THROTTLE_NS


def is_avoided(ledger: Ledger, array: NodeArray, bucket_id: str, now: int) -> bool:
    """Whether other buckets should be preferred to this one for now."""
    since = ledger.since_capacity_failure(bucket_id, now)
    return is_throttled(ledger, array, bucket_id, now) or (since is not None and since < AVOIDANCE_NS)


def placement_group_room(bucket: Bucket, placed: int) -> int:
    """How many more nodes a placement group of this bucket takes, that holds ``placed``."""
    return max(0, bucket.placement_group_size - placed)


def use_of(cluster: str, ledger: Ledger, arrays: tuple[NodeArray, ...]) -> Use:
    """What is active in all buckets of these node arrays together."""
    active = [
        (ledger.use(bucket_id(cluster, array.name, bucket.machine_type)).active, bucket.cores)
        for array in arrays
        for bucket in array.buckets
    ]
    return Use(sum(nodes for nodes, _ in active), sum(nodes * cores for nodes, cores in active))


def _limits(
    cluster: str, definition: ClusterDefinition, ledger: Ledger, array: NodeArray, bucket: Bucket
) -> list[Limit]:
    in_cluster = use_of(cluster, ledger, definition.nodearrays)
    in_array = use_of(cluster, ledger, (array,))
    in_bucket = ledger.use(bucket_id(cluster, array.name, bucket.machine_type)).active
    candidates = (
        (MAX_NODES, in_cluster.nodes, 1),
        (definition.max_count, in_cluster.nodes, 1),
        (definition.max_core_count, in_cluster.cores, bucket.cores),
        (array.max_count, in_array.nodes, 1),
        (array.max_core_count, in_array.cores, bucket.cores),
        (bucket.max_count, in_bucket, 1),
        # Each bucket has a quota of its own: neighbours of its size never eat into it.
        (bucket.quota_core_count, in_bucket * bucket.cores, bucket.cores),
    )
    return [Limit(capacity, used, each) for capacity, used, each in candidates if capacity is not None]
