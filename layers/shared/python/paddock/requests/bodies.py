"""What clients send, as strict documents."""

from __future__ import annotations

import re
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, JsonValue, StringConstraints, field_validator, model_validator

from paddock.model.base import Count, Document, Revision
from paddock.model.definition import (
    ClusterDefinition,
    MachineType,
    NodeType,
    ValidClusterName,
    Word,
    must_fit,
)
from paddock.model.desired import DesiredNodes, NodeAttributes
from paddock.model.identity import RequestId, VirtualClusterId
from paddock.model.names import PLACEHOLDER
from paddock.model.node import ShutdownPolicy
from paddock.model.virtual_cluster import AllocationMode
from paddock.model.wording import listed, quoted
from paddock.requests.filters import parse_filter

MAX_SELECTED = 10_000
MAX_SETS = 1_000

_REQUEST_ID = r"^[!-~]([ -~]{0,126}[!-~])?$"
_VIRTUAL_CLUSTER_ID = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$"
ValidRequestId = Annotated[RequestId, StringConstraints(pattern=_REQUEST_ID)]
NameFormat = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9%][A-Za-z0-9_.%-]{0,62}$")]
ValidVirtualClusterId = Annotated[VirtualClusterId, StringConstraints(pattern=_VIRTUAL_CLUSTER_ID)]
Selector = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Selectors = Annotated[tuple[Selector, ...], Field(max_length=MAX_SELECTED, strict=False)]


def is_request_id(text: str) -> bool:
    """Whether a request can have this id at all; anything else need not be looked up."""
    return re.fullmatch(_REQUEST_ID, text) is not None


def is_virtual_cluster_id(text: str) -> bool:
    """Whether a virtual cluster can have this id at all; anything else need not be looked up."""
    return re.fullmatch(_VIRTUAL_CLUSTER_ID, text) is not None


class ClusterWrite(ClusterDefinition):
    """The body of a cluster's PUT: its definition, and the revision that it is based on."""

    name: ValidClusterName | None = None
    """The cluster's name, as in the path."""
    revision: Revision | None = None
    """The revision that you read, 0 to create; left out, `If-Match` counts, and without that the
    request creates."""

    def definition(self) -> ClusterDefinition:
        """The definition alone."""
        fields = ClusterDefinition.model_fields
        return ClusterDefinition.model_construct(**{name: getattr(self, name) for name in fields})

    @model_validator(mode="after")
    def _check_subnets(self) -> Self:
        """Clusters were written with repeats once, so it is not for the definition to refuse them."""
        for array in self.nodearrays:
            if len(set(array.subnet_ids)) < len(array.subnet_ids):
                msg = f"subnetIds of node array {quoted(array.name)} must name each subnet once"
                raise ValueError(msg)
        return self


class RevisionOnly(Document):
    """The body that a DELETE may have."""

    revision: Revision | None = None
    """The revision that you read. Left out: `If-Match`, or whatever the revision is."""


class BucketChoice(Document):
    """Which bucket of a node array."""

    machine_type: MachineType
    """The machine type of one of the node array's buckets."""


