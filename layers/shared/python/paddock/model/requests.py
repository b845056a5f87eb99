"""What clients send, as strict documents."""

from __future__ import annotations

import re
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, JsonValue, StringConstraints, field_validator, model_validator

from paddock.model.base import Count, Document, Revision
from paddock.model.definition import ClusterDefinition, ClusterName, MachineType, NodeType, Word, must_fit
from paddock.model.filters import parse_filter
from paddock.model.names import PLACEHOLDER
from paddock.model.node import ShutdownPolicy
from paddock.model.virtual_cluster import AllocationMode
from paddock.model.wording import listed, quoted

MAX_SELECTED = 10_000
MAX_SETS = 1_000

_REQUEST_ID = r"^[!-~]([ -~]{0,126}[!-~])?$"
_VIRTUAL_CLUSTER_ID = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$"
RequestId = Annotated[str, StringConstraints(pattern=_REQUEST_ID)]
NameFormat = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9%][A-Za-z0-9_.%-]{0,62}$")]
VirtualClusterId = Annotated[str, StringConstraints(pattern=_VIRTUAL_CLUSTER_ID)]
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

    name: ClusterName | None = None
    revision: Revision | None = None

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


class BucketChoice(Document):
    """Which bucket of a node array."""

    machine_type: MachineType


class NodeSet(Document):
    """One line of a create request. ``name_offset`` is the first number that a name may have."""

    count: Count
    nodearray: Word
    definition: BucketChoice | None = None
    name_format: NameFormat | None = None
    name_offset: Annotated[int, Field(ge=0, le=100_000_000)] = 1
    node_attributes: dict[str, JsonValue] = Field(default_factory=dict)
    placement_group_id: Word | None = None

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


class NodeCreationRequest(Document):
    """The body of ``nodes/create``."""

    request_id: RequestId | None = None
    sets: Annotated[tuple[NodeSet, ...], Field(min_length=1, max_length=MAX_SETS, strict=False)]


class ScaleRequest(Document):
    """What ``scale/{nodearray}`` is asked for: a total of nodes or of cores, 0 where neither is given."""

    request_id: RequestId | None = None
    total_core_count: Count | None = None
    total_node_count: Count | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if None not in (self.total_core_count, self.total_node_count):
            msg = "the request must have totalCoreCount or totalNodeCount, not both"
            raise ValueError(msg)
        return self


class NodeManagementRequest(Document):
    """The body of ``nodes/terminate`` and the other actions: a union of selectors, at least one.

    ``force``: also nodes that a virtual cluster holds, which then heals.
    """

    request_id: RequestId | None = None
    force: bool = False
    ids: Selectors | None = None
    names: Selectors | None = None
    hostnames: Selectors | None = None
    ip_addresses: Annotated[Selectors | None, Field(alias="ip_addresses")] = None
    filter: str | None = None

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


def _word_as_bool(value: Any) -> Any:
    """Clients send back the words that they read elsewhere: ``"true"``, ``"False"``."""
    words = {"true": True, "false": False}
    return words.get(value.lower(), value) if isinstance(value, str) else value


class VirtualClusterWrite(Document):
    """The body of ``POST /virtual_clusters``."""

    virtual_cluster_id: VirtualClusterId
    allocation_mode: Annotated[AllocationMode, Field(strict=False)] | None = None
    divisible: Annotated[bool, BeforeValidator(_word_as_bool)] | None = None
    replica_sets: dict[NodeType, Count] | None = None
    revision: Revision | None = None
    cluster: ClusterName | None = None
    provision: bool = True
    dry_run: bool = False

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
