"""A virtual cluster: a named claim on nodes of a cluster."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from paddock.model.identity import ClusterName, NodeId, OperationId, VirtualClusterId, new_uid
from paddock.model.names import NameSet
from paddock.model.time import DAY_NS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from paddock.model.node import Node

# How long a deleted virtual cluster's last revision is remembered, so that a revision never comes back.
TOMBSTONE_NS = DAY_NS
HISTORY_RETENTION_NS = 90 * DAY_NS


class AllocationMode(StrEnum):
    """Whether a node inside a virtual cluster may be shared by several jobs, or goes to one alone."""

    MIXED = "mixed"
    EXCLUSIVE = "exclusive"


class ConditionReason(StrEnum):
    """Why a virtual cluster has all that it asks for, or has not."""

    SATISFIED = "Satisfied"
    LAUNCHING = "Launching"
    INSUFFICIENT_NODES = "InsufficientNodes"
    NODES_LOST = "NodesLost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Whether all nodes that were asked for are there, since when (ns), and if not, why.

    ``cause`` is the part of the message that stays true while more is tried.
    """

    reason: ConditionReason = ConditionReason.SATISFIED
    message: str = ""
    since: int = 0
    cause: str = ""

    @property
    def status(self) -> bool:
        """Whether it holds."""
        return self.reason is ConditionReason.SATISFIED

    def changed(self, reason: ConditionReason, message: str, now: int, *, cause: str = "") -> Condition:
        """The condition for this reason; ``since`` moves when the status does."""
        after = Condition(reason=reason, message=message, since=self.since, cause=cause)
        return after if after.status is self.status and self.since else replace(after, since=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInstance:
    """An assigned node as a virtual cluster's reader sees it."""

    hostname: str
    template_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualCluster:
    """The nodes asked for (``replica_sets``, node type to count), and the nodes assigned, by node id.

    ``pending`` are the nodes that are being launched for it, by node type, as ``NameSet`` documents; they are
    assigned once they are Ready, and ``operation_id`` launches the last of them. ``provision`` says whether
    missing nodes may be launched; launches were tried ``attempts`` times by now, and the next does not begin
    before ``retry_at`` (ns). This record alone says which nodes are assigned: every node in
    ``node_instances`` is Ready, and names this virtual cluster as its holder. A deleted virtual cluster stays
    as a tombstone until ``expires_at`` (ns).

    ``cluster_uid`` is the uid of the cluster in which a client last wrote it: it gets no nodes of a later
    cluster of that name.
    ``uid`` distinguishes it from other virtual clusters of its id, before and after it; a tombstone has the
    uid of its successor. A ``reserved`` tombstone is of an id that was never used: a writer that claims nodes
    before it commits has made it, so that its commit is based on a record which other writers can change.
    """

    id: VirtualClusterId
    cluster: ClusterName
    revision: int = 0
    uid: str = ""
    cluster_uid: str = ""
    allocation_mode: AllocationMode = AllocationMode.MIXED
    replica_sets: dict[str, int] = field(default_factory=dict)
    node_instances: dict[NodeId, NodeInstance] = field(default_factory=dict)
    pending: dict[str, dict[str, str]] = field(default_factory=dict)
    provision: bool = True
    condition: Condition = field(default_factory=Condition)
    operation_id: OperationId = OperationId("")
    attempts: int = 0
    retry_at: int = 0
    deleted: bool = False
    reserved: bool = False
    expires_at: int = 0

    def pending_ids(self) -> dict[str, list[NodeId]]:
        """Ids of the nodes that are being launched for it, by node type, oldest first."""
        return {
            name: [NodeId(node_id) for node_id in sorted(NameSet.from_document(ids))]
            for name, ids in self.pending.items()
        }

    def held_ids(self) -> set[NodeId]:
        """Ids of all nodes that it holds: assigned ones, and those that are being launched for it."""
        return {*self.node_instances, *(node_id for ids in self.pending_ids().values() for node_id in ids)}

    @property
    def claim(self) -> str:
        """The mark that its nodes bear: its uid, or its id if it was written before it could have a uid."""
        return self.uid or self.id

    def is_claimant_of(self, node: Node) -> bool:
        """Whether the node bears its claim, and not that of another virtual cluster of the same id."""
        return (node.virtual_cluster, node.virtual_cluster_uid) == (self.id, self.uid)

    def may_take(self, node: Node) -> bool:
        """Whether the node is Ready, and no other virtual cluster has claimed it."""
        return node.is_ready and (not node.virtual_cluster or self.is_claimant_of(node))

    def unassigned(self) -> dict[str, int]:
        """How many nodes of each type are not assigned yet, whether they are being launched or not."""
        assigned = Counter(instance.template_id for instance in self.node_instances.values())
        return _positive({name: count - assigned[name] for name, count in self.replica_sets.items()})

    def missing(self) -> dict[str, int]:
        """How many nodes of each type are neither assigned nor being launched."""
        pending = {name: len(ids) for name, ids in self.pending_ids().items()}
        return _positive({name: count - pending.get(name, 0) for name, count in self.unassigned().items()})

    @property
    def is_unsatisfied(self) -> bool:
        """Whether it wants more nodes than are assigned."""
        return not self.deleted and bool(self.unassigned())

    def with_nodes(self, nodes: Iterable[Node]) -> VirtualCluster:
        """With these nodes assigned."""
        added = {
            node.id: NodeInstance(hostname=node.dns_name, template_id=node.template_id) for node in nodes
        }
        together = {**self.node_instances, **added}
        return replace(self, node_instances=dict(sorted(together.items())))

    def with_pending(self, ids: Mapping[str, Collection[NodeId]]) -> VirtualCluster:
        """With exactly these nodes as being launched, by node type."""
        pending = {name: NameSet(node_ids).to_document() for name, node_ids in ids.items() if node_ids}
        return replace(self, pending=pending)

    def without(self, ids: Collection[NodeId]) -> VirtualCluster:
        """Without these nodes, assigned or being launched."""
        gone = set(ids)
        left = {node_id: instance for node_id, instance in self.node_instances.items() if node_id not in gone}
        pending = {name: set(node_ids) - gone for name, node_ids in self.pending_ids().items()}
        return replace(self, node_instances=left).with_pending(pending)

    def within_desired(self) -> VirtualCluster:
        """Without surplus nodes: nodes that are being launched go first, then the youngest.

        It has nodes 1 to 4, of which 4 is being launched, and two are desired: 1 and 2 stay.
        """
        excess: list[NodeId] = []
        pending = self.pending_ids()
        for name in {*pending, *(instance.template_id for instance in self.node_instances.values())}:
            # Ids follow each other in time.
            mine = sorted(
                node_id for node_id, instance in self.node_instances.items() if instance.template_id == name
            )
            wanted = self.replica_sets.get(name, 0)
            excess += [*mine, *pending.get(name, ())][wanted:]
        return self.without(excess)


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualClusterChange:
    """One change of a virtual cluster: its previous and new revision, time (ns), writer and action.

    ``by`` is a user's name, or empty for Paddock itself. ``nodes`` are assigned after it, ``added`` and
    ``removed`` by it. ``replica_sets`` are the nodes that were desired then.
    """

    virtual_cluster: VirtualClusterId
    revision: int = 0
    previous: int
    at: int
    action: str
    by: str = ""
    message: str = ""
    replica_sets: dict[str, int] = field(default_factory=dict)
    nodes: int = 0
    added: int = 0
    removed: int = 0


def tombstone(virtual_cluster_id: VirtualClusterId, cluster: ClusterName, now: int) -> VirtualCluster:
    """The record that remembers a deleted virtual cluster's revision, so that it is not used again."""
    return VirtualCluster(
        id=virtual_cluster_id,
        cluster=cluster,
        uid=new_uid(),
        deleted=True,
        expires_at=now + TOMBSTONE_NS,
    )


def change_between(
    before: VirtualCluster | None,
    after: VirtualCluster,
    action: str,
    now: int,
    *,
    by: str = "",
    message: str = "",
) -> VirtualClusterChange:
    """The record of a change; it gets its revision when it is written together with ``after``."""
    had = set(before.node_instances) if before and not before.deleted else set()
    has = set(after.node_instances)
    return VirtualClusterChange(
        virtual_cluster=after.id,
        previous=before.revision if before and not before.deleted else 0,
        at=now,
        action=action,
        by=by,
        message=message,
        replica_sets=after.replica_sets,
        nodes=len(has),
        added=len(has - had),
        removed=len(had - has),
    )


def _positive(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count > 0}
