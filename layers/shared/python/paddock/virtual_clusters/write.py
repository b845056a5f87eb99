"""Virtual clusters: named claims on nodes, changed whole or not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.errors import (
    ImmutableAttribute,
    InsufficientNodes,
    InvalidRequest,
    NotFound,
    RevisionConflict,
)
from paddock.model.identity import (
    ClusterName,
    NodeId,
    OperationId,
    VirtualClusterId,
    new_operation_id,
    new_uid,
    operation_of,
)
from paddock.model.operation import Action
from paddock.model.virtual_cluster import AllocationMode, VirtualCluster, change_between, tombstone
from paddock.model.wording import listed, quoted
from paddock.nodes.create import begin_create
from paddock.nodes.manage import after_all, mark_for_a_while, new_operation
from paddock.ports.repository import Put, WriteConflictError
from paddock.requests.bodies import is_virtual_cluster_id
from paddock.store.lookup import require_cluster
from paddock.store.operations import record_missing_nodes, record_operation
from paddock.store.starting import left_to_the_workflow, start
from paddock.virtual_clusters.assign import find_free, resolve_pending
from paddock.virtual_clusters.claims import Change, commit_change, release_claims
from paddock.virtual_clusters.provision import Launch, launch_missing
from paddock.virtual_clusters.reconcile import as_it_is

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from paddock.model.cluster import Cluster
    from paddock.model.node import Node
    from paddock.model.operation import Operation
    from paddock.model.virtual_cluster import VirtualClusterChange
    from paddock.ports.repository import Reads
    from paddock.ports.workflows import Workflows
    from paddock.requests.bodies import VirtualClusterWrite
    from paddock.store.store import Store


def write_virtual_cluster(
    store: Store,
    workflows: Workflows,
    default_cluster: ClusterName,
    request: VirtualClusterWrite,
    expected: int | None,
    by: str = "",
) -> VirtualCluster:
    """Create or update a virtual cluster; returns its new state.

    Nodes that stay wanted stay assigned; then come ready free nodes of its cluster; nodes still missing are
    launched, unless the request has ``provision`` false. ``expected`` is the revision that the writer last
    read, ``None`` or 0 to create; ``by`` is the writer's name. A dry run returns the same without effect.
    Raises ``RevisionConflict`` before anything else is judged, then ``ImmutableAttribute``, ``NotFound`` for
    the cluster, ``InvalidRequest`` for an unknown node type, and ``InsufficientNodes``.
    """

    def attempt() -> tuple[VirtualCluster, Operation | None]:
        stored = store.read.virtual_cluster(request.virtual_cluster_id)
        current = None if stored is None or stored.deleted else stored
        is_known = stored is not None and not stored.reserved
        if is_known or _was_deleted(store.read, request.virtual_cluster_id, expected):
            _require_revision(request.virtual_cluster_id, current, expected)
        desired = _desired(request, stored, default_cluster)
        cluster = _require_node_types(store.read, desired)
        desired = replace(desired, cluster_uid=cluster.uid)
        kept = resolve_pending(store.read, desired).virtual_cluster.within_desired()
        claimed = find_free(store.read, kept)
        after = kept.with_nodes(claimed)
        now = store.now()
        try:
            launch = _launch(store.read, after, now)
        except InsufficientNodes:
            _require_unchanged(store.read, request.virtual_cluster_id, stored)
            raise
        after = as_it_is(launch.after, "", now)
        if request.dry_run:
            return replace(
                after, revision=current.revision if current else 0, operation_id=OperationId("")
            ), None
        released_nodes = desired.held_ids() - after.held_ids()
        change = Change(
            after=after,
            claimed=claimed,
            released_nodes=_held(store.read, desired, released_nodes),
            other_writes=launch.writes,
            action="Updated" if current else "Created",
            by=by,
        )
        written = commit_change(store, stored, change)
        operation = written.stored(launch.operation) if launch.operation is not None else None
        return written.stored(after), operation

    written, operation = store.retry_on_conflict(attempt)
    if operation is not None:
        begin_create(store, workflows, operation)
    return written


def get_virtual_cluster(read: Reads, virtual_cluster_id: VirtualClusterId) -> VirtualCluster:
    """The virtual cluster. Raises ``NotFound``."""
    is_possible = is_virtual_cluster_id(virtual_cluster_id)
    found = read.virtual_cluster(virtual_cluster_id) if is_possible else None
    if found is None or found.deleted:
        msg = f"The virtual cluster {virtual_cluster_id[:128]} does not exist."
        raise NotFound(msg, virtual_cluster_id=virtual_cluster_id)
    return found


def list_virtual_clusters(
    read: Reads, limit: int | None, after: str
) -> tuple[Sequence[VirtualCluster], str | None]:
    """See ``Repository.virtual_clusters``. Raises ``InvalidRequest`` for a token that none can be."""
    if after and not is_virtual_cluster_id(after):
        msg = "nextToken must be one that a reply gave"
        raise InvalidRequest(msg)
    return read.virtual_clusters(limit, after)


def virtual_cluster_history(
    read: Reads, virtual_cluster_id: VirtualClusterId, limit: int, before: int | None
) -> tuple[Sequence[VirtualClusterChange], int | None]:
    """Changes, latest first, from below revision ``before`` on, and where to go on if there may be more.

    A deleted virtual cluster's history is there as long as it is kept. Raises ``NotFound`` where there is
    neither history nor virtual cluster.
    """
    is_possible = is_virtual_cluster_id(virtual_cluster_id)
    found = read.virtual_cluster_changes(virtual_cluster_id, limit + 1, before) if is_possible else ()
    if not found:
        # It may have lived unchanged for longer than changes are kept.
        get_virtual_cluster(read, virtual_cluster_id)
    return found[:limit], found[limit - 1].revision if len(found) > limit else None


def delete_virtual_cluster(
    store: Store,
    workflows: Workflows,
    virtual_cluster_id: VirtualClusterId,
    expected: int | None,
    *,
    terminate: bool,
    by: str = "",
) -> tuple[VirtualCluster, Operation | None]:
    """Give all nodes back to the pool, or end those that may be ended.

    Returns the last state, and the operation that ends nodes, if there is one.

    Its revision is remembered for a day, so that no later virtual cluster of this id gets it again. Raises
    ``NotFound``, and ``RevisionConflict`` where a revision is expected.
    """

    def attempt() -> tuple[VirtualCluster, Sequence[Node], Operation | None]:
        current = get_virtual_cluster(store.read, virtual_cluster_id)
        if expected is not None:
            _require_revision(virtual_cluster_id, current, expected)
        if terminate:
            _record_pending(store, current)
        nodes = _held(store.read, current, current.held_ids())
        now = after_all(store.now(), nodes)
        gone = tombstone(current.id, current.cluster, now)
        ending = [node.id for node in nodes if terminate and not node.keep_alive]
        operation = replace(
            new_operation(now, current.cluster, new_operation_id(now), Action.TERMINATE, ending),
            cluster_uid=current.cluster_uid,
            takes_from=current.claim,
        )
        written = store.commit(
            Put(gone, was=current),
            Put(change_between(current, gone, "Deleted", now, by=by), was=None),
            *(record_operation(operation) if ending else ()),
        )
        return current, nodes, written.stored(operation) if ending else None

    deleted, nodes, operation = store.retry_on_conflict(attempt)
    ending = set(operation.ids()) if operation is not None else set()
    release_claims(store, [node for node in nodes if node.id not in ending], store.now())
    if operation is not None:
        with left_to_the_workflow(operation):
            mark_for_a_while(store, operation)
        start(workflows, operation)
    return deleted, operation


def _launch(read: Reads, virtual_cluster: VirtualCluster, now: int) -> Launch:
    """Launch all missing nodes. Raises ``InsufficientNodes``."""
    first = replace(virtual_cluster, attempts=0, retry_at=0)
    missing = virtual_cluster.missing()
    if not missing:
        return Launch(first)
    if not virtual_cluster.provision:
        raise _insufficient(virtual_cluster, missing, "provision is false, so none are launched")
    launch = launch_missing(read, first, now)
    if short := launch.after.missing():
        raise _insufficient(virtual_cluster, short, launch.reasons)
    return launch


def _require_unchanged(
    read: Reads, virtual_cluster_id: VirtualClusterId, stored: VirtualCluster | None
) -> None:
    """Raise ``WriteConflictError`` if another writer was faster: it may have claimed the missing nodes."""
    now = read.virtual_cluster(virtual_cluster_id)
    if now is not None and (stored is None or now.revision != stored.revision):
        raise WriteConflictError([Put(now, was=stored)])


def _insufficient(
    virtual_cluster: VirtualCluster, short: Mapping[str, int], reason: str
) -> InsufficientNodes:
    msg = (
        f"No enough nodes to add to the virtual cluster: {quoted(dict(short))} are missing in cluster "
        f"{quoted(virtual_cluster.cluster)}; {reason}"
    )
    recommended = {name: count - short.get(name, 0) for name, count in virtual_cluster.replica_sets.items()}
    return InsufficientNodes(msg, replica_sets_to_recommend=recommended, missing=dict(short))


def _record_pending(store: Store, virtual_cluster: VirtualCluster) -> None:
    """Write the records that its launches have not written yet: an action ends only nodes on record."""
    launching = {operation_of(node_id) for ids in virtual_cluster.pending_ids().values() for node_id in ids}
    for operation in map(store.read.operation, sorted(launching)):
        if operation is not None:
            record_missing_nodes(store, operation)


def _held(read: Reads, virtual_cluster: VirtualCluster, ids: Collection[NodeId]) -> list[Node]:
    """The nodes with these ids that exist and name the virtual cluster."""
    nodes = read.nodes_by_id(virtual_cluster.cluster, ids) if ids else ()
    return [node for node in nodes if virtual_cluster.is_claimant_of(node)]


def _was_deleted(read: Reads, virtual_cluster_id: VirtualClusterId, expected: int | None) -> bool:
    """Whether a write with a revision means a deleted virtual cluster, rather than an id never used.

    Its history outlives its tombstone. A create that meets neither is committed only if there is still
    neither a virtual cluster nor a tombstone.
    """
    return bool(expected) and bool(read.virtual_cluster_changes(virtual_cluster_id, 1))


def _require_revision(
    virtual_cluster_id: VirtualClusterId, current: VirtualCluster | None, expected: int | None
) -> None:
    revision = current.revision if current else 0
    if (expected or 0) != revision:
        state = (
            f"the latest revision of the virtual cluster {virtual_cluster_id} is {revision}"
            if current
            else f"the virtual cluster {virtual_cluster_id} does not exist."
        )
        hint = "" if expected else "send the revision that you read: "
        msg = f"The revision ({expected or 0}) is expired, {hint}{state}"
        raise RevisionConflict(msg, revision=revision, virtual_cluster_id=virtual_cluster_id)


def _desired(
    request: VirtualClusterWrite, stored: VirtualCluster | None, default_cluster: ClusterName
) -> VirtualCluster:
    """The virtual cluster as the request wants it, still with the nodes that it has."""
    replica_sets = dict(request.replica_sets or {})
    if stored is None or stored.deleted:
        return VirtualCluster(
            id=request.virtual_cluster_id,
            cluster=request.cluster or default_cluster,
            uid=stored.uid if stored else new_uid(),
            allocation_mode=request.mode or AllocationMode.MIXED,
            replica_sets=replica_sets,
            provision=request.provision,
        )
    changes = (
        ("allocationMode", request.mode, stored.allocation_mode),
        ("cluster", request.cluster, stored.cluster),
    )
    for name, wanted, is_now in changes:
        if wanted not in (None, is_now):
            msg = f"{name} must stay {quoted(str(is_now))}, it cannot change on update"
            raise ImmutableAttribute(msg, attribute=name)
    return replace(stored, replica_sets=replica_sets, provision=request.provision)


def _require_node_types(read: Reads, desired: VirtualCluster) -> Cluster:
    cluster = require_cluster(read, desired.cluster)
    known = cluster.definition.node_types()
    # A node type that the definition has lost since can still be given back, by leaving it out.
    unknown = sorted(name for name in desired.replica_sets if name not in known)
    if unknown:
        types = f"{listed(known)}; not {listed(unknown)}"
        msg = f"replicaSets must name node types of cluster {quoted(desired.cluster)}: {types}"
        raise InvalidRequest(msg, node_types=known)
    return cluster
