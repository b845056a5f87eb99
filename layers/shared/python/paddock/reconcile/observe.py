"""Observe: what has happened to the instances of nodes that no operation works on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.model.node_lifecycle import failed, is_ending
from paddock.model.node_observation import instance_of, is_done_with, is_stranded, is_watched, noticed
from paddock.model.operation import DEADLINE_NS
from paddock.ports.repository import Put
from paddock.service.lookup import running_among
from paddock.service.settling import never_launched, release_nodes, remove_nodes, settle_nodes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from paddock.model.instance import Instance
    from paddock.model.ledger import Ledger
    from paddock.model.node import Node
    from paddock.ports.repository import Reads, Write
    from paddock.service.store import Store

_STRANDED = "the operation that should have launched it has ended"


def ended_launchers(read: Reads, nodes: Sequence[Node], now: int) -> set[str]:
    """The operations that have ended before these nodes had come to where they brought them.

    Of nodes that nobody took hold of for half an hour: before that few have, and large ones take longer.
    """
    late = {node.launcher for node in nodes if node.is_coming and now - node.managed_at >= DEADLINE_NS}
    return late.difference(running_among(read, late))


def observe(
    store: Store,
    cluster: str,
    nodes: Sequence[Node],
    seen: Mapping[str, Instance],
    ended: Collection[str],
) -> int:
    """Write down what has become of watched nodes of a cluster; answers how many changed their status.

    ``seen`` are the instances that the cloud showed before the nodes were read, ``ended`` the
    ``ended_launchers`` of these. A node that somebody else changes meanwhile is left to the next look.
    """
    now = store.now()
    watched = [node for node in nodes if is_watched(node, ended)]
    done = [node for node in watched if is_done_with(node, instance_of(node, seen), now)]
    done += never_launched(store.read, [one for one in nodes if is_ending(one) and not one.instance_ids])
    done_ids = {node.id for node in done}
    after = {
        node.id: noticed(node, instance_of(node, seen), now) for node in watched if node.id not in done_ids
    }
    before = {node.id: node for node in watched}
    released = {one for one, node in after.items() if before[one].counted and not node.counted}
    ending = {one for one, node in after.items() if before[one].is_usable and is_ending(node)}
    writes = [
        Put(node, was=before[one])
        for one, node in after.items()
        if one not in (released | ending) and node is not before[one]
    ]
    store.commit_each(writes)

    def release(node: Node) -> Node:
        return noticed(node, instance_of(node, seen), store.now()) if is_watched(node, ended) else node

    def fail(ledger: Ledger, current: Sequence[Node]) -> tuple[Ledger, list[Write]]:
        pairs = [(node, release(node)) for node in current if node.is_usable]
        return ledger, [Put(node, was=was) for was, node in pairs if is_ending(node)]

    def strand(node: Node) -> Node:
        return failed(node, _STRANDED) if is_stranded(node, ended) else node

    stranded = {node.id for node in nodes if is_stranded(node, ended)}
    release_nodes(store, cluster, stranded, strand)
    settle_nodes(store, cluster, ending, fail)
    release_nodes(store, cluster, released, release)
    remove_nodes(store, cluster, done)
    changed = sum(node.status is not before[one].status for one, node in after.items())
    return len(done) + len(stranded) + changed
