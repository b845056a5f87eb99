"""Claims: virtual clusters and nodes are compared with each other, and what does not agree is repaired.

A node that names a virtual cluster which does not have it is given back. A virtual cluster that has a node
which is gone, or does not name it, loses it, in a new revision; that is a bug, and others take its place.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from paddock.ports.repository import WriteConflictError
from paddock.service.claims import is_member, release_unconfirmed, repair_members

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.node import Node
    from paddock.ports.clock import Clock
    from paddock.ports.repository import Repository


def release_stale_claims(repository: Repository, clock: Clock, nodes: Sequence[Node]) -> int:
    """Give back those of these nodes whose claim nobody has confirmed in time; answers how many there were.

    The nodes are read before their virtual clusters. One that was claimed anew in between has changed, and is
    left alone; a virtual cluster that changes meanwhile is left to the next run.
    """
    claimed: defaultdict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        if node.virtual_cluster:
            claimed[node.virtual_cluster].append(node)
    released, conflicts = 0, []
    for name, some in claimed.items():
        try:
            released += release_unconfirmed(repository, clock, name, some)
        except WriteConflictError as conflict:
            conflicts.append(conflict)
    if conflicts:
        raise conflicts[0]
    return released


def repair_virtual_clusters(repository: Repository, clock: Clock, cluster: str, nodes: Sequence[Node]) -> int:
    """Take out of a cluster's virtual clusters what is not their own; answers how many nodes that were.

    These are the cluster's nodes as they were a moment ago; what looks wrong by them is looked at again.
    """
    by_id = {node.id: node for node in nodes}
    repaired = 0
    for one in repository.virtual_clusters()[0]:
        if one.cluster == cluster:
            suspects = [
                member
                for member in one.node_instances
                if member not in by_id or not is_member(one, by_id[member])
            ]
            repaired += repair_members(repository, clock, one.id, suspects) if suspects else 0
    return repaired
