"""Fan out: a run is one part for each running operation, virtual cluster, and cluster.

Parts are done side by side and each by itself, so a slow or broken one stops no other, and the run takes no
longer with a thousand clusters. What a run reads grows with the number of clusters and of virtual clusters,
and not with their product: each virtual cluster is read by its own part alone.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddock.errors import TransientCompute
from paddock.ports.parts import Part
from paddock.ports.repository import WriteConflictError
from paddock.reconcile.quotas import refresh_quotas

if TYPE_CHECKING:
    from paddock.ports.compute import Compute
    from paddock.ports.parts import Parts
    from paddock.ports.quotas import AccountQuotas
    from paddock.ports.repository import Reads
    from paddock.service.store import Store

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Run:
    """A run that has begun: its number of parts, and whether the account's quotas were asked for in vain."""

    parts: int
    quotas_unread: bool


def start_run(store: Store, compute: Compute, parts: Parts, account: AccountQuotas) -> Run:
    """Send the parts of one run, and do what concerns no part by itself."""
    told = True
    try:
        told = refresh_quotas(store, account)
    except WriteConflictError:
        logger.info("quotas refreshed by another run meanwhile")
    except Exception:  # what is known of quotas stays, and the parts go on their way
        told = False
        logger.exception("quotas not refreshed")
    return Run(fan_out(store.read, compute, parts), quotas_unread=not told)


def fan_out(read: Reads, compute: Compute, parts: Parts) -> int:
    """Send the parts of one run; answers how many. Two runs at once do no harm.

    Clusters that are gone have a part too, as long as there are instances of theirs.
    """
    operations = read.running_operations()
    clusters = read.cluster_names()
    known = [
        *(Part(operation_id=one) for one in operations),
        *(Part(virtual_cluster=one) for one in read.virtual_cluster_ids()),
        *(Part(cluster=name) for name in clusters),
    ]
    parts.send(known)
    try:
        gone = sorted(set(compute.clusters()).difference(clusters))
    except TransientCompute as error:
        logger.warning("clusters that are gone are left to the next run", extra={"reason": str(error)})
        return len(known)
    parts.send([Part(cluster=name) for name in gone])
    return len(known) + len(gone)
