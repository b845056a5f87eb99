"""The one table from errors to status codes and stable words, and each surface's way to say them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pydantic.alias_generators import to_camel

from paddock import errors
from paddock.errors import PaddockError
from paddock.http.reply import Reply, etag

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_RETRY_AFTER_SECONDS = "5"

# An error is reported as the first of its types, its own and its ancestors', that stands here.
STATUS: Mapping[type[Exception], HTTPStatus] = {
    errors.MalformedBody: HTTPStatus.BAD_REQUEST,
    errors.InvalidRequest: HTTPStatus.BAD_REQUEST,
    errors.RecordTooLarge: HTTPStatus.BAD_REQUEST,
    errors.NotFound: HTTPStatus.NOT_FOUND,
    errors.MethodNotAllowed: HTTPStatus.METHOD_NOT_ALLOWED,
    errors.RevisionConflict: HTTPStatus.CONFLICT,
    errors.DuplicateRequest: HTTPStatus.CONFLICT,
    errors.ImmutableAttribute: HTTPStatus.CONFLICT,
    errors.NodesInUse: HTTPStatus.CONFLICT,
    errors.InsufficientNodes: HTTPStatus.CONFLICT,
    errors.LaunchRefused: HTTPStatus.CONFLICT,
    errors.Busy: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreThrottled: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.WorkflowsUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.ComputeThrottled: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.ComputeUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    Exception: HTTPStatus.INTERNAL_SERVER_ERROR,
}


@dataclass(frozen=True, slots=True)
class Surface:
    """One family of routes: how it words an error, and the status codes that its clients expect instead."""

    body: Callable[[str, str, Mapping[str, Any]], Any]
    overrides: Mapping[type[Exception], HTTPStatus]

    def reply(self, error: Exception) -> Reply:
        """The reply to an error. An unforeseen error says nothing about itself."""
        status = self.status_of(type(error))
        if not isinstance(error, PaddockError):
            return Reply(status, self.body("InternalError", "something unforeseen went wrong, try again", {}))
        headers = {"Retry-After": _RETRY_AFTER_SECONDS} if status >= HTTPStatus.INTERNAL_SERVER_ERROR else {}
        if isinstance(error, errors.MethodNotAllowed):
            headers["Allow"] = ", ".join(error.allow)
        if isinstance(error, errors.RevisionConflict):
            headers |= etag(error.revision)
        return Reply(status, self.body(type(error).__name__, error.message, _facts(error)), headers)

    def status_of(self, error: type[Exception]) -> HTTPStatus:
        """The status of the reply to an error of this type."""
        known = {**STATUS, **self.overrides}
        return next(known[kind] for kind in error.__mro__ if kind in known)


def _facts(error: PaddockError) -> dict[str, Any]:
    """What the client needs to go on, beside the message, as JSON has it."""
    facts = {field.name: getattr(error, field.name) for field in fields(error) if field.name != "message"}
    return {to_camel(name): value for name, value in facts.items() if value is not None}


def _message_and_detail(code: str, message: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    return {"Message": message, "Detail": code, **facts}


def _result(code: str, message: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    return {"result": False, "msg": message, "data": {"code": code, **facts}}


def _both(code: str, message: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    return {**_message_and_detail(code, message, facts), **_result(code, message, facts)}


CLUSTERS = Surface(_message_and_detail, {})
# Autoscalers expect 400 for what is not JSON, and 409 for all else that is wrong with a body.
NODES = Surface(
    _message_and_detail,
    {errors.InvalidRequest: HTTPStatus.CONFLICT, errors.RecordTooLarge: HTTPStatus.CONFLICT},
)
VIRTUAL_CLUSTERS = Surface(_result, {})
# For requests of which the family of routes is not known.
ANYWHERE = Surface(_both, {})
