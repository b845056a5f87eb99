"""What can go wrong, in the domain's words. ``paddock.http.errors`` alone turns these into status codes.

A client is shown an error's message and its other attributes, those that are not ``None``. The first line of
a docstring is what the API's description says of the error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(eq=False)
class PaddockError(Exception):
    """The root of all expected failures."""

    message: str

    def __str__(self) -> str:
        return self.message


class MalformedBody(PaddockError):
    """The body is not a JSON document."""


@dataclass(eq=False)
class InvalidRequest(PaddockError):
    """The request can be read, but breaks a rule that the message states.

    ``node_types`` are those that the cluster has, where the request named another.
    """

    node_types: Sequence[str] | None = None


@dataclass(eq=False)
class NotFound(PaddockError):
    """There is no such cluster, operation, virtual cluster or route."""

    virtual_cluster_id: str | None = None


@dataclass(eq=False, kw_only=True)
class MethodNotAllowed(PaddockError):
    """The route exists, but not for this method. ``allow`` are those that it takes."""

    allow: Sequence[str]


@dataclass(eq=False, kw_only=True)
class RevisionConflict(PaddockError):
    """The write was based on a revision that is not the current one.

    ``revision`` is current, 0 where there is none.
    """

    revision: int
    virtual_cluster_id: str | None = None


@dataclass(eq=False, kw_only=True)
class DuplicateRequest(PaddockError):
    """The request id was used before.

    ``operation_id`` is the operation that it started.
    """

    operation_id: str
    request_id: str


@dataclass(eq=False, kw_only=True)
class ImmutableAttribute(PaddockError):
    """An attribute that is set for life was to be changed."""

    attribute: str


@dataclass(eq=False, kw_only=True)
class NodesInUse(PaddockError):
    """The change would take something away that nodes still use.

    One of the attributes says what uses it.
    """

    node_count: int | None = None
    placement_groups: Sequence[str] | None = None
    buckets: Sequence[str] | None = None


@dataclass(eq=False, kw_only=True)
class InsufficientNodes(PaddockError):
    """Too few nodes are free or can be launched.

    ``replica_sets_to_recommend`` would succeed now.
    """

    replica_sets_to_recommend: Mapping[str, int]
    missing: Mapping[str, int]


class RecordTooLarge(PaddockError):
    """The request would make a record larger than one item can be."""


class Transient(PaddockError):
    """A failure that passes by itself: the same call may succeed later, and no traceback is logged."""


class Busy(Transient):
    """Others kept winning the race for the same records; nothing was changed, trying again is right."""


class TransientStore(Transient):
    """The store's passing failures."""


class StoreThrottled(TransientStore):
    """The store asks for fewer calls."""


class StoreUnavailable(TransientStore):
    """The store did not answer, or failed. A write may or may not have been done."""


class WorkflowsUnavailable(Transient):
    """The workflow service did not take the call; the reconciler makes up for it."""


@dataclass(eq=False)
class TransientCompute(Transient):
    """The cloud's passing failures. ``code`` is the cloud's code, where it answered."""

    code: str | None = None


class ComputeThrottled(TransientCompute):
    """The cloud asks for fewer calls. Nothing was done."""


class ComputeUnavailable(TransientCompute):
    """The cloud did not answer, or failed. What was asked for may or may not have happened."""


@dataclass(eq=False, kw_only=True)
class LaunchRefused(PaddockError):
    """The cloud will not serve this launch, now or later. ``code`` is the cloud's code."""

    code: str
