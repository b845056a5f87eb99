"""Cluster placement groups in the cloud: how a cluster calls them, and their end once no node is in them.

Each launch makes its group where it is absent, so a group may be deleted at any moment that it is empty: a
create that uses it again at that moment makes it again, or gets an error that it is gone and tries once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.model.ledger import placement_group_key
from paddock.model.time import SECOND_NS
from paddock.ports.repository import Put

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.identity import ClusterName
    from paddock.ports.compute import Compute
    from paddock.store.store import Store

# Each is one call, and a task does a bounded amount; what is left over is for the next one.
GROUPS_PER_RUN = 50
TURN_NS = 60 * SECOND_NS


def cloud_placement_group(cluster: ClusterName, node_array: str, placement_group: str) -> str:
    """The deployment's name for a placement group, as the client's is its node array's."""
    return _name(cluster, placement_group_key(node_array, placement_group)) if placement_group else ""


def delete_empty_groups(store: Store, compute: Compute, cluster: ClusterName) -> int:
    """Delete the placement groups of a cluster that no node is in any more; returns the number deleted.

    They stay on record until they are gone, so that a crash leaves none behind; a group that the cloud still
    finds in use is left for the next run. Raises ``ComputeThrottled`` and ``ComputeUnavailable``.
    """

    def attempt() -> int:
        ledger = store.read.ledger(cluster)
        empty = _those_whose_turn_it_is(ledger.empty_placement_groups(), store.now()) if ledger else []
        gone = [key for key in empty if compute.delete_placement_group(_name(cluster, key))]
        if ledger is not None and gone:
            store.commit(Put(ledger.without_placement_groups(gone), was=ledger))
        return len(gone)

    return store.retry_on_conflict(attempt)


def _those_whose_turn_it_is(keys: Sequence[str], now: int) -> Sequence[str]:
    """As many groups as one run takes, others each minute: a group that stays must not delay the rest."""
    begin = now // TURN_NS * GROUPS_PER_RUN % max(len(keys), 1)
    return [*keys[begin:], *keys[:begin]][:GROUPS_PER_RUN]


def _name(cluster: ClusterName, key: str) -> str:
    return f"{cluster}/{key}"
