"""Bringing a virtual cluster to what it asks for, without its client doing anything."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.errors import NotFound, PaddockError
from paddock.model.launch_backoff import with_attempt
from paddock.model.virtual_cluster import ConditionReason
from paddock.model.wording import quoted
from paddock.nodes.create import begin_create
from paddock.virtual_clusters.assign import find_free, resolve_pending
from paddock.virtual_clusters.claims import Change, commit_change
from paddock.virtual_clusters.provision import Launch, launch_missing

if TYPE_CHECKING:
    from collections.abc import Collection

    from paddock.model.identity import ClusterName, VirtualClusterId
    from paddock.model.operation import Operation
    from paddock.model.virtual_cluster import Condition, VirtualCluster
    from paddock.ports.repository import Reads
    from paddock.ports.workflows import Workflows
    from paddock.store.store import Store

logger = logging.getLogger(__name__)


def reconcile_virtual_cluster(
    store: Store,
    workflows: Workflows,
    virtual_cluster_id: VirtualClusterId,
    free_types: Collection[str] | None = None,
) -> Operation | None:
    """Assign launched and free nodes, and launch the nodes still missing; returns the launching operation.

    Launches are tried again after pauses that grow; each try is recorded, also a try that the limits leave no
    room for. If no launch is due and nothing is new, nothing is written. Free nodes are looked for if any of
    ``free_types`` are missing; with ``None``, the types of free nodes are not known.
    """

    def attempt() -> Operation | None:
        stored = store.read.virtual_cluster(virtual_cluster_id)
        if stored is None or not stored.is_unsatisfied:
            return None
        resolved = resolve_pending(store.read, stored)
        may_be_free = free_types is None or not resolved.virtual_cluster.missing().keys().isdisjoint(
            free_types
        )
        claimed = find_free(store.read, resolved.virtual_cluster) if may_be_free else []
        if claimed and not _has_its_cluster(store.read, stored):
            claimed = []
        after = resolved.virtual_cluster.with_nodes(claimed)
        now = store.now()
        is_due = after.missing() and after.provision and now >= after.retry_at
        launch = _launch(store.read, after, now) if is_due else Launch(after)
        after = launch.after
        if after == stored:
            return None
        after = as_it_is(after, "; ".join(filter(None, (*resolved.reasons, launch.reasons))), now)
        added = len(after.node_instances) > len(stored.node_instances)
        action = "NodesJoined" if added else "LaunchRetried" if launch.operation else "NodesMissing"
        change = Change(
            after=after,
            claimed=claimed,
            other_writes=launch.writes,
            action=action,
            message=after.condition.message,
        )
        written = commit_change(store, stored, change)
        return written.stored(launch.operation) if launch.operation is not None else None

    operation = store.retry_on_conflict(attempt)
    if operation is not None:
        begin_create(store, workflows, operation)
    return operation


def reconcile_unsatisfied(store: Store, workflows: Workflows, cluster: ClusterName) -> None:
    """Reconcile the virtual clusters of a cluster that want more nodes than they have.

    A virtual cluster that fails holds up no other. Once all are done, the first error that may pass by itself
    is raised.
    """
    passing: list[PaddockError] = []
    free_types: set[str] | None = None
    for name in store.read.unsatisfied_virtual_clusters():
        try:
            virtual_cluster = store.read.virtual_cluster(name)
            if virtual_cluster is not None and virtual_cluster.cluster == cluster:
                if free_types is None:
                    # Once for all of them: a busy cluster has thousands of nodes, and none that is free.
                    usable = [node for node in store.read.nodes(cluster) if node.is_ready]
                    free_types = {node.template_id for node in usable if not node.virtual_cluster}
                reconcile_virtual_cluster(store, workflows, name, free_types)
        except PaddockError as error:
            passing.append(error)
        except Exception:  # the reconciler meets it as well, in a part of its own, and counts it
            logger.exception("virtual cluster not healed", extra={"virtual_cluster": name})
    if passing:
        raise passing[0]


def join(store: Store, virtual_cluster_id: VirtualClusterId) -> None:
    """Assign the nodes that were launched for a virtual cluster and are Ready by now."""

    def attempt() -> None:
        stored = store.read.virtual_cluster(virtual_cluster_id)
        if stored is None or not stored.pending:
            return
        resolved = resolve_pending(store.read, stored)
        if len(resolved.virtual_cluster.node_instances) == len(stored.node_instances):
            return
        now = store.now()
        after = as_it_is(resolved.virtual_cluster, "; ".join(resolved.reasons), now)
        commit_change(store, stored, Change(after=after, action="NodesJoined"))

    store.retry_on_conflict(attempt)


def as_it_is(virtual_cluster: VirtualCluster, reasons: str, now: int) -> VirtualCluster:
    """The virtual cluster with a condition that states what it has and lacks.

    As long as it lacks nodes, the condition keeps showing the last known ``reasons``.
    """
    return replace(
        virtual_cluster,
        condition=_condition_of(virtual_cluster, reasons or virtual_cluster.condition.cause, now),
    )


def _condition_of(virtual_cluster: VirtualCluster, cause: str, now: int) -> Condition:
    missing, unassigned = virtual_cluster.missing(), virtual_cluster.unassigned()
    because = f": {cause}" if cause else ""
    if missing:
        message = f"{quoted(missing)} are missing{because}"
        return virtual_cluster.condition.changed(
            ConditionReason.INSUFFICIENT_NODES, message, now, cause=cause
        )
    if unassigned:
        message = f"{quoted(unassigned)} are being launched{because}"
        return virtual_cluster.condition.changed(ConditionReason.LAUNCHING, message, now, cause=cause)
    return virtual_cluster.condition.changed(ConditionReason.SATISFIED, "", now)


def _has_its_cluster(read: Reads, virtual_cluster: VirtualCluster) -> bool:
    """Whether the cluster of that name, in which nodes were found, is the cluster that it was made in."""
    cluster = read.cluster(virtual_cluster.cluster)
    return cluster is not None and cluster.uid == virtual_cluster.cluster_uid


def _launch(read: Reads, virtual_cluster: VirtualCluster, now: int) -> Launch:
    """Launch the missing nodes; if the cluster is gone, the try counts all the same."""
    try:
        return launch_missing(read, virtual_cluster, now)
    except NotFound as gone:
        return Launch(with_attempt(virtual_cluster, now), reasons=gone.message)
