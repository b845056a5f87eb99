"""When a virtual cluster may launch again: pauses that grow while launches come back short or do not last."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.model.time import SECOND_NS

if TYPE_CHECKING:
    from paddock.model.virtual_cluster import VirtualCluster

FIRST_PAUSE_NS = 60 * SECOND_NS
LONGEST_PAUSE_NS = 900 * SECOND_NS
# A node that is lost sooner than this after it was Ready may have ended itself, and its replacement may too.
EARLY_LOSS_NS = 600 * SECOND_NS


def with_attempt(virtual_cluster: VirtualCluster, now: int) -> VirtualCluster:
    """The virtual cluster after a launch was tried for it: the next one comes after a longer pause."""
    pause = min(FIRST_PAUSE_NS << min(virtual_cluster.attempts, 10), LONGEST_PAUSE_NS)
    return replace(virtual_cluster, attempts=virtual_cluster.attempts + 1, retry_at=now + pause)


def after_loss(virtual_cluster: VirtualCluster, lived: int, now: int) -> VirtualCluster:
    """The virtual cluster after the loss of nodes, the oldest of which was Ready for ``lived`` ns.

    A node that has lived is replaced at once. So is the first that was lost early, which may be chance; after
    that an early loss waits as a launch does that came back short. Launches are forgotten once all nodes have
    been there for as long as a loss is early.
    """
    has_rested = virtual_cluster.condition.status and now - virtual_cluster.condition.since >= EARLY_LOSS_NS
    rested = replace(virtual_cluster, attempts=0) if has_rested else virtual_cluster
    at_once = lived >= EARLY_LOSS_NS or rested.attempts <= 1
    return replace(rested, retry_at=0) if at_once else rested
