"""A node: the record of one machine of a cluster, whether or not an instance stands behind it yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from paddock.model.identity import operation_of


class NodeStatus(StrEnum):
    """Where a node is. End states are spelled as in ``TargetState``."""

    OFF = "Off"
    ACQUIRING = "Acquiring"
    PREPARING = "Preparing"
    READY = "Ready"
    DEALLOCATED = "Deallocated"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    FAILED = "Failed"


class TargetState(StrEnum):
    """Where a node shall be."""

    STARTED = "Started"
    DEALLOCATED = "Deallocated"
    TERMINATED = "Terminated"
    OFF = "Off"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """All that a launch needs, as the definition said when the nodes were asked for. ``memory`` in GB."""

    node_array: str
    bucket_id: str
    machine_type: str
    instance_type: str
    template_id: str
    vcpu_count: int
    memory: float
    interruptible: bool
    launch_template_id: str
    launch_template_version: str
    subnet_ids: tuple[str, ...]
    price_per_hour: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node. Times are in ns since the epoch, 0 for never.

    ``counted`` says whether it uses up limits: until its instance is gone, or was never launched.
    ``virtual_cluster`` is a claim; the virtual cluster's own record is the truth about who holds the node.
    ``unseen_since`` is when the cloud first failed to show its instance, in a row.
    """

    id: str
    cluster: str
    name: str
    revision: int
    spec: LaunchSpec
    status: NodeStatus
    target_state: TargetState = TargetState.STARTED
    status_message: str = ""
    counted: bool = True
    placement_group_id: str = ""
    request_id: str = ""
    keep_alive: bool = False
    attributes: dict[str, Any] = field(default_factory=dict)
    configuration: dict[str, Any] = field(default_factory=dict)
    instance_id: str = ""
    hostname: str = ""
    dns_name: str = ""
    private_ip: str = ""
    virtual_cluster: str = ""
    created_at: int = 0
    launched_at: int = 0
    ready_at: int = 0
    unseen_since: int = 0

    @property
    def operation_id(self) -> str:
        """The operation that made this node."""
        return operation_of(self.id)

    @property
    def bucket_id(self) -> str:
        """The bucket whose limits this node uses."""
        return self.spec.bucket_id

    @property
    def template_id(self) -> str:
        """The node type that virtual clusters know this node by."""
        return self.spec.template_id

    @property
    def is_wanted(self) -> bool:
        """Whether nobody has asked for this node's end."""
        return self.target_state is TargetState.STARTED

    @property
    def is_usable(self) -> bool:
        """Whether work can run on this node now, and nobody has asked for its end."""
        return self.status is NodeStatus.READY and self.is_wanted
