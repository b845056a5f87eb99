"""What a cluster's limits and names are used up by, in one small record.

Everything that a create must decide on stands here, so that deciding and recording are one conditional write.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from paddock.model.identity import ClusterName, OperationId
from paddock.model.names import NameSet

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from paddock.model.node import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketUse:
    """``active`` nodes count against limits; ``nodes`` are all that exist, Off and Failed ones included.

    ``placement_groups`` holds the active count of each placement group that has any.
    """

    active: int = 0
    nodes: int = 0
    placement_groups: dict[str, int] = field(default_factory=dict)

    def changed(self, *, active: int = 0, nodes: int = 0, placement_group: str = "") -> BucketUse:
        """The use with these differences added; ``active`` goes to the placement group too."""
        groups = dict(self.placement_groups)
        if placement_group and active:
            groups[placement_group] = groups.get(placement_group, 0) + active
        return BucketUse(
            active=self.active + active,
            nodes=self.nodes + nodes,
            placement_groups={name: count for name, count in groups.items() if count > 0},
        )


def placement_group_key(node_array: str, placement_group: str) -> str:
    """What tells a placement group from all others of its cluster; neither part can hold the separator."""
    return f"{node_array}/{placement_group}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The use of each bucket by its id, and the names taken (as ``NameSet.to_document`` writes them).

    ``placement_groups`` counts the nodes that exist in each, active or not, by ``placement_group_key``; 0 is
    a group that has to be deleted in the cloud. ``capacity_failures`` is when the cloud last had too little
    for a bucket, by the bucket's id, in ns since the epoch. ``unrecorded`` are the creates (operation ids)
    whose nodes count here and may not all be on record yet; the reconciler takes out those that are.
    """

    cluster: ClusterName
    revision: int = 0
    cluster_uid: str = ""
    buckets: dict[str, BucketUse] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    placement_groups: dict[str, int] = field(default_factory=dict)
    capacity_failures: dict[str, int] = field(default_factory=dict)
    unrecorded: tuple[OperationId, ...] = ()

    def use(self, bucket_id: str) -> BucketUse:
        """The use of a bucket; a bucket that is not mentioned is unused."""
        return self.buckets.get(bucket_id, BucketUse())

    def with_use(self, bucket_id: str, use: BucketUse) -> Ledger:
        """The ledger with one bucket's use replaced; an unused bucket is not mentioned."""
        buckets = {key: value for key, value in self.buckets.items() if key != bucket_id}
        return replace(self, buckets={**buckets, bucket_id: use} if use != BucketUse() else buckets)

    def with_placed(self, node_array: str, placement_group: str, nodes: int) -> Ledger:
        """The ledger with so many more nodes in a placement group; without a group nothing changes."""
        if not placement_group:
            return self
        key = placement_group_key(node_array, placement_group)
        count = self.placement_groups.get(key, 0) + nodes
        return replace(self, placement_groups={**self.placement_groups, key: count})

    def without_placement_groups(self, keys: Collection[str]) -> Ledger:
        """Forget placement groups that are deleted."""
        left = {key: count for key, count in self.placement_groups.items() if key not in keys}
        return replace(self, placement_groups=left)

    def empty_placement_groups(self) -> list[str]:
        """Keys of the placement groups that no node is in any more."""
        return sorted(key for key, count in self.placement_groups.items() if count <= 0)

    def with_capacity_failure(self, bucket_id: str, now: int) -> Ledger:
        """Remember that the cloud had too little for a bucket."""
        return replace(self, capacity_failures={**self.capacity_failures, bucket_id: now})

    def since_capacity_failure(self, bucket_id: str, now: int) -> int | None:
        """How long ago the cloud last had too little for a bucket, in ns; ``None`` for never."""
        failed_at = self.capacity_failures.get(bucket_id)
        return None if failed_at is None else max(0, now - failed_at)

    @property
    def node_count(self) -> int:
        """How many nodes exist in the cluster."""
        return sum(use.nodes for use in self.buckets.values())

    def without_active(self, nodes: Iterable[Node]) -> Ledger:
        """Give back the limits that these nodes used; they go on existing and keep their names."""
        ledger = self
        for node in nodes:
            use = ledger.use(node.bucket_id).changed(active=-1, placement_group=node.placement_group_id)
            ledger = ledger.with_use(node.bucket_id, use)
        return ledger

    def with_moved(self, nodes: Collection[Node], bucket_id: str) -> Ledger:
        """Give nodes that are in no placement group, and do not count now, to a bucket where they count."""
        ledger = self
        for node in nodes:
            ledger = ledger.with_use(node.bucket_id, ledger.use(node.bucket_id).changed(nodes=-1))
        count = len(nodes)
        return ledger.with_use(bucket_id, ledger.use(bucket_id).changed(active=count, nodes=count))

    def without_nodes(self, nodes: Iterable[Node]) -> Ledger:
        """Forget these nodes: their limits where they still used them, their existence and their names."""
        ended = list(nodes)
        ledger = self.without_active(node for node in ended if node.uses_limits)
        names = NameSet.from_document(ledger.names)
        for node in ended:
            ledger = ledger.with_use(node.bucket_id, ledger.use(node.bucket_id).changed(nodes=-1))
            ledger = ledger.with_placed(node.spec.node_array, node.placement_group_id, -1)
            names.discard(node.name)
        return replace(ledger, names=names.to_document())
