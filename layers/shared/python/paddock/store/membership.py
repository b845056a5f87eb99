"""Taking nodes that can serve no longer out of their virtual clusters.

A virtual cluster's record never names a node that is not Ready, or that is on its way to its end: the write
that ends the node's service also takes the node out of the record. If the record does not name the node
(yet), it gets a new revision all the same, so that a writer that is about to name the node reads again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.model.launch_backoff import after_loss
from paddock.model.node import Node
from paddock.model.node_lifecycle import serves_on, unclaimed
from paddock.model.virtual_cluster import ConditionReason, change_between
from paddock.model.wording import counted
from paddock.ports.repository import Delete, Put

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.identity import VirtualClusterId
    from paddock.model.virtual_cluster import VirtualCluster
    from paddock.ports.repository import Reads, Write


def with_departures(read: Reads, writes: Sequence[Write], now: int) -> list[Write]:
    """The same writes, in which nodes that serve no longer lose their claims, and those of virtual clusters.

    Each virtual cluster that loses nodes adds up to two writes: its record and its history.
    """
    changed = [_released(write) for write in writes]
    leaving: dict[VirtualClusterId, list[Node]] = {}
    reasons: dict[VirtualClusterId, str] = {}
    for write, after in zip(writes, changed, strict=True):
        node = write.was
        if isinstance(node, Node) and node.is_ready and _gives_up(write):
            leaving.setdefault(node.virtual_cluster, []).append(node)
            if isinstance(after, Put) and isinstance(after.record, Node):
                why = after.record.status_message or f"it is {after.record.status}"
                reasons.setdefault(node.virtual_cluster, f"{node.name}: {why}")
    for name, nodes in leaving.items():
        changed += _left(read.virtual_cluster(name), nodes, reasons.get(name, ""), now)
    return changed


def _gives_up(write: Write) -> bool:
    """Whether the write ends a node's use for its virtual cluster; a node on its way to Ready is of use."""
    before = write.was
    if not isinstance(before, Node) or not before.virtual_cluster:
        return False
    if not isinstance(write, Put):
        return isinstance(write, Delete)
    after = write.record
    if not isinstance(after, Node):
        return False
    return not serves_on(before, after)


def _released(write: Write) -> Write:
    if isinstance(write, Put) and isinstance(write.record, Node) and _gives_up(write):
        return replace(
            write,
            record=unclaimed(write.record, 0),
        )
    return write


def _left(stored: VirtualCluster | None, nodes: Sequence[Node], reason: str, now: int) -> list[Put]:
    """The writes that take the nodes out of the virtual cluster whose claim they bear.

    No other virtual cluster can confirm these claims.
    """
    nodes = [node for node in nodes if stored is not None and stored.is_claimant_of(node)]
    if stored is None or not nodes:
        return []
    after = stored.without([node.id for node in nodes])
    if stored.deleted:
        return [Put(after, was=stored)]
    lost = len(stored.node_instances) - len(after.node_instances)
    if lost:
        after = after_loss(after, now - min(node.ready_at for node in nodes), now)
        cause = f"{counted(lost, 'node was lost', 'nodes were lost')}; {reason}"
        pause = f"; {after.attempts} launches in a row did not last, so the next one waits"
        message = cause + pause if after.retry_at > now else cause
        condition = stored.condition.changed(ConditionReason.NODES_LOST, message, now, cause=cause)
        after = replace(after, condition=condition)
    return [
        Put(after, was=stored),
        Put(change_between(stored, after, "NodesLost", now, message=reason), was=None),
    ]
