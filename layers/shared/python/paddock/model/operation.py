"""An operation: one asynchronous change of many nodes, driven to its end by the workflow."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any

from paddock.model.identity import (
    ClusterName,
    NodeId,
    OperationId,
    RequestId,
    VirtualClusterId,
    node_id,
    node_index,
    operation_of,
)
from paddock.model.names import NameSet
from paddock.model.node import LaunchSpec, Node, NodeStatus, ShutdownPolicy, TargetState
from paddock.model.pace import DEFAULT_RATES, Bucket
from paddock.model.time import SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

# The time that an operation gets beside the time that EC2's rates take for its instances.
DEADLINE_NS = 30 * 60 * SECOND_NS
# Reasons are kept with the operation, for so many nodes: they must fit into one record.
MAX_ERRORS = 1_000
# No virtual cluster can have this id.
EVERY_VIRTUAL_CLUSTER = "*"
RETENTION_NS = 30 * 24 * 3600 * SECOND_NS


class Action(StrEnum):
    """What an operation does to its nodes."""

    CREATE = "create"
    START = "start"
    REIMAGE = "reimage"
    RESTART = "restart"
    TERMINATE = "terminate"
    SHUTDOWN = "shutdown"
    DEALLOCATE = "deallocate"
    REMOVE = "remove"


# The former want nodes with running instances; the latter want instances that have ended or stopped.
LAUNCHING = frozenset({Action.CREATE, Action.START, Action.REIMAGE})
ENDING = frozenset({Action.TERMINATE, Action.SHUTDOWN, Action.DEALLOCATE, Action.REMOVE})


_COUNTED_BY: Mapping[Action, tuple[Bucket, ...]] = {
    Action.CREATE: (Bucket.LAUNCH,),
    Action.START: (Bucket.START,),
    Action.REIMAGE: (Bucket.TERMINATE, Bucket.LAUNCH),
    Action.RESTART: (),
    Action.TERMINATE: (Bucket.TERMINATE,),
    Action.SHUTDOWN: (Bucket.TERMINATE,),
    Action.DEALLOCATE: (Bucket.STOP,),
    Action.REMOVE: (Bucket.TERMINATE,),
}


def deadline_of(action: Action, count: int, now: int) -> int:
    """When an operation on so many nodes that begins now shall have ended.

    Half an hour, and what EC2's default rates take. Up to 1,000 nodes: half an hour. A create of 10,000: 75
    minutes more, for 9,000 launches at 2 a second. A termination of 10,000: 7.5 minutes more, at 20 a second.
    """
    seconds = sum(DEFAULT_RATES[bucket].seconds_for(count) for bucket in _COUNTED_BY[action])
    return now + DEADLINE_NS + round(seconds * SECOND_NS)


class OperationState(StrEnum):
    """Running, or how it ended."""

    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    PARTIALLY_SUCCEEDED = "PartiallySucceeded"
    FAILED = "Failed"


# The states that may follow each state; ``None`` is an operation that is not on record. Ended states stay.
TRANSITIONS: Mapping[OperationState | None, AbstractSet[OperationState]] = {
    None: {OperationState.RUNNING, OperationState.SUCCEEDED, OperationState.FAILED},
    OperationState.RUNNING: {
        OperationState.SUCCEEDED,
        OperationState.PARTIALLY_SUCCEEDED,
        OperationState.FAILED,
    },
}


def wrong_transition(was: Operation | None, becomes: Operation | None) -> str:
    """Why an operation may not change so; empty if it may. ``None`` is no record.

    An operation may always stay as it is. Only DynamoDB removes an operation, when it expires.
    """
    before = was.state if was is not None else None
    if becomes is None:
        return f"an operation that is {before} cannot be removed"
    if becomes.state is not before and becomes.state not in TRANSITIONS.get(before, ()):
        return f"an operation cannot go from {before or 'nothing'} to {becomes.state}"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Nodes of one create that differ in id and name only. Their indexes follow each other from ``first``.

    ``may_fall_back``: whether they may go to other buckets of their node array when theirs has no capacity.
    They are launched for ``virtual_cluster``, the one with this ``uid``.
    """

    spec: LaunchSpec
    first: int
    names: dict[str, str]
    placement_group_id: str = ""
    virtual_cluster: VirtualClusterId = VirtualClusterId("")
    virtual_cluster_uid: str = ""
    may_fall_back: bool = field(default=False, metadata={"alias": "movable"})
    keep_alive: bool = False
    fixed: bool = False
    off: bool = False
    shutdown_policy: ShutdownPolicy = ShutdownPolicy.TERMINATE
    attributes: dict[str, Any] = field(default_factory=dict)
    configuration: dict[str, Any] = field(default_factory=dict)


