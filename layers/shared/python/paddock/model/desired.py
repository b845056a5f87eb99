"""The nodes that a create shall make, in the domain's words: neither names of a request nor JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from paddock.model.node import ShutdownPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAttributes:
    """The attributes of new nodes. ``others`` are those that Paddock keeps and does not read.

    Nodes without ``start_automatically`` are made Off. ``configuration`` is merged into the node array's.
    """

    keep_alive: bool = False
    fixed: bool = False
    start_automatically: bool = True
    shutdown_policy: ShutdownPolicy = ShutdownPolicy.TERMINATE
    configuration: dict[str, Any] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredNodes:
    """So many nodes of one node array: of the bucket with ``machine_type``, or of any that has room.

    Without a ``name_format`` they are named after the node array; ``name_offset`` is the first number that a
    name may have. Without a ``placement_group_id`` they are in no placement group.
    """

    count: int
    node_array: str
    machine_type: str | None = None
    name_format: str | None = None
    name_offset: int = 1
    attributes: NodeAttributes = NodeAttributes()
    placement_group_id: str = ""
