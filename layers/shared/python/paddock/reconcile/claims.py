"""Claims: a node that names a virtual cluster which does not have it is given back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.service.claims import is_stale, unclaim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.node import Node
    from paddock.ports.clock import Clock
    from paddock.ports.repository import Repository


def release_stale_claims(repository: Repository, clock: Clock, nodes: Sequence[Node]) -> int:
    """Give back those of these nodes whose claim nobody has confirmed in time; answers how many there were.

    The nodes are read before their virtual clusters. One that was claimed anew in between has changed, and is
    left alone.
    """
    claimed = [node for node in nodes if node.virtual_cluster]
    holders = {name: repository.virtual_cluster(name) for name in {node.virtual_cluster for node in claimed}}
    now = clock.now()
    held = {name: holder.held_ids() for name, holder in holders.items() if holder is not None}
    stale = [node for node in claimed if is_stale(node, held.get(node.virtual_cluster, set()), now)]
    unclaim(repository, stale, now)
    return len(stale)
