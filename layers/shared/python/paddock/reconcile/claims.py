"""Claims: a node that names a virtual cluster which does not have it is given back."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from paddock.ports.repository import WriteConflictError
from paddock.virtual_clusters.claims import release_unconfirmed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.identity import VirtualClusterId
    from paddock.model.node import Node
    from paddock.store.store import Store


def release_stale_claims(store: Store, nodes: Sequence[Node]) -> int:
    """Give back the nodes whose claim was not confirmed in time; returns their number.

    The nodes are read before their virtual clusters. A node that was claimed anew in between has changed, and
    is left alone; a virtual cluster that changes meanwhile is left to the next run.
    """
    claimed: defaultdict[VirtualClusterId, list[Node]] = defaultdict(list)
    for node in nodes:
        if node.virtual_cluster:
            claimed[node.virtual_cluster].append(node)
    released, conflicts = 0, []
    for name, claims in claimed.items():
        try:
            released += release_unconfirmed(store, name, claims)
        except WriteConflictError as conflict:
            conflicts.append(conflict)
    if conflicts:
        raise conflicts[0]
    return released
