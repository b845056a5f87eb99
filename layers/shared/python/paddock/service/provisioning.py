"""Launching what a virtual cluster is missing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paddock.errors import NotFound
from paddock.model.operation import SECOND_NS
from paddock.model.wording import quoted
from paddock.service.lookup import known_quotas, require_cluster, require_ledger
from paddock.service.node_plan import NodePlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.operation import Operation
    from paddock.model.virtual_cluster import VirtualCluster
    from paddock.ports.repository import Reads, Write

FIRST_PAUSE_NS = 60 * SECOND_NS
LONGEST_PAUSE_NS = 900 * SECOND_NS
# A node that is lost sooner than this after it was Ready may have ended itself, and its replacement may too.
EARLY_LOSS_NS = 600 * SECOND_NS


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


def with_attempt(one: VirtualCluster, now: int) -> VirtualCluster:
    """The virtual cluster after a launch was tried for it: the next one comes after a longer pause."""
    pause = min(FIRST_PAUSE_NS << min(one.attempts, 10), LONGEST_PAUSE_NS)
    return replace(one, attempts=one.attempts + 1, retry_at=now + pause)


def after_loss(one: VirtualCluster, lived: int, now: int) -> VirtualCluster:
    """The virtual cluster after the loss of nodes, the oldest of which was Ready for ``lived`` ns.

    A node that has lived is replaced at once. So is the first that was lost early, which may be chance; after
    that an early loss waits as a launch does that came back short. Launches are forgotten once all nodes have
    been there for as long as a loss is early.
    """
    has_rested = one.condition.status and now - one.condition.since >= EARLY_LOSS_NS
    rested = replace(one, attempts=0) if has_rested else one
    at_once = lived >= EARLY_LOSS_NS or rested.attempts <= 1
    return replace(rested, retry_at=0) if at_once else rested


def _with_launched(one: VirtualCluster, operation: Operation) -> VirtualCluster:
    """The virtual cluster that waits for the nodes of an operation as well."""
    pending = one.pending_ids()
    for node in operation.planned_nodes():
        pending.setdefault(node.template_id, []).append(node.id)
    return one.with_pending(pending)