class NodeSet(Document):
    """One line of a create request."""

    count: Count
    """How many nodes."""
    nodearray: Word
    """The node array's name."""
    definition: BucketChoice | None = None
    """`{"machineType": …}`: this bucket and no other; left out, the first bucket that has room for the
    whole set."""
    name_format: NameFormat | None = None
    """The nodes' names; at most one `%d`, which is a number; left out, `<nodearray>-%d`."""
    name_offset: Annotated[int, Field(ge=0, le=100_000_000)] = 1
    """The first number that a name may have."""
    node_attributes: dict[str, JsonValue] = Field(default_factory=dict)
    """`KeepAlive`, `Fixed`, `StartAutomatically`, `ShutdownPolicy`, `Configuration`; other attributes
    are kept."""
    placement_group_id: Word | None = None
    """The placement group of the nodes; left out, none."""

    def desired(self) -> DesiredNodes:
        """The nodes that the set asks for."""
        return DesiredNodes(
            count=self.count,
            node_array=self.nodearray,
            machine_type=self.definition.machine_type if self.definition else None,
            name_format=self.name_format,
            name_offset=self.name_offset,
            attributes=_attributes_of(self.node_attributes),
            placement_group_id=self.placement_group_id or "",
        )

    @field_validator("name_format")
    @classmethod
    def _check_format(cls, value: str | None) -> str | None:
        if value is not None and value.replace(PLACEHOLDER, "", 1).count("%"):
            msg = f"nameFormat must hold {PLACEHOLDER} at most once, and no other %"
            raise ValueError(msg)
        return value

    @field_validator("node_attributes")
    @classmethod
    def _check_attributes(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        must_fit("nodeAttributes", value)
        for name in ("KeepAlive", "Fixed", "StartAutomatically"):
            if not isinstance(value.get(name, False), bool):
                msg = f"{name} must be true or false"
                raise ValueError(msg)  # noqa: TRY004 - pydantic turns a ValueError into an answer
        if not isinstance(value.get("Configuration", {}), dict):
            msg = "Configuration must be an object"
            raise ValueError(msg)  # noqa: TRY004
        if value.get("ShutdownPolicy", "Terminate") not in tuple(ShutdownPolicy):
            msg = f"ShutdownPolicy must be one of: {listed(ShutdownPolicy)}"
            raise ValueError(msg)
        return value


def _attributes_of(document: dict[str, Any]) -> NodeAttributes:
    """The attributes that a set's ``nodeAttributes`` give, which have been checked."""
    others = dict(document)
    return NodeAttributes(
        keep_alive=others.pop("KeepAlive", False),
        fixed=others.pop("Fixed", False),
        start_automatically=others.pop("StartAutomatically", True),
        shutdown_policy=ShutdownPolicy(others.pop("ShutdownPolicy", ShutdownPolicy.TERMINATE)),
        configuration=others.pop("Configuration", {}),
        others=others,
    )


class NodeCreationRequest(Document):
    """The body of ``nodes/create``."""

    request_id: ValidRequestId | None = None
    """1 to 128 characters; counts once in the cluster, for 30 days. A request without it that is sent
    twice is done twice."""
    sets: Annotated[tuple[NodeSet, ...], Field(min_length=1, max_length=MAX_SETS, strict=False)]
    """The sets, in the order in which limits are applied."""


class ScaleRequest(Document):
    """What ``scale/{nodearray}`` is asked for: a total of nodes or of cores, 0 where neither is given."""

    request_id: ValidRequestId | None = None
    """1 to 128 characters; counts once in the cluster, for 30 days. A request without it that is sent
    twice is done twice."""
    total_core_count: Count | None = None
    """How many vCPU the node array shall have."""
    total_node_count: Count | None = None
    """How many nodes the node array shall have."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if None not in (self.total_core_count, self.total_node_count):
            msg = "the request must have totalCoreCount or totalNodeCount, not both"
            raise ValueError(msg)
        return self


class NodeManagementRequest(Document):
    """The body of ``nodes/terminate`` and the other actions: a union of selectors, at least one."""

    request_id: ValidRequestId | None = None
    """1 to 128 characters; counts once in the cluster, for 30 days. A request without it that is sent
    twice is done twice."""
    force: bool = False
    """`true`: also nodes that a virtual cluster holds."""
    ids: Selectors | None = None
    """Node ids."""
    names: Selectors | None = None
    """Node names."""
    hostnames: Selectors | None = None
    """Short host names."""
    ip_addresses: Annotated[Selectors | None, Field(alias="ip_addresses")] = None
    """Private addresses."""
    filter: str | None = None
    """A condition on attributes: `Status === "Ready" && MachineType === "c7i-xlarge"`."""

    @field_validator("filter")
    @classmethod
    def _check_filter(cls, value: str | None) -> str | None:
        if value is not None:
            parse_filter(value)
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        selectors = (self.ids, self.names, self.hostnames, self.ip_addresses, self.filter)
        if all(selector is None for selector in selectors):
            msg = "the request must select nodes by ids, names, hostnames, ip_addresses or filter"
            raise ValueError(msg)
        return self


_BooleanWord = Annotated[str, StringConstraints(pattern="^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$")]


def _word_as_bool(value: Any) -> Any:
    """Clients send back the words that they read elsewhere: ``"true"``, ``"False"``."""
    words = {"true": True, "false": False}
    return words.get(value.lower(), value) if isinstance(value, str) else value


class VirtualClusterWrite(Document):
    """The body of ``POST /virtual_clusters``."""

    virtual_cluster_id: ValidVirtualClusterId
    """Its id."""
    allocation_mode: Annotated[AllocationMode, Field(strict=False)] | None = None
    """Left out, `mixed`; cannot change."""
    divisible: (
        Annotated[bool, BeforeValidator(_word_as_bool, json_schema_input_type=bool | _BooleanWord)] | None
    ) = None
    """Later name of `allocationMode` in Ray: `true`, `"true"` and `"True"` are `exclusive`, `false` is
    `mixed`; responses have both."""
    replica_sets: dict[NodeType, Count] | None = None
    """Node type to count: `{"4c8g": 2}`; a node type that is left out goes to 0."""
    revision: Revision | None = None
    """The revision that you read, 0 to create; left out, `If-Match` counts, and without that the
    request creates."""
    cluster: ValidClusterName | None = None
    """The cluster whose nodes it takes; left out, the parameter `DefaultCluster`; cannot change."""
    provision: bool = True
    """`false`: only nodes that exist; nothing is launched, now or later."""
    dry_run: bool = False
    """`true`: the response without the effect."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        exclusive = self.allocation_mode is AllocationMode.EXCLUSIVE
        if None not in (self.allocation_mode, self.divisible) and exclusive is not self.divisible:
            msg = "allocationMode must be exclusive if divisible is true, and mixed if it is false"
            raise ValueError(msg)
        return self

    @property
    def mode(self) -> AllocationMode | None:
        """The allocation mode asked for, by either of its names."""
        if self.divisible is None:
            return self.allocation_mode
        return AllocationMode.EXCLUSIVE if self.divisible else AllocationMode.MIXED
