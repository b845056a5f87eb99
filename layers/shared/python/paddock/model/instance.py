"""An instance: a machine as the cloud shows it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from paddock.model.identity import ClusterName, InstanceId, NodeId, OperationId


class InstanceState(StrEnum):
    """EC2's names for the life of an instance."""

    PENDING = "pending"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    SHUTTING_DOWN = "shutting-down"
    TERMINATED = "terminated"

    @property
    def is_ending(self) -> bool:
        """Whether it has ended, or will without being asked again."""
        return self in (InstanceState.SHUTTING_DOWN, InstanceState.TERMINATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One instance as the cloud describes it. Addresses are empty until the cloud has given them.

    ``launched_at`` is in ns since the epoch. ``cluster``, ``operation_id`` and ``batch`` (the client token of
    the launch) come from its launch, and are empty if this deployment did not launch it. ``node_id`` and
    ``name`` were given by ``tag``.
    """

    id: InstanceId
    state: InstanceState
    private_ip: str = ""
    private_dns_name: str = ""
    public_dns_name: str = ""
    state_reason: str = ""
    launched_at: int = 0
    cluster: ClusterName = ClusterName("")
    operation_id: OperationId = OperationId("")
    batch: str = ""
    node_id: NodeId = NodeId("")
    name: str = ""
