"""What can go wrong, in the domain's words. ``paddock.http.errors`` alone turns these into status codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class PaddockError(Exception):
    """The root of all expected failures. ``facts`` is what the client needs to go on; it may be shown."""

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.facts: Mapping[str, Any] = facts


class MalformedBody(PaddockError):
    """The body is not a JSON document."""


class InvalidRequest(PaddockError):
    """The request can be read, but breaks a rule that the message states."""


class NotFound(PaddockError):
    """There is no such cluster, operation, virtual cluster or route."""


class MethodNotAllowed(PaddockError):
    """The route exists, but not for this method."""


class RevisionConflict(PaddockError):
    """The write was based on a revision that is not the current one. ``facts["revision"]`` is current."""


class DuplicateRequest(PaddockError):
    """The request id was used before. ``facts["operationId"]`` is the operation that it started."""


class ImmutableAttribute(PaddockError):
    """An attribute that is set for life was to be changed."""


class NodesInUse(PaddockError):
    """The change would take something away that nodes still use."""


class InsufficientNodes(PaddockError):
    """Too few nodes are free or can be launched. ``facts["replicaSetsToRecommend"]`` would succeed now."""


class Busy(PaddockError):
    """Others kept winning the race for the same records; nothing was changed, trying again is right."""


class RecordTooLarge(PaddockError):
    """The request would make a record larger than one item can be."""


class StoreThrottled(PaddockError):
    """The store asks for fewer calls."""


class StoreUnavailable(PaddockError):
    """The store did not answer, or failed. A write may or may not have been done."""


class WorkflowsUnavailable(PaddockError):
    """The workflow service did not take the call; the reconciler makes up for it."""


class ComputeThrottled(PaddockError):
    """The cloud asks for fewer calls. Nothing was done."""


class ComputeUnavailable(PaddockError):
    """The cloud did not answer, or failed. What was asked for may or may not have happened."""


class LaunchRefused(PaddockError):
    """The cloud will not serve this launch, now or later. ``facts["code"]`` is the cloud's code."""
