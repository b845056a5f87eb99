"""Which nodes a virtual cluster gets before more are launched: those launched for it, and free nodes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING

from paddock.model.identity import ClusterName, NodeId, VirtualClusterId, operation_of
from paddock.model.node import NodeStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from paddock.model.node import Node
    from paddock.model.virtual_cluster import VirtualCluster
    from paddock.ports.repository import Reads

# About as many nodes as one page of a DynamoDB query holds.
_PAGE_NODES = 1_000


@dataclass(frozen=True, slots=True)
class Resolved:
    """A virtual cluster whose launched nodes are assigned, or given up for these reasons."""

    virtual_cluster: VirtualCluster
    reasons: tuple[str, ...] = ()


def resolve_pending(read: Reads, virtual_cluster: VirtualCluster) -> Resolved:
    """Assign the pending nodes that are Ready by now, and give up those that will not become Ready.

    A record that is not there may yet be written, as long as its create is not recorded.
    """
    ready: list[Node] = []
    waiting: dict[str, list[NodeId]] = {}
    reasons: list[str] = []
    for node_type, ids in virtual_cluster.pending_ids().items():
        for operation_id, node_ids in groupby(ids, operation_of):
            operation = read.operation(operation_id)
            nodes = {node.id: node for node in read.nodes_made_by(operation)} if operation else {}
            for node_id in node_ids:
                node = nodes.get(node_id)
                if node is None:
                    if operation is not None and operation.may_lack_records:
                        waiting.setdefault(node_type, []).append(node_id)
                elif virtual_cluster.is_claimant_of(node) and node.is_ready:
                    ready.append(node)
                elif virtual_cluster.is_claimant_of(node) and node.is_starting:
                    waiting.setdefault(node_type, []).append(node_id)
                elif node.status is NodeStatus.FAILED:
                    reasons.append(node.status_message)
    commonest = tuple(reason for reason, _ in Counter(reasons).most_common(3))
    return Resolved(virtual_cluster.with_nodes(ready).with_pending(waiting), commonest)


def find_free(read: Reads, virtual_cluster: VirtualCluster) -> list[Node]:
    """Ready nodes that no virtual cluster holds, of the node types that this one is missing.

    It misses three nodes of a type and two are free: those two are returned. Reading starts behind its
    youngest node, where free nodes are likely, and stops when enough are found. Nodes that it has claimed and
    does not hold, since an update died half way, come first.
    """
    left = virtual_cluster.missing()
    held = virtual_cluster.held_ids()
    found: list[Node] = []
    for page in (
        _pages(read, virtual_cluster.cluster, max(virtual_cluster.node_instances, default="")) if left else ()
    ):
        free = [node for node in page if node.id not in held and virtual_cluster.may_take(node)]
        for node in sorted(free, key=lambda node: _preference(virtual_cluster.id, node)):
            if left.get(node.template_id, 0):
                left[node.template_id] -= 1
                found.append(node)
        if not any(left.values()):
            break
    return found


def _pages(read: Reads, cluster: ClusterName, start: str) -> Iterator[Sequence[Node]]:
    """All nodes of a cluster, first those with ids above ``start``."""
    after = start
    while page := read.nodes(cluster, _PAGE_NODES, after):
        yield page
        after = page[-1].id
        if len(page) < _PAGE_NODES:
            break
    after = ""
    while start and (page := read.nodes(cluster, _PAGE_NODES, after)):
        yield [node for node in page if node.id <= start]
        after = page[-1].id
        if after >= start or len(page) < _PAGE_NODES:
            break


def _preference(virtual_cluster_id: VirtualClusterId, node: Node) -> tuple[bool, bytes]:
    """A sort key: each virtual cluster has its own order, so writers mostly pick different nodes."""
    return not node.virtual_cluster, sha256(f"{virtual_cluster_id}/{node.id}".encode()).digest()
