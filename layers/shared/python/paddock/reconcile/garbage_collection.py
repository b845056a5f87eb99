"""Orphans: instances that were launched for a cluster and belong to none of its nodes are ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.model.time import SECOND_NS
from paddock.nodes.orphans import end_instances, find_orphans
from paddock.store.lookup import running_among

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paddock.model.identity import ClusterName
    from paddock.model.instance import Instance
    from paddock.model.node import Node
    from paddock.ports.compute import Compute
    from paddock.store.store import Store

# An instance that was launched lately may not be on record yet.
ORPHAN_GRACE_NS = 600 * SECOND_NS


def orphans(instances: Iterable[Instance], nodes: Iterable[Node], now: int) -> list[Instance]:
    """The instances that have not ended, are not new, and belong to none of these nodes."""
    return [
        instance
        for instance in find_orphans(instances, nodes)
        if instance.operation_id and now - instance.launched_at >= ORPHAN_GRACE_NS
    ]


def end_orphans(
    store: Store,
    compute: Compute,
    cluster: ClusterName,
    instances: Sequence[Instance],
    nodes: Sequence[Node],
) -> int:
    """End the orphans among a cluster's instances, which were listed before its nodes; returns their number.

    Orphans that the cloud will not end count as well, in each run, so that an operator hears of them. While
    an operation runs, its instances are its own.
    """
    candidates = orphans(instances, nodes, store.now())
    if not candidates:
        return 0
    running = running_among(store.read, (candidate.operation_id for candidate in candidates))
    candidates = [candidate for candidate in candidates if candidate.operation_id not in running]
    # An operation may have given an instance to its node, and ended, since the nodes were read.
    return end_instances(
        compute, orphans(candidates, store.read.nodes(cluster), store.now()), cluster=cluster
    )
