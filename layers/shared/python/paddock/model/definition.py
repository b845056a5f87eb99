"""A cluster's definition: what its owner wants it to be able to hold."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Self
from uuid import UUID, uuid5

from pydantic import BeforeValidator, Field, JsonValue, StringConstraints, model_validator

from paddock.model.base import MAX_NODES, Count, Document
from paddock.model.identity import ClusterName
from paddock.model.wording import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BUCKETS = 200
MAX_CONFIGURATION_BYTES = 16_384
_BUCKET_NAMESPACE = UUID("6f1d2c1e-6d0b-4d53-9a3c-0a6d7c1d5b42")

CLUSTER_NAME = r"^[A-Za-z0-9]([A-Za-z0-9 _.-]{0,126}[A-Za-z0-9_.-])?$"
ValidClusterName = Annotated[ClusterName, StringConstraints(pattern=CLUSTER_NAME)]
# Autoscalers match machine types and placement groups against exactly these characters.
Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


def _without_dot(value: Any) -> Any:
    """Machine types are often written as EC2 writes instance types."""
    if isinstance(value, str) and "." in value:
        text = value[:64]
        msg = f"a machine type has no dot: write {text.replace('.', '-')}, and {text} as instanceType"
        raise ValueError(msg)
    return value


def _with_dot(value: Any) -> Any:
    """A machine type is often written in its place; one whose name is free has none of EC2's."""
    if isinstance(value, str) and value and "." not in value:
        text = value[:64]
        hint = f"write {text.replace('-', '.')}" if text.count("-") == 1 else "such as c7i.xlarge"
        msg = f"an instance type has a dot: {hint}"
        raise ValueError(msg)
    return value


MachineType = Annotated[Word, BeforeValidator(_without_dot)]
InstanceType = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9-]{1,32}\.[a-z0-9-]{1,32}$"),
    BeforeValidator(_with_dot),
]
NodeType = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
SubnetId = Annotated[str, StringConstraints(pattern=r"^subnet-[0-9a-f]{8,32}$")]


class LaunchTemplate(Document):
    """An EC2 launch template made beforehand."""

    launch_template_id: Annotated[str, StringConstraints(pattern=r"^lt-[0-9a-f]{8,32}$")]
    """The id, as EC2 shows it: `lt-0123456789abcdef0`."""
    version: Annotated[str, StringConstraints(pattern=r"^(\$Latest|\$Default|[1-9][0-9]{0,9})$")] = "$Default"
    """A number, `$Latest` or `$Default`."""


class Bucket(Document):
    """One machine type of a node array, with its own limits."""

    machine_type: MachineType
    """The name of the machine type, without a dot: `c7i-8xlarge`."""
    instance_type: InstanceType = ""
    """EC2's instance type: `c7i.8xlarge`; left out, the machine type with its first `-` as a dot."""
    template_id: NodeType = ""
    """The node type that virtual clusters ask for; several buckets may share one; left out, the machine
    type."""
    vcpu_count: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """The vCPU of a node; left out, EC2's number."""
    pcpu_count: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Physical cores of a node; left out, EC2's number."""
    memory: Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)] | None = None
    """Memory of a node in GB; left out, EC2's number."""
    gpu_count: Annotated[int, Field(ge=0, le=1_000)] | None = None
    """GPUs of a node; left out, EC2's number."""
    infiniband: bool | None = None
    """Whether a node has EFA; left out, EC2's answer."""
    max_count: Count | None = None
    """The most active nodes; left out, no limit."""
    quota_core_count: Count | None = None
    """The most vCPU; left out, the account's quota."""
    max_placement_group_size: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """The most nodes in one placement group; left out, no limit."""
    price_per_hour: Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)] | None = None
    """$ an hour for a whole machine; left out, usage has no cost."""

    @model_validator(mode="before")
    @classmethod
    def _fill_names(cls, data: Any) -> Any:
        """Let the instance type and the node type follow from the machine type where they are left out."""
        machine_type = data.get("machineType") if isinstance(data, dict) else None
        if not isinstance(machine_type, str):
            return data
        defaults = {"instanceType": machine_type.replace("-", ".", 1), "templateId": machine_type}
        return {**defaults, **{key: value for key, value in data.items() if value is not None}}

    @property
    def cores(self) -> int:
        """The vCPU of one node; 1 while the facts of the machine are not known."""
        return self.vcpu_count or 1

    @property
    def placement_group_size(self) -> int:
        """How many nodes one placement group takes."""
        return MAX_NODES if self.max_placement_group_size is None else self.max_placement_group_size

    @property
    def facts_are_known(self) -> bool:
        """Whether nothing about the machine is left to ask the cloud."""
        facts = (self.vcpu_count, self.pcpu_count, self.memory, self.gpu_count, self.infiniband)
        return None not in facts


