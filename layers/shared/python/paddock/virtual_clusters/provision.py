"""Launching the nodes that a virtual cluster is missing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paddock.errors import NotFound
from paddock.model.launch_backoff import with_attempt
from paddock.model.wording import quoted
from paddock.nodes.plan import NodePlan
from paddock.store.lookup import known_quotas, require_cluster, require_ledger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.operation import Operation
    from paddock.model.virtual_cluster import VirtualCluster
    from paddock.ports.repository import Reads, Write


@dataclass(frozen=True, slots=True)
class Launch:
    """A virtual cluster that waits for its launch, the operation, and the writes that belong to both.

    ``reasons`` say why not all missing nodes are launched.
    """

    after: VirtualCluster
    operation: Operation | None = None
    writes: Sequence[Write] = ()
    reasons: str = ""


def launch_missing(read: Reads, virtual_cluster: VirtualCluster, now: int) -> Launch:
    """Plan to launch the missing nodes, as far as limits allow. Raises ``NotFound``."""
    cluster, ledger = (
        require_cluster(read, virtual_cluster.cluster),
        require_ledger(read, virtual_cluster.cluster),
    )
    if cluster.uid != virtual_cluster.cluster_uid:
        msg = f"The cluster {quoted(virtual_cluster.cluster)} was deleted, and another has its name"
        raise NotFound(msg)
    plan = NodePlan(cluster, ledger, known_quotas(read), now, virtual_cluster)
    for node_type, count in virtual_cluster.missing().items():
        plan.add_of_type(node_type, count)
    operation = plan.operation()
    tried = with_attempt(virtual_cluster, now)
    if not operation.total:
        return Launch(tried, reasons=plan.reasons)
    after = replace(_with_launched(tried, operation), operation_id=operation.id)
    return Launch(after, operation, plan.writes(operation), plan.reasons)


def _with_launched(virtual_cluster: VirtualCluster, operation: Operation) -> VirtualCluster:
    """The virtual cluster that waits for the nodes of an operation as well."""
    pending = virtual_cluster.pending_ids()
    for node in operation.planned_nodes():
        pending.setdefault(node.template_id, []).append(node.id)
    return virtual_cluster.with_pending(pending)
