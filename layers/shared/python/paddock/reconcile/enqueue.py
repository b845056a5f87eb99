"""Enqueue: a run is one work item for each running operation, virtual cluster, and cluster.

Work items are done side by side and each by itself, so a slow or broken one stops no other, and the run takes
no longer with a thousand clusters. What a run reads grows with the number of clusters and of virtual
clusters, and not with their product: each virtual cluster is read by its own work item alone.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddock.errors import TransientCompute
from paddock.ports.repository import WriteConflictError
from paddock.ports.work_queue import WorkItem
from paddock.reconcile.quotas import refresh_quotas

if TYPE_CHECKING:
    from paddock.ports.compute import Compute
    from paddock.ports.quotas import AccountQuotas
    from paddock.ports.repository import Reads
    from paddock.ports.work_queue import WorkQueue
    from paddock.store.store import Store

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Run:
    """A run that has begun: the number of its work items, and whether it asked for quotas in vain."""

    work_items: int
    quotas_unread: bool


def start_run(store: Store, compute: Compute, queue: WorkQueue, account: AccountQuotas) -> Run:
    """Send the work items of one run, and refresh the quotas, which belong to no work item."""
    could_read = True
    try:
        could_read = refresh_quotas(store, account)
    except WriteConflictError:
        logger.info("quotas refreshed by another run meanwhile")
    except Exception:  # what is known of quotas stays, and the work items go on their way
        could_read = False
        logger.exception("quotas not refreshed")
    return Run(enqueue(store.read, compute, queue), quotas_unread=not could_read)


def enqueue(read: Reads, compute: Compute, queue: WorkQueue) -> int:
    """Send the work items of one run; returns their number. Two runs at once do no harm.

    A deleted cluster has a work item too, as long as it has instances.
    """
    operations = read.running_operations()
    clusters = read.cluster_names()
    known = [
        *(WorkItem(operation_id=operation_id) for operation_id in operations),
        *(WorkItem(virtual_cluster=name) for name in read.virtual_cluster_ids()),
        *(WorkItem(cluster=name) for name in clusters),
    ]
    queue.send(known)
    try:
        gone = sorted(set(compute.clusters()).difference(clusters))
    except TransientCompute as error:
        logger.warning("clusters that are gone are left to the next run", extra={"reason": str(error)})
        return len(known)
    queue.send([WorkItem(cluster=name) for name in gone])
    return len(known) + len(gone)