class NodeArray(Document):
    """A named group of nodes that are launched alike and differ in machine type only."""

    name: Word
    """Its name in the cluster."""
    max_count: Count | None = None
    """The most active nodes; left out, no limit."""
    max_core_count: Count | None = None
    """The most vCPU; left out, no limit."""
    interruptible: bool = False
    """`true`: spot instances; `false`: on demand."""
    throttle_capacity: bool = False
    """`true`: for five minutes after EC2 had insufficient capacity for a bucket, its `availableCount`
    is 0."""
    tag_instances: bool = False
    """`true`: tag each instance with its node, as `Name` and `paddock:node`."""
    region: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,32}$")] | None = None
    """The Region of the deployment; no other is taken."""
    subnet_ids: Annotated[tuple[SubnetId, ...], Field(min_length=1, max_length=16, strict=False)]
    """Subnets in which nodes may be, each named once; EC2 must know them in this account, shared
    subnets included."""
    launch_template: LaunchTemplate
    """The EC2 launch template of its instances."""
    configuration: dict[str, JsonValue] = Field(default_factory=dict)
    """An object that each node gets as `Configuration`, at most 16,384 bytes."""
    buckets: Annotated[tuple[Bucket, ...], Field(min_length=1, strict=False)]
    """Its buckets, in the order in which they are tried."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        _must_be_unique("machineType", (bucket.machine_type for bucket in self.buckets))
        must_fit("configuration", self.configuration)
        return self

    def bucket(self, machine_type: str) -> Bucket | None:
        """The bucket of this machine type, if the node array has one."""
        return next((bucket for bucket in self.buckets if bucket.machine_type == machine_type), None)


class ClusterDefinition(Document):
    """The whole wish. A limit that is left out does not limit; an ``idle_timeout_seconds`` of 0 is never."""

    max_count: Count | None = None
    """The most active nodes of the cluster; left out, the only limit is 10,000."""
    max_core_count: Count | None = None
    """The most vCPU of the cluster; left out, no limit."""
    idle_timeout_seconds: Count = 0
    """Seconds after which a free node ends that a virtual cluster had; 0 is never."""
    nodearrays: Annotated[tuple[NodeArray, ...], Field(max_length=50, strict=False)]
    """The node arrays, with different names."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        _must_be_unique("nodearrays[].name", (array.name for array in self.nodearrays))
        if sum(len(array.buckets) for array in self.nodearrays) > MAX_BUCKETS:
            msg = f"a cluster must have at most {MAX_BUCKETS} buckets"
            raise ValueError(msg)
        return self

    def array(self, name: str) -> NodeArray | None:
        """The node array of this name, if there is one."""
        return next((array for array in self.nodearrays if array.name == name), None)

    def buckets(self) -> Iterator[tuple[NodeArray, Bucket]]:
        """Every bucket with its node array, in the definition's order."""
        return ((array, bucket) for array in self.nodearrays for bucket in array.buckets)

    def node_types(self) -> list[str]:
        """The node types that virtual clusters may ask for, in the definition's order."""
        return list(dict.fromkeys(bucket.template_id for _, bucket in self.buckets()))


def is_cluster_name(text: str) -> bool:
    """Whether a cluster can have this name at all; anything else need not be looked up."""
    return re.fullmatch(CLUSTER_NAME, text) is not None


# Counting asks for the ids of all buckets once for each bucket.
@lru_cache(maxsize=4_096)
def bucket_id(cluster: ClusterName, node_array: str, machine_type: str) -> str:
    """A bucket's id, the same for as long as the cluster has this machine type in this node array."""
    return str(uuid5(_BUCKET_NAMESPACE, f"{cluster}/{node_array}/{machine_type}"))


def must_fit(name: str, document: dict[str, JsonValue]) -> None:
    """Refuse free-form documents that would make each node's record large. Raises ``ValueError``."""
    if len(json.dumps(document)) > MAX_CONFIGURATION_BYTES:
        msg = f"{name} must be at most {MAX_CONFIGURATION_BYTES} bytes of JSON"
        raise ValueError(msg)


def _must_be_unique(name: str, values: Iterator[str]) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            msg = f"{name} must be unique, {quoted(value)} is there twice"
            raise ValueError(msg)
        seen.add(value)