# The most nodes that one launch asks for: well below the 1,000 of an instant fleet, so that a task has time
# to record what it launched.
BATCH_SIZE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchBatch:
    """Nodes that one launch call asks for, written down before the call.

    The nodes are the operation's, from its ``first`` (counted from 1) on, and the i-th of the launched
    instances is the i-th node's, whatever has happened to other nodes since. The call is not made before
    ``not_before`` (ns): then it is the batch's turn in EC2's token bucket.
    The call is made in the place number ``place`` of its specification's ``places_of``.
    """

    number: int
    first: int
    count: int
    spec: LaunchSpec
    placement_group_id: str = ""
    not_before: int = 0
    place: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation. Times are in ns since the epoch, ``finish_time`` 0 while it runs.

    It belongs to the cluster of this name and uid, and to none that bears the name later.

    ``groups`` are the nodes of a create; ``offerings`` the buckets of each node array that has movable ones,
    in the definition's order and as they were when the nodes were asked for. ``node_ids`` (a ``NameSet``
    document) are the nodes of any other action. ``total`` counts the nodes it is about; ``errors`` holds a
    reason for each that cannot be changed now. ``forced``: neither KeepAlive nor a virtual cluster holds
    nodes back, and ``reason`` says why Paddock began it by itself. ``takes_from`` is the ``claim`` of a
    virtual cluster that does not, and ``EVERY_VIRTUAL_CLUSTER`` says that none does. ``recorded``: every node
    of a create has been written down. It is set once, and before that none of them is removed; so a record
    that is not there afterwards was removed, and must not be written again. ``not_before``: until then it
    leaves instances alone. ``awaited`` are operations that were launching its nodes when it began.
    ``firsts`` are the first nodes of its batches, counted from 1. ``launched_to``: none of so many of its
    nodes is still to be launched. ``resolved_to``: so many nodes of a create it has seen to the end of their
    launch. ``throttled``: EC2 launched nothing of its last batch, for its rate was exceeded. ``attempt``
    counts workflow executions.
    """

    id: OperationId
    cluster: ClusterName
    action: Action
    revision: int = 0
    state: OperationState
    start_time: int
    deadline: int
    total: int
    cluster_uid: str = ""
    request_id: RequestId = RequestId("")
    finish_time: int = 0
    attempt: int = 1
    groups: tuple[NodeGroup, ...] = ()
    recorded: bool = False
    offerings: dict[str, tuple[LaunchSpec, ...]] = field(default_factory=dict, metadata={"alias": "offers"})
    node_ids: dict[str, str] = field(default_factory=dict)
    forced: bool = False
    reason: str = ""
    takes_from: str = ""
    not_before: int = 0
    awaited: tuple[OperationId, ...] = ()
    batch: LaunchBatch | None = None
    batches: int = 0
    firsts: tuple[int, ...] = ()
    launched_to: int = 0
    resolved_to: int = field(default=0, metadata={"alias": "settled_to"})
    throttled: bool = False
    succeeded: int = 0
    failed: int = 0
    errors: dict[NodeId, str] = field(default_factory=dict)
    error: str = ""

    @property
    def is_running(self) -> bool:
        """Whether the operation has not ended yet."""
        return self.state is OperationState.RUNNING

    def ids(self) -> list[NodeId]:
        """The ids of the nodes that the operation is about, in its own lasting order."""
        if self.action is Action.CREATE:
            return [node_id(self.id, index) for index in range(1, self.total + 1)]
        return [NodeId(name) for name in sorted(NameSet.from_document(self.node_ids))]

    def client_token(self, batch_number: int) -> str:
        """The ClientToken of a batch's launch; a second call with the same token launches nothing."""
        return f"{self.id}-{batch_number}"

    def first_of(self, client_token: str) -> int | None:
        """The first node of the batch with this token, counted from 1; ``None`` where it is not known."""
        if len(self.firsts) != self.batches:
            # The operation began before batches were listed, so the first of them are missing.
            return None
        firsts = {self.client_token(number): first for number, first in enumerate(self.firsts, start=1)}
        return firsts.get(client_token)

    @property
    def may_lack_records(self) -> bool:
        """Whether nodes of this create may still have to be written down."""
        return self.action is Action.CREATE and self.is_running and not self.recorded

    def with_errors(self, errors: Mapping[NodeId, str]) -> Operation:
        """With these reasons by node, as many as a record holds."""
        return replace(self, errors=dict(islice(errors.items(), MAX_ERRORS)))

    def virtual_clusters(self) -> set[VirtualClusterId]:
        """The virtual clusters that its nodes are launched for."""
        return {group.virtual_cluster for group in self.groups if group.virtual_cluster}

    def group_of(self, node_id: NodeId) -> NodeGroup | None:
        """The group that a node of this create was made in; ``None`` for another operation's node."""
        if operation_of(node_id) != self.id:
            return None
        place = bisect_right(self.groups, node_index(node_id), key=lambda group: group.first) - 1
        return self.groups[place] if place >= 0 else None

    def places_left(self, node: Node) -> tuple[LaunchSpec, ...]:
        """Where a node may go when its bucket has no capacity, in the order in which to try.

        The bucket that was chosen for it came first, then come the others in the definition's order. What is
        left follows from where the node is now, and so no bucket is tried twice.
        """
        group = self.group_of(node.id)
        if group is None or not group.may_fall_back:
            return ()
        chosen = group.spec
        offerings = self.offerings.get(chosen.node_array, ())
        order = (chosen, *(offering for offering in offerings if offering.bucket_id != chosen.bucket_id))
        tried = [offering.bucket_id for offering in order].index(node.bucket_id) + 1
        return order[tried:]

    def planned_nodes(self) -> list[Node]:
        """The records of a create's nodes as they are first written; each call gives the same."""
        return [
            Node(
                id=node_id(self.id, group.first + offset),
                cluster=self.cluster,
                name=name,
                spec=group.spec,
                status=NodeStatus.OFF if group.off else NodeStatus.ACQUIRING,
                target_state=TargetState.OFF if group.off else TargetState.STARTED,
                uses_limits=not group.off,
                placement_group_id=group.placement_group_id,
                virtual_cluster=group.virtual_cluster,
                virtual_cluster_uid=group.virtual_cluster_uid,
                claim_changed_at=self.start_time if group.virtual_cluster else 0,
                provisioned=bool(group.virtual_cluster),
                request_id=self.request_id,
                keep_alive=group.keep_alive,
                fixed=group.fixed,
                shutdown_policy=group.shutdown_policy,
                managing_operation_id=self.id,
                managed_at=self.start_time,
                launching_operation_id=self.id,
                attributes=group.attributes,
                configuration=group.configuration,
            )
            for group in self.groups
            for offset, name in enumerate(NameSet.from_document(group.names))
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedRequestId:
    """The record that a caller's request id was used in a cluster, and the operation that it started."""

    request_id: RequestId
    cluster: ClusterName
    operation_id: OperationId
    revision: int = 0
    cluster_uid: str = ""
