"""Launching what a virtual cluster is missing."""

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
    """A virtual cluster that waits for what is launched for it, and what must be written with it.

    ``reasons`` say why not all that it is missing is launched.
    """

    after: VirtualCluster
    operation: Operation | None = None
    writes: Sequence[Write] = ()
    reasons: str = ""


def launch_missing(read: Reads, one: VirtualCluster, now: int) -> Launch:
    """Plan to launch what the virtual cluster is missing, as far as limits allow. Raises ``NotFound``."""
    cluster, ledger = require_cluster(read, one.cluster), require_ledger(read, one.cluster)
    if cluster.uid != one.cluster_uid:
        msg = f"The cluster {quoted(one.cluster)} was deleted, and another has its name"
        raise NotFound(msg)
    plan = NodePlan(cluster, ledger, known_quotas(read), now, one)
    for node_type, count in one.missing().items():
        plan.add_of_type(node_type, count)
    operation = plan.operation()
    tried = with_attempt(one, now)
    if not operation.total:
        return Launch(tried, reasons=plan.reasons)
    after = replace(_with_launched(tried, operation), operation_id=operation.id)
    return Launch(after, operation, plan.writes(operation), plan.reasons)


def _with_launched(one: VirtualCluster, operation: Operation) -> VirtualCluster:
    """The virtual cluster that waits for the nodes of an operation as well."""
    pending = one.pending_ids()
    for node in operation.planned_nodes():
        pending.setdefault(node.template_id, []).append(node.id)
    return one.with_pending(pending)
