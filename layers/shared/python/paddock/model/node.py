"""A node: the record of one machine of a cluster, whether or not an instance stands behind it yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from paddock.model.configuration import with_defaults
from paddock.model.identity import (
    ClusterName,
    InstanceId,
    NodeId,
    OperationId,
    RequestId,
    VirtualClusterId,
    operation_of,
)


class NodeStatus(StrEnum):
    """Where a node is. End states are spelled as in ``TargetState``; a Terminated node has no record."""

    OFF = "Off"
    ACQUIRING = "Acquiring"
    PREPARING = "Preparing"
    READY = "Ready"
    DEALLOCATED = "Deallocated"
    TERMINATING = "Terminating"
    FAILED = "Failed"


class TargetState(StrEnum):
    """Where a node shall be."""

    STARTED = "Started"
    DEALLOCATED = "Deallocated"
    TERMINATED = "Terminated"
    OFF = "Off"


class ShutdownPolicy(StrEnum):
    """What a shutdown does to a node."""

    TERMINATE = "Terminate"
    DEALLOCATE = "Deallocate"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """All that a launch needs, as the definition said when the nodes were asked for. ``memory`` in GB.

    The commonest values are defaults, which records leave out: a node's has to fit into one write unit.
    ``subnets`` are those of one launch call after another, as ``apart`` puts them. Records written before
    that have ``subnet_ids``, of which no two can go into one call. ``tag_instances``: an instance shall bear
    its node's name and id.
    """

    node_array: str
    bucket_id: str
    machine_type: str
    instance_type: str
    template_id: str
    vcpu_count: int
    memory: float
    interruptible: bool = False
    launch_template_id: str
    launch_template_version: str = "$Default"
    subnet_ids: tuple[str, ...] = ()
    price_per_hour: float | None = None
    subnets: tuple[tuple[str, ...], ...] = ()
    tag_instances: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node. Times are in ns since the epoch, 0 for never.

    ``uses_limits`` says whether it uses up limits: until its instance is gone, or was never launched.
    ``virtual_cluster`` is a claim of the virtual cluster with that name and uid, made or given up at
    ``claim_changed_at``; the virtual cluster's own record is the truth about which nodes it holds.
    ``unseen_since`` is when the cloud first failed to show its instance, in a row. A ``fixed`` node stays as
    Off when its instance has ended. ``replaced_instance_id`` is an instance that must end before another is
    launched. ``managing_operation_id`` is the last operation that took hold of the node, begun at
    ``managed_at``; ``launching_operation_id`` the one that gets it an instance, now in that of its bucket's
    ``places_of`` which ``launch_place`` counts. A ``provisioned`` node was launched for a virtual cluster,
    and no client knows it by name. A node that ``was_held`` is or was in a virtual cluster.
    """

    id: NodeId
    cluster: ClusterName
    name: str
    revision: int = 0
    spec: LaunchSpec
    status: NodeStatus
    target_state: TargetState = TargetState.STARTED
    status_message: str = ""
    uses_limits: bool = field(default=True, metadata={"alias": "counted"})
    placement_group_id: str = ""
    request_id: RequestId = RequestId("")
    keep_alive: bool = False
    fixed: bool = False
    shutdown_policy: ShutdownPolicy = ShutdownPolicy.TERMINATE
    attributes: dict[str, Any] = field(default_factory=dict)
    configuration: dict[str, Any] = field(default_factory=dict)
    managing_operation_id: OperationId = field(default=OperationId(""), metadata={"alias": "managed_by"})
    managed_at: int = 0
    launching_operation_id: OperationId = field(default=OperationId(""), metadata={"alias": "launcher"})
    instance_id: InstanceId = InstanceId("")
    replaced_instance_id: InstanceId = InstanceId("")
    hostname: str = ""
    dns_name: str = ""
    private_ip: str = ""
    virtual_cluster: VirtualClusterId = VirtualClusterId("")
    virtual_cluster_uid: str = ""
    claim_changed_at: int = 0
    provisioned: bool = False
    was_held: bool = False
    launched_at: int = 0
    ready_at: int = 0
    unseen_since: int = 0
    launch_place: int = 0

    def attributes_as_named(self) -> dict[str, Any]:
        """The node under the names that clients read and filter by; ``None`` for what it has not yet.

        Attributes that a client gave of its own stand beside ours, and never in their place.
        """
        return {
            **self.attributes,
            "Name": self.name,
            "NodeId": self.id,
            "Template": self.spec.node_array,
            "MachineType": self.spec.machine_type,
            "Status": self.status,
            # Host factories read here, and not in Status, that a node has reached its TargetState.
            "State": TargetState.STARTED if self.status is NodeStatus.READY else self.status,
            "TargetState": self.target_state,
            "StatusMessage": self.status_message,
            "Hostname": self.hostname or None,
            "PrivateIp": self.private_ip or None,
            "InstanceId": self.instance_id or None,
            "CoreCount": self.spec.vcpu_count,
            "Memory": self.spec.memory,
            "PlacementGroupId": self.placement_group_id or None,
            "Interruptible": self.spec.interruptible,
            "KeepAlive": self.keep_alive,
            "Configuration": with_defaults(self.configuration),
            "RequestId": self.request_id or None,
            "VirtualCluster": self.virtual_cluster or None,
        }

    @property
    def created_by(self) -> OperationId:
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
    def claim(self) -> str:
        """Which virtual cluster claimed it, as that one's ``claim`` tells; empty for none."""
        return self.virtual_cluster_uid or self.virtual_cluster

    @property
    def instance_ids(self) -> list[InstanceId]:
        """All instances that stand behind this node; two of them only while one is replaced."""
        return [instance_id for instance_id in (self.instance_id, self.replaced_instance_id) if instance_id]

    @property
    def is_wanted(self) -> bool:
        """Whether it shall run."""
        return self.target_state is TargetState.STARTED

    @property
    def is_starting(self) -> bool:
        """Whether it is on its way to be Ready."""
        return self.is_wanted and self.status in (NodeStatus.ACQUIRING, NodeStatus.PREPARING)

    @property
    def is_ready(self) -> bool:
        """Whether work can run on this node now, and it shall go on running."""
        return self.status is NodeStatus.READY and self.is_wanted
