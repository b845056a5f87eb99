"""One work item of a run of the reconciler. If a step fails, the other steps are done all the same.

A failed step is done by the next run, a minute later, so nothing is tried again here.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddock.errors import Busy, Transient
from paddock.model.node_observation import is_watched
from paddock.nodes.placement_groups import delete_empty_groups
from paddock.nodes.tags import TAGS_PER_RUN, tag_instances
from paddock.ports.repository import WriteConflictError
from paddock.reconcile.claims import release_stale_claims
from paddock.reconcile.drift import end_again, stop_started
from paddock.reconcile.expiration import expire, is_stuck
from paddock.reconcile.failed_nodes import forget_failed_nodes
from paddock.reconcile.garbage_collection import end_orphans
from paddock.reconcile.idle import end_idle
from paddock.reconcile.ledger import mend
from paddock.reconcile.names import repair_names
from paddock.reconcile.observe import ended_launching_operations, observe
from paddock.reconcile.resume import resume
from paddock.virtual_clusters.claims import repair_members
from paddock.virtual_clusters.reconcile import reconcile_virtual_cluster
from paddock.workflow.outcome import Next

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from paddock.model.identity import InstanceId, OperationId
    from paddock.model.instance import Instance
    from paddock.model.node import Node
    from paddock.ports.compute import Compute
    from paddock.ports.work_queue import WorkItem
    from paddock.ports.workflows import Workflows
    from paddock.store.store import Store

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Report:
    """The numbers of a run: of operations ``seen``, ``resumed`` and ``expired``; of failed steps.

    ``stuck`` operations run long past their deadline; they may have been ended now. ``noticed`` are nodes
    whose instance had ended, stopped, started, or outlived its termination, ``orphans`` instances that no
    node had, ``mended`` ledgers, names and virtual clusters that differed from the nodes, ``tidied``
    placement groups, ``relaunched`` virtual clusters that nodes are launched for, ``released`` claims that
    were never confirmed, and ``idle`` nodes that are ended.
    """

    seen: int = 0
    resumed: int = 0
    expired: int = 0
    stuck: int = 0
    failed: int = 0
    tidied: int = 0
    noticed: int = 0
    orphans: int = 0
    mended: int = 0
    relaunched: int = 0
    released: int = 0
    idle: int = 0


def reconcile(store: Store, compute: Compute, workflows: Workflows, item: WorkItem) -> Report:
    """Bring an operation, a virtual cluster or a cluster back on its way. Done twice it does no harm."""
    report = Report()
    if item.operation_id:
        report.seen += 1
        with _step("operation", report, item):
            _reconcile_operation(store, compute, workflows, item.operation_id, report)
    if item.virtual_cluster:
        with _step("virtual cluster", report, item):
            report.relaunched += reconcile_virtual_cluster(store, workflows, item.virtual_cluster) is not None
        with _step("virtual cluster's nodes", report, item):
            report.mended += repair_members(store, item.virtual_cluster)
    if item.cluster:
        _reconcile_cluster(store, compute, workflows, item, report)
    return report


def _reconcile_operation(
    store: Store,
    compute: Compute,
    workflows: Workflows,
    operation_id: OperationId,
    report: Report,
) -> None:
    operation = store.read.operation(operation_id)
    if operation is None:
        return
    if is_stuck(operation, store.now()):
        report.stuck += 1
        logger.warning("operation stuck", extra={"operation_id": operation_id})
    outcome = expire(store, compute, workflows, operation)
    if outcome is not None:
        report.expired += outcome.next is Next.DONE
        report.orphans += outcome.orphans
    elif resume(store, workflows, operation):
        report.resumed += 1


def _reconcile_cluster(
    store: Store,
    compute: Compute,
    workflows: Workflows,
    item: WorkItem,
    report: Report,
) -> None:
    cluster = item.cluster
    instances: Sequence[Instance] | None = None
    # The cloud is listed before the records: an instance launched in between is then no orphan.
    with _step("list instances", report, item):
        instances = compute.launched_in(cluster)
    ledger, nodes = None, None
    with _step("read records", report, item):
        ledger, nodes = store.read.ledger(cluster), store.read.nodes(cluster)
    if nodes is None:
        return
    if ledger is not None:
        with _step("names", report, item):
            report.mended += repair_names(store, workflows, cluster, nodes)
        with _step("ledger", report, item):
            report.mended += mend(store, ledger, nodes)
    if instances is not None:
        with _step("observe", report, item):
            ended = ended_launching_operations(store.read, nodes, store.now())
            watched = [node for node in nodes if is_watched(node, ended)]
            seen = _seen(compute, instances, watched)
            report.noticed += observe(store, cluster, nodes, seen, ended)
            report.noticed += stop_started(store.read, compute, cluster, nodes, seen)
            report.noticed += end_again(store.read, compute, cluster, nodes, seen)
        with _step("garbage collection", report, item):
            report.orphans += end_orphans(store, compute, cluster, instances, nodes)
    with _step("claims", report, item):
        report.released += release_stale_claims(store, nodes)
    with _step("failed nodes", report, item):
        forget_failed_nodes(store, cluster, nodes)
    with _step("idle nodes", report, item):
        report.idle += end_idle(store, workflows, cluster, nodes)
    if instances is not None:
        with _step("tags", report, item):
            ready = [node for node in nodes if node.is_ready]
            listed = {instance.id: instance for instance in instances}
            tag_instances(compute, store.now, ready, listed, TAGS_PER_RUN)
    with _step("placement groups", report, item):
        report.tidied += delete_empty_groups(store, compute, cluster)


def _seen(
    compute: Compute, instances: Sequence[Instance], nodes: Sequence[Node]
) -> dict[InstanceId, Instance]:
    """The instances by id, with those that lost the tags by which they are listed."""
    listed = {instance.id: instance for instance in instances}
    missing = [
        instance_id for node in nodes for instance_id in node.instance_ids if instance_id not in listed
    ]
    return {**listed, **compute.describe(missing)} if missing else listed


@contextmanager
def _step(name: str, report: Report, item: WorkItem) -> Iterator[None]:
    about = {
        "step": name,
        "operation_id": item.operation_id,
        "virtual_cluster": item.virtual_cluster,
        "cluster": item.cluster,
    }
    try:
        yield
    except (Busy, WriteConflictError):
        # Another writer was faster; the next run sees the record that it wrote.
        logger.info("changed meanwhile", extra=about)
    except Transient as error:
        report.failed += 1
        logger.warning("left to the next run", extra={**about, "reason": str(error)})
    except Exception:  # one broken record or unknown error code must not hold up all others, each minute
        report.failed += 1
        logger.exception("step failed", extra=about)
