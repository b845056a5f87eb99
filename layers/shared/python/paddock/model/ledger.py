"""What a cluster's limits and names are used up by, in one small record.

Everything that a create must decide on stands here, so that deciding and recording are one conditional write.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from paddock.model.names import NameSet

if TYPE_CHECKING:
    from collections.abc import Iterable

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The use of each bucket by its id, and the names taken (as ``NameSet.to_document`` writes them)."""

    cluster: str
    revision: int
    buckets: dict[str, BucketUse] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def use(self, bucket_id: str) -> BucketUse:
        """The use of a bucket; a bucket that is not mentioned is unused."""
        return self.buckets.get(bucket_id, BucketUse())

    def with_use(self, bucket_id: str, use: BucketUse) -> Ledger:
        """The ledger with one bucket's use replaced; an unused bucket is not mentioned."""
        buckets = {key: value for key, value in self.buckets.items() if key != bucket_id}
        return replace(self, buckets={**buckets, bucket_id: use} if use != BucketUse() else buckets)

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

    def without_nodes(self, nodes: Iterable[Node]) -> Ledger:
        """Forget these nodes: their limits where they still used them, their existence and their names."""
        ended = list(nodes)
        ledger = self.without_active(node for node in ended if node.counted)
        names = NameSet.from_document(ledger.names)
        for node in ended:
            ledger = ledger.with_use(node.bucket_id, ledger.use(node.bucket_id).changed(nodes=-1))
            names.discard(node.name)
        return replace(ledger, names=names.to_document())
