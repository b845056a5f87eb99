"""What the API replies, as closed models: a field that no model has here is a field without documentation.

The handlers make their replies as plain dictionaries (``paddock.http.views``), so these models cost
no request anything. ``tests/unit/test_openapi.py`` holds every reply of every route to them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel, to_pascal

from paddock.model.base import MAX_REVISION
from paddock.model.definition import ClusterDefinition, ValidClusterName
from paddock.model.node import NodeStatus, TargetState
from paddock.model.operation import Action, OperationState
from paddock.model.virtual_cluster import AllocationMode, ConditionReason

# Of a field that a reply may lack.
ABSENT: Any = None
Number = Annotated[int, Field(ge=0)]
RevisionNumber = Annotated[int, Field(ge=0, le=MAX_REVISION)]


class Reply(BaseModel):
    """A reply, or an object in one. A field without a default is always there."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", populate_by_name=False)


class Health(Reply):
    """The API answers."""

    status: Literal["ok"]
    """Always `ok`."""


class OpenApiDocument(BaseModel):
    """This document."""

    model_config = ConfigDict(extra="allow")

    openapi: str
    """The version of the OpenAPI Specification."""
    info: dict[str, JsonValue]
    """What the API is, and its version."""
    paths: dict[str, JsonValue]
    """Each path with its operations."""


class Cluster(ClusterDefinition):
    """A cluster with its definition, as it was put, completed with EC2's facts about its machine types."""

    name: ValidClusterName
    """The cluster's name."""
    revision: RevisionNumber
    """Changes with each write; the next write names it. `ETag` has it too."""


class ClusterList(Reply):
    """Clusters by name."""

    clusters: list[Cluster]
    """The clusters, by name."""
    next_token: str = ABSENT
    """Only where there are more: `?nextToken=` goes on from here."""


class ClusterDeletion(Reply):
    """That a cluster is gone."""

    name: ValidClusterName
    """The cluster's name."""
    deleted: Literal[True]
    """Always true."""


class BucketMachine(Reply):
    """Which machine type a bucket offers."""

    machine_type: str
    """The name of the machine type."""


class PlacementGroup(Reply):
    """A placement group and how full it is."""

    name: str
    """Its name, as requests give it."""
    active_count: Number
    """Nodes in it."""
    active_core_count: Number
    """The vCPU of these nodes."""


class VirtualMachine(Reply):
    """What one node of a bucket has."""

    vcpu_count: Number
    """The vCPU."""
    pcpu_count: Number
    """Physical cores."""
    gpu_count: Number
    """GPUs."""
    memory: Annotated[float, Field(ge=0)]
    """Memory in GB."""
    infiniband: bool
    """Whether it has EFA."""


class BucketStatus(Reply):
    """One machine type of a node array: what it holds, and what it can still take."""

    bucket_id: str
    """Stable for the cluster's life."""
    definition: BucketMachine
    """Which machine type it offers."""
    max_count: Number
    """The most nodes that all limits together allow; it does not move as nodes come and go."""
    max_core_count: Number
    """`maxCount` in vCPU."""
    active_count: Number
    """Nodes that count: all but those that are Off, Deallocated or ended."""
    active_core_count: Number
    """`activeCount` in vCPU."""
    available_count: Number
    """Nodes that could be added now: what is left of the limit that leaves least."""
    available_core_count: Number
    """`availableCount` in vCPU."""
    quota_count: Number
    """Nodes that the bucket's own quota allows."""
    quota_core_count: Number
    """The vCPU that the bucket's own quota allows."""
    consumed_core_count: Number
    """How much of `quotaCoreCount` is used."""
    family_quota_count: Number
    """Nodes that the quotas of the family's buckets allow together; for spot 0, which limits nothing."""
    family_quota_core_count: Number
    """The same in vCPU."""
    family_consumed_core_count: Number
    """How much of `familyQuotaCoreCount` is used."""
    regional_quota_count: Number
    """Nodes that the quotas of all buckets of the market, on demand or spot, allow together."""
    regional_quota_core_count: Number
    """The same in vCPU."""
    regional_consumed_core_count: Number
    """How much of `regionalQuotaCoreCount` is used."""
    max_placement_group_size: Number
    """The most nodes in one placement group."""
    max_placement_group_core_size: Number
    """The same in vCPU."""
    placement_groups: list[PlacementGroup]
    """The bucket's placement groups, by name."""
    active_nodes: list[str] = ABSENT
    """Names of the nodes that count; only with `nodes=true`."""
    valid: bool
    """Whether the bucket can be used."""
    invalid_reason: str
    """Why not; empty where it can."""
    last_capacity_failure: float
    """Seconds since EC2 had too little capacity for it; -1 for never."""
    virtual_machine: VirtualMachine
    """What one node has."""


