"""A cluster's usage: the machine time of its nodes, ended and running, cut into slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddock.errors import InvalidRequest
from paddock.model.usage import add_nodes, count_node_uses, interval_until, sum_by_machine
from paddock.store.lookup import require_cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.identity import ClusterName
    from paddock.model.usage import Slot, UsageInterval
    from paddock.ports.repository import Reads
    from paddock.requests.timeframe import UsageQuery
    from paddock.store.store import Store

# What fits into Lambda's reply of 6 MB, at some 350 bytes for each of the longest names.
MAX_ENTRIES = 17_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterUsage:
    """The slots in the order of time; without their nodes where those would be too many for one reply."""

    slots: Sequence[Slot]
    has_nodes: bool


def cluster_usage(store: Store, name: ClusterName, query: UsageQuery) -> ClusterUsage:
    """What the cluster's nodes have used, until now where they still run.

    Raises ``NotFound``, and ``InvalidRequest`` where even the sums by machine are too many for one reply.
    """
    require_cluster(store.read, name)
    now = store.now()
    edges = query.edges(now)
    intervals = _intervals(store.read, name, edges[0], now)
    slots = sum_by_machine(intervals, edges)
    entries = sum(1 + 2 * len(slot.machines) for slot in slots)
    if entries > MAX_ENTRIES:
        msg = "the timeframe must be shorter or the granularity coarser, there are too many machine types"
        raise InvalidRequest(msg)
    has_nodes = entries + count_node_uses(intervals, edges) <= MAX_ENTRIES
    if has_nodes:
        add_nodes(slots, intervals, edges)
    return ClusterUsage(slots=slots, has_nodes=has_nodes)


def _intervals(read: Reads, cluster: ClusterName, start: int, now: int) -> list[UsageInterval]:
    """All use after ``start``."""
    # In this order a node that ends in between is found twice, and not never.
    nodes = read.nodes(cluster)
    ended = read.usage_intervals(cluster, start)
    on_record = {(interval.node_id, interval.start) for interval in ended}
    running = (interval_until(node, now) for node in nodes)
    return [
        *ended,
        *(
            interval
            for interval in running
            if interval and (interval.node_id, interval.start) not in on_record
        ),
    ]
