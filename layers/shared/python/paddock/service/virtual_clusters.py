"""Virtual clusters: named claims on nodes, changed whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING

from paddock.errors import (
    ImmutableAttribute,
    InsufficientNodes,
    InvalidRequest,
    NotFound,
    RevisionConflict,
    TooManyChanges,
)
from paddock.model.identity import new_operation_id, next_revision
from paddock.model.operation import Action
from paddock.model.requests import is_virtual_cluster_id
from paddock.model.virtual_cluster import (
    TOMBSTONE_NS,
    AllocationMode,
    NodeInstance,
    VirtualCluster,
)
from paddock.ports.repository import Put
from paddock.service.actions import act
from paddock.service.contention import until_won
from paddock.service.create_nodes import record_operation
from paddock.service.lookup import require_cluster
from paddock.service.manage_nodes import new_operation
from paddock.service.starting import start

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from paddock.model.node import Node
    from paddock.model.operation import Operation
    from paddock.model.requests import VirtualClusterWrite
    from paddock.ports.clock import Clock
    from paddock.ports.repository import Repository
    from paddock.ports.workflows import Workflows

# One transaction changes this many nodes at the most, beside the virtual cluster and an operation.
MAX_CHANGED_NODES = 90


def write_virtual_cluster(
    repository: Repository,
    clock: Clock,
    default_cluster: str,
    request: VirtualClusterWrite,
    expected: int | None,
) -> VirtualCluster:
    """Create or update a virtual cluster from the ready free nodes of its cluster; answers it as it is now.

    ``expected`` is the revision that the writer last read, ``None`` or 0 to create. Nodes that stay wanted
    stay assigned. A dry run answers the same and changes nothing. Raises ``RevisionConflict`` before anything
    else is judged, then ``NotFound`` for the cluster, ``ImmutableAttribute``, ``InvalidRequest`` for an
    unknown node type, ``InsufficientNodes`` and ``TooManyChanges``.
    """

    def attempt() -> VirtualCluster:
        stored = repository.virtual_cluster(request.virtual_cluster_id)
        current = None if stored is None or stored.deleted else stored
        _require_revision(request.virtual_cluster_id, current, expected)
        wish = _wish(request, current, default_cluster)
        _require_node_types(repository, wish)
        change = _assign(wish, repository.nodes(wish.cluster))
        now = clock.now()
        after = replace(
            wish,
            node_instances=change.node_instances,
            revision=next_revision(now, stored.revision if stored else 0),
        )
        if request.dry_run:
            return replace(after, revision=current.revision if current else 0)
        repository.commit(Put(after, was=stored), *_claims(now, after, change))
        return after

    return until_won(clock, attempt)


def get_virtual_cluster(repository: Repository, virtual_cluster_id: str) -> VirtualCluster:
    """The virtual cluster. Raises ``NotFound``."""
    is_possible = is_virtual_cluster_id(virtual_cluster_id)
    found = repository.virtual_cluster(virtual_cluster_id) if is_possible else None
    if found is None or found.deleted:
        msg = f"there is no virtual cluster {virtual_cluster_id!r}"
        raise NotFound(msg, virtualClusterId=virtual_cluster_id)
    return found


def list_virtual_clusters(
    repository: Repository, limit: int | None, after: str
) -> tuple[Sequence[VirtualCluster], str | None]:
    """See ``Repository.virtual_clusters``. Raises ``InvalidRequest`` for a token that none can be."""
    if after and not is_virtual_cluster_id(after):
        msg = "nextToken must be one that a reply gave"
        raise InvalidRequest(msg)
    return repository.virtual_clusters(limit, after)


def delete_virtual_cluster(
    repository: Repository,
    workflows: Workflows,
    clock: Clock,
    virtual_cluster_id: str,
    expected: int | None,
    *,
    terminate: bool,
) -> tuple[VirtualCluster, Operation | None]:
    """Give all nodes back to the pool, or end those that may be ended.

    Answers the last state, and the operation that ends nodes where there is one.

    Its revision is remembered for a day, so that no later virtual cluster of this id gets it again. Raises
    ``NotFound``, ``RevisionConflict`` where a revision is expected, and ``TooManyChanges``.
    """

    def attempt() -> tuple[VirtualCluster, Operation | None]:
        current = get_virtual_cluster(repository, virtual_cluster_id)
        if expected is not None:
            _require_revision(virtual_cluster_id, current, expected)
        nodes = [
            node
            for node in repository.nodes_by_id(current.cluster, list(current.node_instances))
            if node.virtual_cluster == virtual_cluster_id
        ]
        _require_few(len(nodes))
        now = max(clock.now(), *(node.managed_at + 1 for node in nodes), 0)
        gone = replace(
            current,
            revision=next_revision(now, current.revision),
            replica_sets={},
            node_instances={},
            deleted=True,
            expires_at=now + TOMBSTONE_NS,
        )
        freed = {node.id: _freed(node, now) for node in nodes}
        ending = [node.id for node in nodes if terminate and not node.keep_alive]
        identity = new_operation_id(now)
        operation = new_operation(now, current.cluster, identity, Action.TERMINATE, ending)
        writes = [
            Put(act(freed[node.id], operation, now) if node.id in ending else freed[node.id], was=node)
            for node in nodes
        ]
        recorded = record_operation(operation) if ending else []
        repository.commit(Put(gone, was=current), *writes, *recorded)
        if ending:
            start(workflows, operation)
        return current, operation if ending else None

    return until_won(clock, attempt)


@dataclass(frozen=True, slots=True)
class _Change:
    """What an update does to nodes: whom it keeps, claims and gives back."""

    kept: Sequence[Node]
    claimed: Sequence[Node]
    freed: Sequence[Node]

    @property
    def node_instances(self) -> dict[str, NodeInstance]:
        assigned = sorted((*self.kept, *self.claimed), key=lambda node: node.id)
        return {
            node.id: NodeInstance(hostname=node.dns_name, template_id=node.template_id) for node in assigned
        }


def _require_revision(virtual_cluster_id: str, current: VirtualCluster | None, expected: int | None) -> None:
    revision = current.revision if current else 0
    if (expected or 0) != revision:
        state = f"is at revision {revision}" if current else "does not exist"
        msg = f"virtual cluster {virtual_cluster_id!r} {state}, the request is based on {expected or 0}"
        raise RevisionConflict(msg, revision=revision, virtualClusterId=virtual_cluster_id)


def _wish(
    request: VirtualClusterWrite, current: VirtualCluster | None, default_cluster: str
) -> VirtualCluster:
    """The virtual cluster as the request wants it, still with the nodes that it has."""
    replica_sets = dict(request.replica_sets or {})
    if current is None:
        return VirtualCluster(
            id=request.virtual_cluster_id,
            cluster=request.cluster or default_cluster,
            revision=0,
            allocation_mode=request.mode or AllocationMode.MIXED,
            replica_sets=replica_sets,
        )
    changes = (
        ("allocationMode", request.mode, current.allocation_mode),
        ("cluster", request.cluster, current.cluster),
    )
    for name, wanted, is_now in changes:
        if wanted not in (None, is_now):
            msg = f"{name} must stay {str(is_now)!r}, it cannot change on update"
            raise ImmutableAttribute(msg, attribute=name)
    return replace(current, replica_sets=replica_sets)


def _require_node_types(repository: Repository, wish: VirtualCluster) -> None:
    known = require_cluster(repository, wish.cluster).definition.node_types()
    # A node type that the definition has lost since can still be given back, by leaving it out.
    unknown = sorted(name for name in wish.replica_sets if name not in known)
    if unknown:
        msg = f"replicaSets must name node types of cluster {wish.cluster!r}: {known}, not {unknown}"
        raise InvalidRequest(msg, nodeTypes=known)


def _assign(wish: VirtualCluster, nodes: Sequence[Node]) -> _Change:
    """Decide whom to keep, claim and give back. Raises ``InsufficientNodes`` and ``TooManyChanges``."""
    held = [node for node in nodes if node.virtual_cluster == wish.id]
    kept: dict[str, list[Node]] = {}
    claimed: dict[str, list[Node]] = {}
    for node_type, count in wish.replica_sets.items():
        # Dead nodes are given back first; of the others the youngest.
        mine = (node for node in held if node.template_id == node_type and node.is_usable)
        kept[node_type] = sorted(mine, key=lambda node: (node.created_at, node.id))[:count]
        free = (node for node in nodes if node.template_id == node_type and _is_free(node))
        preferred = sorted(free, key=lambda node: _preference(wish.id, node.id))
        claimed[node_type] = preferred[: count - len(kept[node_type])]
    keep = {node.id for nodes_kept in kept.values() for node in nodes_kept}
    freed = [node for node in held if node.id not in keep]
    _require_few(len(freed))
    assigned = {node_type: len(kept[node_type]) + len(claimed[node_type]) for node_type in kept}
    short = {
        name: count - assigned[name] for name, count in wish.replica_sets.items() if count > assigned[name]
    }
    if short:
        msg = (
            f"there must be more ready free nodes in cluster {wish.cluster!r}: {short} are missing, "
            "and nodes are not launched for virtual clusters"
        )
        recommended = _recommended(kept, claimed, MAX_CHANGED_NODES - len(freed))
        raise InsufficientNodes(msg, replicaSetsToRecommend=recommended, missing=short)
    change = _Change(list(chain(*kept.values())), list(chain(*claimed.values())), freed)
    _require_few(len(change.claimed) + len(change.freed))
    return change


def _is_free(node: Node) -> bool:
    return node.is_usable and not node.virtual_cluster


def _preference(virtual_cluster_id: str, node_id: str) -> bytes:
    """An order of nodes of each virtual cluster's own, so that competing ones mostly pick different nodes."""
    return sha256(f"{virtual_cluster_id}/{node_id}".encode()).digest()


def _recommended(
    kept: Mapping[str, Sequence[Node]], claimed: Mapping[str, Sequence[Node]], room: int
) -> dict[str, int]:
    """What would succeed: all that is kept, and of what is free as much as one transaction has room for."""
    recommended = {}
    for node_type, nodes in kept.items():
        added = min(len(claimed[node_type]), room)
        recommended[node_type] = len(nodes) + added
        room -= added
    return recommended


def _require_few(changed: int) -> None:
    if changed > MAX_CHANGED_NODES:
        msg = f"one request must change at most {MAX_CHANGED_NODES} nodes, this one changes {changed}"
        raise TooManyChanges(msg, changedNodes=changed, maxChangedNodes=MAX_CHANGED_NODES)


def _freed(node: Node, now: int) -> Node:
    return replace(node, virtual_cluster="", revision=next_revision(now, node.revision))


def _claims(now: int, after: VirtualCluster, change: _Change) -> list[Put]:
    claims = [
        Put(replace(node, virtual_cluster=after.id, revision=next_revision(now, node.revision)), was=node)
        for node in change.claimed
    ]
    return claims + [Put(_freed(node, now), was=node) for node in change.freed]