class NodeArrayRecord(BaseModel):
    """The template record of a node array, in the names that autoscalers read."""

    model_config = ConfigDict(alias_generator=to_pascal, extra="forbid")

    name: str
    """The name of the node array."""
    region: str
    """The Region."""
    subnet_id: str
    """The first subnet."""
    subnet_ids: list[str]
    """All subnets."""
    availability_zones: dict[str, str | None]
    """The zone of each subnet; null where it is not known."""
    machine_type: list[str]
    """The machine types, in the order in which they are tried."""
    interruptible: bool
    """Whether its instances are spot instances."""
    throttle_capacity: bool
    """Whether nothing is offered for five minutes after EC2 had no capacity."""
    max_count: Number
    """The most active nodes."""
    max_core_count: Number
    """The most vCPU."""
    launch_template_id: str
    """The EC2 launch template."""
    configuration: dict[str, JsonValue]
    """What each of its nodes has as `Configuration`."""


class NodeArrayStatus(Reply):
    """A node array with the status of its buckets."""

    name: str
    """The name of the node array."""
    max_count: Number
    """The most active nodes."""
    max_core_count: Number
    """The most vCPU."""
    nodearray: NodeArrayRecord
    """The template record."""
    buckets: list[BucketStatus]
    """Its buckets, in the definition's order."""


class Node(BaseModel):
    """A node. Attributes that a client gave it beside these are here too, under their names."""

    model_config = ConfigDict(alias_generator=to_pascal, extra="allow")

    name: str
    """Unique in the cluster as long as the node exists."""
    node_id: str
    """Never used for another node."""
    template: str
    """The name of the node array."""
    machine_type: str
    """The name of the machine type."""
    status: NodeStatus
    """Where the node is."""
    state: NodeStatus | TargetState
    """As `Status`, but `Started` where that is `Ready`."""
    target_state: TargetState
    """Where the node shall be."""
    status_message: str
    """Why it is where it is; mostly empty."""
    hostname: str | None
    """The short host name, while it has an instance."""
    private_ip: str | None
    """The private address, while it has an instance."""
    instance_id: str | None
    """The EC2 instance, while it has one."""
    core_count: Number
    """The vCPU."""
    memory: Annotated[float, Field(ge=0)]
    """Memory in GB."""
    placement_group_id: str | None
    """The placement group, if it is in one."""
    interruptible: bool
    """Whether its instance is a spot instance."""
    keep_alive: bool
    """Whether terminate, shutdown and deallocate leave it alone."""
    configuration: dict[str, JsonValue]
    """Free-form settings, for what runs on the node."""
    request_id: str | None
    """The request id with which it was created."""
    virtual_cluster: str | None
    """The virtual cluster that it is in or is launched for."""


class ClusterStatus(Reply):
    """What a cluster holds, and can still take."""

    state: Literal["Started"]
    """Always `Started`."""
    target_state: Literal["Started"]
    """Always `Started`."""
    max_count: Number
    """The most active nodes."""
    max_core_count: Number
    """The most vCPU."""
    nodearrays: list[NodeArrayStatus]
    """On demand first, then spot."""
    nodes: list[Node] = ABSENT
    """All nodes that are not Off; only with `nodes=true`."""
    next_token: str = ABSENT
    """Only where `nodes` had no room for all: the list of nodes goes on from here."""


class OperationProgress(Reply):
    """How many of an operation's nodes are where."""

    total: Number
    """Nodes that it is about."""
    succeeded: Number
    """Nodes that have reached what it wants."""
    failed: Number
    """Nodes that will not."""
    running: Number
    """Nodes that have not got there yet."""


class OperationNode(Reply):
    """A node of an operation."""

    id: str
    """Its id."""
    name: str
    """Its name."""
    status: NodeStatus
    """Where it is."""


