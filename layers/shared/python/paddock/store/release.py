"""Ending nodes in the records: the node, its limits and its usage change in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.model.node import Node, NodeStatus
from paddock.model.node_lifecycle import has_failed, serves_on, switched_off
from paddock.model.usage import interval_until
from paddock.ports.repository import Delete, Put
from paddock.store.lookup import running_among
from paddock.store.membership import with_departures
from paddock.store.operations import require_recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from paddock.model.identity import ClusterName, NodeId
    from paddock.model.ledger import Ledger
    from paddock.ports.repository import Reads, Write
    from paddock.store.store import Store

    _Resolve = Callable[[Ledger, Sequence[Node]], tuple[Ledger, list[Write]]]


def write_verdicts(
    store: Store, cluster: ClusterName, nodes: Sequence[Node], judge: Callable[[Node], Node | None]
) -> dict[NodeId, Node | None]:
    """Write the verdict of ``judge`` on each of these nodes of a cluster; returns the verdicts by node id.

    ``judge`` returns the very same node if nothing is new, and ``None`` for a node that is to be removed,
    since its instances are gone. A fixed node is not removed, but stays as Off.

    A change of the node alone is written as it was judged; a node that has changed since is left, and
    returned as it was. All other changes are written with the ledger, some nodes at a time: limits that are
    given back, usage that ends, and nodes that leave their virtual clusters. Such nodes are read and judged
    again, and left alone if the second verdict is another one, or the node has other instances by then; they
    are then returned as they are.
    """
    verdicts = {node.id: _becomes(node, judge) for node in nodes}
    alone: list[Write] = []
    with_ledger: dict[NodeId, Node] = {}
    left_alone: dict[NodeId, Node] = {}
    for node in nodes:
        after = verdicts[node.id]
        if after is None or _needs_ledger(node, after):
            with_ledger[node.id] = node
        elif after is not node:
            alone.append(Put(after, was=node))

    def is_as_judged(node: Node, after: Node | None) -> bool:
        is_same = node.instance_ids == with_ledger[node.id].instance_ids
        return is_same and is_removal(after) == is_removal(verdicts[node.id])

    def resolve(ledger: Ledger, current: Sequence[Node]) -> tuple[Ledger, list[Write]]:
        pairs = [(node, _becomes(node, judge)) for node in current]
        pairs = [pair for pair in pairs if _needs_ledger(*pair) and is_as_judged(*pair)]
        left_alone.update({node.id: node for node in current})
        for node, _ in pairs:
            del left_alone[node.id]
        released = [node for node, after in pairs if after and node.uses_limits and not after.uses_limits]
        removed = [node for node, after in pairs if not after]
        ended = [node for node, after in pairs if _ends_use(node, after)]
        writes: list[Write] = [Put(after, was=node) if after else Delete(node) for node, after in pairs]
        ledger = ledger.without_active(released).without_nodes(removed)
        return ledger, writes + _usage_until(ended, store.now())

    overtaken = [write.was for write in store.commit_each(alone).conflicts]
    require_recorded(store, [node for node_id, node in with_ledger.items() if is_removal(verdicts[node_id])])
    resolve_nodes(store, cluster, with_ledger.keys(), resolve)
    return verdicts | {node.id: node for node in overtaken if isinstance(node, Node)} | left_alone


def _becomes(node: Node, judge: Callable[[Node], Node | None]) -> Node | None:
    after = judge(node)
    return switched_off(node) if after is None and node.fixed else after


def is_removal(after: Node | None) -> bool:
    """Whether the verdict on a node is that its instances are gone for good: it is removed, or Off."""
    return after is None or after.status is NodeStatus.OFF


def _needs_ledger(node: Node, after: Node | None) -> bool:
    """Whether more has to be written than the node."""
    if after is None or (node.uses_limits and not after.uses_limits) or _ends_use(node, after):
        return True
    return node.is_ready and not serves_on(node, after)


def _ends_use(node: Node, after: Node | None) -> bool:
    """Whether the node has used a machine, and does so no longer."""
    used = node.uses_limits and bool(node.launched_at)
    return used and (after is None or not after.uses_limits or not after.launched_at)


def never_launched(read: Reads, nodes: Sequence[Node]) -> list[Node]:
    """The nodes that will get no instance: their launching operation has passed them, or has ended."""
    running = running_among(read, (node.launching_operation_id for node in nodes))
    places = {
        (operation.id, node_id): place
        for operation in running.values()
        for place, node_id in enumerate(operation.ids(), start=1)
    }

    def is_passed(node: Node) -> bool:
        operation = running.get(node.launching_operation_id)
        return operation is None or operation.launched_to >= places.get((operation.id, node.id), 0)

    return [node for node in nodes if is_passed(node)]


def forget_failed(store: Store, cluster: ClusterName, ids: Collection[NodeId]) -> None:
    """Remove the names and records of nodes that have failed and have no instance; other nodes stay."""

    def resolve(ledger: Ledger, nodes: Sequence[Node]) -> tuple[Ledger, list[Write]]:
        gone = [node for node in nodes if has_failed(node)]
        require_recorded(store, gone)
        return ledger.without_nodes(gone), [Delete(node) for node in gone]

    resolve_nodes(store, cluster, ids, resolve)


def _usage_until(nodes: Sequence[Node], now: int) -> list[Write]:
    """The writes that record for how long these nodes used their machines, which they use no longer."""
    intervals = [interval_until(node, now) for node in nodes]
    return [Put(interval, was=None) for interval in intervals if interval is not None]


def resolve_nodes(store: Store, cluster: ClusterName, ids: Collection[NodeId], resolve: _Resolve) -> None:
    """Change these nodes, as far as they exist, and the ledger together, some at a time.

    ``resolve`` is given the ledger and the nodes as stored, and returns the next ledger with the writes of
    the nodes and at most one other write; without writes, nothing changes. It is called again when another
    writer was faster. Nodes that serve no longer leave their virtual clusters.
    """

    def decide(node_ids: Sequence[NodeId]) -> list[Write]:
        ledger = store.read.ledger(cluster)
        nodes = store.read.nodes_by_id(cluster, node_ids)
        if ledger is None or not nodes:
            return []
        after, writes = resolve(ledger, nodes)
        if not writes:
            return []
        return [Put(after, was=ledger), *with_departures(store.read, writes, store.now())]

    # A node takes its own write and that of its usage interval. One write is the ledger's, and one is for
    # another record that the decision was based on.
    store.in_transactions(sorted(ids), decide, writes_per_id=2, writes_beside=2)
