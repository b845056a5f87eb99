"""A cluster's definition: what its owner wants it to be able to hold."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Self
from uuid import UUID, uuid5

from pydantic import BeforeValidator, Field, JsonValue, StringConstraints, model_validator

from paddock.model.base import MAX_NODES, Count, Document
from paddock.model.wording import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BUCKETS = 200
MAX_CONFIGURATION_BYTES = 16_384
_BUCKET_NAMESPACE = UUID("6f1d2c1e-6d0b-4d53-9a3c-0a6d7c1d5b42")

CLUSTER_NAME = r"^[A-Za-z0-9]([A-Za-z0-9 _.-]{0,126}[A-Za-z0-9_.-])?$"
ClusterName = Annotated[str, StringConstraints(pattern=CLUSTER_NAME)]
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
    """An EC2 launch template made beforehand; ``version`` is a number, ``$Latest`` or ``$Default``."""

    launch_template_id: Annotated[str, StringConstraints(pattern=r"^lt-[0-9a-f]{8,32}$")]
    version: Annotated[str, StringConstraints(pattern=r"^(\$Latest|\$Default|[1-9][0-9]{0,9})$")] = "$Default"


class Bucket(Document):
    """One machine type of a node array, with its own limits. ``memory`` is in GB, ``price_per_hour`` free."""

    machine_type: MachineType
    instance_type: InstanceType = ""
    template_id: NodeType = ""
    vcpu_count: Annotated[int, Field(ge=1, le=100_000)] | None = None
    pcpu_count: Annotated[int, Field(ge=1, le=100_000)] | None = None
    memory: Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)] | None = None
    gpu_count: Annotated[int, Field(ge=0, le=1_000)] | None = None
    infiniband: bool | None = None
    max_count: Count | None = None
    quota_core_count: Count | None = None
    max_placement_group_size: Annotated[int, Field(ge=1, le=10_000)] | None = None
    price_per_hour: Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)] | None = None

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
    max_count: Count | None = None
    max_core_count: Count | None = None
    interruptible: bool = False
    throttle_capacity: bool = False
    tag_instances: bool = False
    region: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,32}$")] | None = None
    subnet_ids: Annotated[tuple[SubnetId, ...], Field(min_length=1, max_length=16, strict=False)]
    launch_template: LaunchTemplate
    configuration: dict[str, JsonValue] = Field(default_factory=dict)
    buckets: Annotated[tuple[Bucket, ...], Field(min_length=1, strict=False)]

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
    max_core_count: Count | None = None
    idle_timeout_seconds: Count = 0
    nodearrays: Annotated[tuple[NodeArray, ...], Field(max_length=50, strict=False)]

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
def bucket_id(cluster: str, node_array: str, machine_type: str) -> str:
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
