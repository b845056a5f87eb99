"""Ending nodes in the records: the node, its limits and its usage change in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.model.node_lifecycle import has_failed, is_to_end, switched_off
from paddock.model.usage import interval_until
from paddock.ports.repository import Delete, Put
from paddock.service.lookup import running_among
from paddock.service.membership import with_departures
from paddock.service.recording import require_recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from paddock.model.ledger import Ledger
    from paddock.model.node import Node
    from paddock.ports.repository import Reads, Write
    from paddock.service.store import Store

    _Settle = Callable[[Ledger, Sequence[Node]], tuple[Ledger, list[Write]]]


def release_nodes(store: Store, cluster: str, ids: Collection[str], release: Callable[[Node], Node]) -> None:
    """Write ``release(node)`` for those of these nodes that use up limits, and give their limits back.

    Where ``release`` answers the very same node, or one that still counts, that node is left as it is.
    """

    def settle(ledger: Ledger, nodes: Sequence[Node]) -> tuple[Ledger, list[Write]]:
        pairs = [(node, release(node)) for node in nodes if node.counted]
        pairs = [(node, after) for node, after in pairs if not after.counted]
        ended = [node for node, _ in pairs]
        writes: list[Write] = [Put(after, was=node) for node, after in pairs]
        return ledger.without_active(ended), writes + usage_until(ended, store.now())

    settle_nodes(store, cluster, ids, settle)


def remove_nodes(store: Store, cluster: str, gone: Sequence[Node]) -> None:
    """Remove these nodes, whose instances are gone: their limits, names and records.

    Fixed ones give back their limits alone, and stay as Off. A node that has another instance by now, or
    shall not end any more, is left as it is.
    """
    judged = {node.id: node.instance_ids for node in gone}

    def settle(ledger: Ledger, nodes: Sequence[Node]) -> tuple[Ledger, list[Write]]:
        nodes = [node for node in nodes if is_to_end(node) and node.instance_ids == judged[node.id]]
        kept = [node for node in nodes if node.fixed]
        removed = [node for node in nodes if not node.fixed]
        after = ledger.without_active(node for node in kept if node.counted).without_nodes(removed)
        writes: list[Write] = [Put(switched_off(node), was=node) for node in kept]
        writes += [Delete(node) for node in removed]
        return after, writes + usage_until(nodes, store.now())

    require_recorded(store, gone)
    settle_nodes(store, cluster, judged, settle)


def never_launched(read: Reads, nodes: Sequence[Node]) -> list[Node]:
    """Those of these nodes without instance that will get none: their launcher has passed them or ended."""
    running = running_among(read, (node.launcher for node in nodes))
    places = {
        (launcher.id, identity): place
        for launcher in running.values()
        for place, identity in enumerate(launcher.ids(), start=1)
    }

    def is_passed(node: Node) -> bool:
        launcher = running.get(node.launcher)
        return launcher is None or launcher.launched_to >= places.get((launcher.id, node.id), 0)

    return [node for node in nodes if is_passed(node)]


def forget_failed(store: Store, cluster: str, ids: Collection[str]) -> None:
    """Remove those of these nodes that have failed and have no instance: their names and records."""

    def settle(ledger: Ledger, nodes: Sequence[Node]) -> tuple[Ledger, list[Write]]:
        gone = [node for node in nodes if has_failed(node)]
        require_recorded(store, gone)
        return ledger.without_nodes(gone), [Delete(node) for node in gone]

    settle_nodes(store, cluster, ids, settle)


def usage_until(nodes: Sequence[Node], now: int) -> list[Write]:
    """The writes that keep for how long these nodes used their machines, which they do no longer."""
    intervals = [interval_until(node, now) for node in nodes]
    return [Put(interval, was=None) for interval in intervals if interval is not None]


def settle_nodes(store: Store, cluster: str, ids: Collection[str], settle: _Settle) -> None:
    """Change these nodes, as far as they exist, and the ledger together, some at a time.

    ``settle`` is given them as they are, and answers the ledger as it becomes with the writes of the nodes
    and at most one other; no writes, no change. It is asked again when another was faster. Nodes that serve
    no longer leave their virtual clusters.
    """

    def decide(some: Sequence[str]) -> list[Write]:
        ledger = store.read.ledger(cluster)
        nodes = store.read.nodes_by_id(cluster, some)
        if ledger is None or not nodes:
            return []
        after, writes = settle(ledger, nodes)
        if not writes:
            return []
        return [Put(after, was=ledger), *with_departures(store.read, writes, store.now())]

    # A node takes its own write and that of its usage interval. One write is the ledger's, and one is for
    # what else the decision was based on.
    store.in_transactions(sorted(ids), decide, writes_per_id=2, writes_beside=2)
