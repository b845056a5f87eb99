"""A virtual cluster: a named claim on nodes of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

# How long a deleted virtual cluster's last revision is remembered, so that a revision never comes back.
TOMBSTONE_NS = 24 * 3600 * 1_000_000_000


class AllocationMode(StrEnum):
    """Whether a node inside a virtual cluster may be shared by several jobs, or goes to one alone."""

    MIXED = "mixed"
    EXCLUSIVE = "exclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInstance:
    """An assigned node as a virtual cluster's reader sees it."""

    hostname: str
    template_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualCluster:
    """What was asked for (``replica_sets``, node type to count) and what is assigned, by node id.

    A deleted one stays as a tombstone until ``expires_at`` (ns).
    """

    id: str
    cluster: str
    revision: int
    allocation_mode: AllocationMode = AllocationMode.MIXED
    replica_sets: dict[str, int] = field(default_factory=dict)
    node_instances: dict[str, NodeInstance] = field(default_factory=dict)
    deleted: bool = False
    expires_at: int = 0