class OperationStatus(Reply):
    """How far an operation is, or how it ended."""

    action: Action
    """What it does."""
    start_time: AwareDatetime
    """When it began."""
    operation_id: str
    """Its id."""
    cluster: ValidClusterName
    """Whose nodes it is about."""
    request_id: str | None
    """The request id that started it."""
    state: OperationState
    """Running, or how it ended."""
    finish_time: AwareDatetime | None
    """When it ended."""
    progress: OperationProgress
    """How many nodes are where."""
    nodes: list[OperationNode]
    """Its nodes, as far as they still exist."""
    error: str | None
    """Why it did not do all that was asked."""


class NodeList(Reply):
    """Nodes of a cluster, in the order of their creation."""

    nodes: list[Node]
    """The nodes."""
    operation: OperationStatus = ABSENT
    """Only where the query names an operation or a request id."""
    next_token: str = ABSENT
    """Only where there are more: `?nextToken=` goes on from here."""


class AddedSet(Reply):
    """What came of one set."""

    added: Number
    """How many nodes were added."""
    message: str = ABSENT
    """Why it is not as many as were asked for."""


class NodeCreationResult(Reply):
    """What a request for nodes started, and how many it added."""

    operation_id: str
    """The operation that launches them."""
    sets: list[AddedSet]
    """What came of each set, in the request's order."""


class NodeResult(Reply):
    """What became of one selected node."""

    name: str
    """Its name."""
    id: str
    """Its id."""
    status: Literal["OK", "Error"]
    """Whether the action will be done."""
    error: str = ABSENT
    """Why not."""


class NodeManagementResult(Reply):
    """What an action started, and which nodes it is about."""

    operation_id: str
    """The operation that does it."""
    nodes: list[NodeResult]
    """Each selected node; a selector that matches nothing adds none."""


class RetryResult(Reply):
    """What a retry started."""

    operation_id: str
    """The operation that launches the nodes."""


class SelfPeer(BaseModel):
    """Another node of the same placement group."""

    model_config = ConfigDict(alias_generator=to_pascal, extra="forbid")

    name: str
    """Its name."""
    private_ip: str
    """Its private address."""


class Self(BaseModel):
    """Which node an instance is."""

    model_config = ConfigDict(alias_generator=to_pascal, extra="forbid")

    name: str
    """The node's name."""
    node_id: str
    """Its id."""
    cluster_name: ValidClusterName
    """Its cluster."""
    template: str
    """Its node array."""
    machine_type: str
    """Its machine type."""
    placement_group_id: str | None
    """Its placement group, if it is in one."""
    virtual_cluster: str | None
    """The virtual cluster that it is in or is launched for."""
    configuration: dict[str, JsonValue]
    """Its free-form settings."""
    peers: Annotated[list[SelfPeer], Field(alias="peers")]
    """The other nodes of its placement group that have an address."""


class UsageAmounts(Reply):
    """Time and cost."""

    hours: Annotated[float, Field(ge=0)]
    """Core-hours."""
    cost: Annotated[float, Field(ge=0)] = ABSENT
    """In $; only where the price of each machine is known."""


class UsageTotal(UsageAmounts):
    """All use of the cluster in a slot of time."""

    category: Literal["cluster"]
    """Always `cluster`."""


class UsageDetail(UsageAmounts):
    """The use of one machine type."""

    vm_size: Annotated[str, Field(alias="vm_size")]
    """The machine type."""
    core_count: Annotated[int, Field(alias="core_count", ge=0)]
    """The vCPU of one machine."""
    region: str
    """The Region."""
    priority: Literal["Regular", "Spot"]
    """On demand or spot."""


class NodeArrayUsage(UsageAmounts):
    """The use of a node array in a slot of time."""

    category: Literal["nodearray"]
    """Always `nodearray`."""
    node: str
    """The name of the node array."""
    details: list[UsageDetail]
    """The same by machine type."""


class NodeUsage(UsageAmounts):
    """The use of a node in a slot of time; it is in its node array's too."""

    category: Literal["node"]
    """Always `node`."""
    node: str
    """The node's name."""
    node_id: str
    """The node's id."""
    nodearray: str
    """The node array."""


class UsageSlot(Reply):
    """A slot of time."""

    start: AwareDatetime
    """When it begins."""
    end: AwareDatetime
    """When it ends."""
    total: UsageTotal
    """All use of the cluster."""
    breakdown: list[Annotated[NodeArrayUsage | NodeUsage, Field(discriminator="category")]]
    """The same by node array, and then by node."""


class ClusterUsage(Reply):
    """What a cluster's nodes have used."""

    usage: list[UsageSlot]
    """Slots of time, in their order."""
    message: str = ABSENT
    """Only where usage by node was left out, for the reply would be too large."""


class Envelope(Reply):
    """Each reply of the virtual clusters that is no error."""

    result: Literal[True]
    """Always true."""
    msg: str
    """What was done, in words."""


class NodeInstance(Reply):
    """A node in a virtual cluster."""

    hostname: str
    """EC2's private DNS name."""
    template_id: str
    """Its node type."""


class VirtualClusterCondition(Reply):
    """Whether a virtual cluster has all that it asks for."""

    type: Literal["Satisfied"]
    """Always `Satisfied`."""
    status: Literal["True", "False"]
    """Whether it holds."""
    reason: ConditionReason
    """Why, in a word."""
    message: str
    """Why, in a sentence; empty where it holds."""
    last_transition_time: AwareDatetime
    """When `status` last changed."""


class VirtualCluster(Reply):
    """A virtual cluster with its nodes."""

    virtual_cluster_id: str
    """Its id."""
    allocation_mode: AllocationMode
    """Whether a node in it may be shared by several jobs."""
    divisible: bool
    """Whether `allocationMode` is `exclusive`."""
    cluster: ValidClusterName
    """Whose nodes it takes."""
    replica_sets: dict[str, Number]
    """How many nodes of each node type are wanted."""
    pending_replica_sets: dict[str, Number]
    """How many of them are not assigned yet."""
    node_instances: dict[str, NodeInstance]
    """The assigned nodes, by node id."""
    conditions: list[VirtualClusterCondition]
    """Whether it has all that it asks for."""
    revision: RevisionNumber
    """Changes with each write; the next write names it. `ETag` has it too."""


class WrittenVirtualCluster(VirtualCluster):
    """A virtual cluster that was just written."""

    operation_id: str = ABSENT
    """Only where nodes are being launched for it: the operation that does it."""


class VirtualClusterReply(Envelope):
    """One virtual cluster."""

    data: VirtualCluster
    """The virtual cluster."""


class WrittenVirtualClusterReply(Envelope):
    """The virtual cluster that was written."""

    data: WrittenVirtualCluster
    """The virtual cluster."""


class VirtualClusterPage(Reply):
    """Virtual clusters by id."""

    virtual_clusters: list[VirtualCluster]
    """The virtual clusters, by id."""
    next_token: str = ABSENT
    """Only where there are more: `?nextToken=` goes on from here."""


class VirtualClusterListReply(Envelope):
    """A page of virtual clusters."""

    data: VirtualClusterPage
    """The page."""


class VirtualClusterChange(Reply):
    """One change of a virtual cluster."""

    action: str
    """What was done."""
    by: str | None
    """The user that did it; null for Paddock itself."""
    time: AwareDatetime
    """When."""
    revision: RevisionNumber
    """The revision after it."""
    previous_revision: RevisionNumber
    """The revision before it; 0 for none."""
    replica_sets: dict[str, Number]
    """How many nodes of each node type were wanted after it."""
    nodes: Number
    """How many nodes were assigned after it."""
    added_nodes: Number
    """How many nodes it assigned."""
    removed_nodes: Number
    """How many nodes it gave back."""
    message: str
    """Why, where Paddock did it."""


class VirtualClusterHistory(Reply):
    """Changes of a virtual cluster, latest first."""

    virtual_cluster_id: str
    """Its id."""
    changes: list[VirtualClusterChange]
    """The changes, latest first."""
    next_token: str = ABSENT
    """Only where there may be more: `?nextToken=` goes on from here."""


class VirtualClusterHistoryReply(Envelope):
    """A page of a virtual cluster's history."""

    data: VirtualClusterHistory
    """The page."""


class VirtualClusterDeletion(Reply):
    """That a virtual cluster is gone."""

    virtual_cluster_id: str
    """Its id."""
    revision: RevisionNumber
    """A revision above its last one."""
    operation_id: str = ABSENT
    """Only with `terminate=true`: the operation that ends its nodes."""


class VirtualClusterDeletionReply(Envelope):
    """The virtual cluster that was deleted."""

    data: VirtualClusterDeletion
    """Which one."""
