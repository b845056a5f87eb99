"""What a client sent, read from API Gateway's event."""

from __future__ import annotations

import base64
import json
import math
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from pydantic import BaseModel, ValidationError

from paddock.errors import InvalidRequest, MalformedBody
from paddock.model.base import MAX_COUNT, MAX_REVISION
from paddock.model.identity import ClusterName, InstanceId, VirtualClusterId
from paddock.model.wording import quoted
from paddock.requests.bodies import RevisionOnly
from paddock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import ErrorDetails

    from paddock.model.identity import OperationId

_MAX_ERRORS_TOLD = 5
_MAX_DEPTH = 64
_TOO_DEEP = f"it must be nested at most {_MAX_DEPTH} deep"
_WEIGHT = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")
_INSTANCE_SESSION = re.compile(
    r"arn:aws[a-z-]*:sts::(?P<account>[0-9]{12}):assumed-role/[\w+=,.@-]+/(?P<instance>i-[0-9a-f]{8,17})"
)
_TRUTH = {"true": True, "1": True, "false": False, "0": False}

Model = TypeVar("Model", bound=BaseModel)


class Request:
    """One request. Bodies are JSON whatever their content type says, for clients say anything, or nothing."""

    def __init__(self, event: Mapping[str, Any]) -> None:
        self._event = event
        self.method: str = event.get("httpMethod") or ""
        self.resource: str = event.get("resource") or ""
        self.url_path: str = event.get("path") or ""
        authorizer = (event.get("requestContext") or {}).get("authorizer") or {}
        self.user: str = authorizer.get("principalId") or ""

    def instance_id(self) -> InstanceId:
        """The instance whose role signed the request, by its session's name; empty where it was none.

        EC2 names the sessions of instance roles so. The account must be this one: instances of others may
        have the same role name.
        """
        context = self._event.get("requestContext") or {}
        caller = _INSTANCE_SESSION.fullmatch((context.get("identity") or {}).get("userArn") or "")
        if caller is None or caller["account"] != context.get("accountId"):
            return InstanceId("")
        return InstanceId(caller["instance"])

    def path(self, name: str) -> str:
        """A path parameter, decoded; what it may hold has no ``%``, so decoding it twice does no harm."""
        return unquote((self._event.get("pathParameters") or {}).get(name) or "")

    def cluster_name(self) -> ClusterName:
        """The cluster that the path names."""
        return ClusterName(self.path("cluster"))

    def virtual_cluster_id(self) -> VirtualClusterId:
        """The virtual cluster that the path names."""
        return VirtualClusterId(self.path("virtualCluster"))

    def query(self, name: str) -> str | None:
        """A query parameter, ``None`` if it is not there."""
        value: str | None = (self._event.get("queryStringParameters") or {}).get(name)
        return value

    def flag(self, name: str) -> bool:
        """A query parameter that is true or false, false if it is not there. Raises ``InvalidRequest``."""
        text = (self.query(name) or "false").lower()
        if text not in _TRUTH:
            msg = f"{name} must be true or false, not {quoted(text[:40])}"
            raise InvalidRequest(msg)
        return _TRUTH[text]

    def limit(self, name: str, most: int) -> int | None:
        """A query parameter that is a whole number from 1 to ``most``. Raises ``InvalidRequest``."""
        return self._whole_number(name, 1, most)

    def count(self, name: str) -> int | None:
        """A query parameter that is a count, 0 included. Raises ``InvalidRequest``."""
        return self._whole_number(name, 0, MAX_COUNT)

    def revision_token(self, name: str) -> int | None:
        """A query parameter that is a revision. Raises ``InvalidRequest``."""
        return self._whole_number(name, 0, MAX_REVISION)

    def revision(self, in_body: int | None = None) -> int | None:
        """The revision that the client says it read: in ``If-Match``, in the body, or in the query.

        ``None`` where it says none. Raises ``InvalidRequest`` where two of them differ.
        """
        given = (in_body, self._if_match(), self._revision_in_query())
        revisions = {revision for revision in given if revision is not None}
        if len(revisions) > 1:
            msg = "If-Match and revision must name the same revision"
            raise InvalidRequest(msg)
        return revisions.pop() if revisions else None

    def body(self, model: type[Model], in_query: Mapping[str, Any] | None = None) -> Model:
        """The body as a document of this kind. Raises ``MalformedBody`` and ``InvalidRequest``.

        ``in_query`` is what the query says of the document's fields, ``None`` for nothing. With it there need
        be no body; what stands in both must be the same.
        """
        text = self._text()
        document = {} if in_query is not None and not text else parse_json(text)
        if in_query and isinstance(document, dict):
            document = _completed(document, in_query)
        try:
            return model.model_validate(document)
        except ValidationError as error:
            raise InvalidRequest(_explain(error, model)) from error

    def parameters(self, model: type[Model]) -> Model:
        """The query as a document of this kind; parameters that it does not know are left alone.

        Raises ``InvalidRequest``.
        """
        names = (field.alias or name for name, field in model.model_fields.items())
        given = {name: value for name in names if (value := self.query(name)) is not None}
        try:
            return model.model_validate(given)
        except ValidationError as error:
            raise InvalidRequest(_explain(error, model).removeprefix("the body: ")) from error

    def accepts_gzip(self) -> bool:
        """Whether the client reads gzip, as RFC 9110 has it say: with a weight above 0, by name or by ``*``.

        A request without ``Accept`` is taken not to, for the gateway would not decode a compressed answer.
        """
        if not self._header("accept"):
            return False
        weights = dict(
            _weighted(coding) for coding in (self._header("accept-encoding") or "").lower().split(",")
        )
        named = [weights[name] for name in ("gzip", "x-gzip") if name in weights]
        return max(named, default=weights.get("*", 0)) > 0

    def location_of(self, operation_id: OperationId) -> dict[str, str]:
        """The header that says where an operation can be watched, as an absolute URL."""
        return {"Location": f"{self._base_url()}/operations/{operation_id}"}

    def _base_url(self) -> str:
        """The URL that all routes follow: ``https://id.execute-api.us-east-1.amazonaws.com/v1``.

        Host and scheme are those that API Gateway was asked by, and the path is what stands before the route:
        a stage, or a custom domain's base path. Any client can send ``X-Forwarded-Host``, so it counts for
        nothing; a deployment behind a proxy of another name says its address itself.
        """
        if public_url := Settings.from_environment().public_url:
            return public_url.rstrip("/")
        context = self._event.get("requestContext") or {}
        host = self._header("host") or context.get("domainName") or "localhost"
        scheme = "http" if self._header("x-forwarded-proto") == "http" else "https"
        path = str(context.get("path") or self.url_path).rstrip("/")
        steps = path.split("/")
        return f"{scheme}://{host}" + "/".join(steps[: len(steps) - self.resource.count("/")])

    def _whole_number(self, name: str, least: int, most: int) -> int | None:
        text = self.query(name)
        if text is None:
            return None
        is_short = text.isascii() and text.isdigit() and len(text) <= len(str(most))
        if not (is_short and least <= int(text) <= most):
            msg = f"{name} must be a whole number from {least} to {most}"
            raise InvalidRequest(msg)
        return int(text)

    def _text(self) -> str:
        text: str = self._event.get("body") or ""
        if not self._event.get("isBase64Encoded"):
            return text
        try:
            return base64.b64decode(text, validate=True).decode()
        except ValueError as error:
            msg = "the body must be UTF-8 text"
            raise MalformedBody(msg) from error

    def _header(self, name: str) -> str | None:
        headers: dict[str, str] = self._event.get("headers") or {}
        return next((value for key, value in headers.items() if key.lower() == name), None)

    def deleted_revision(self) -> int | None:
        """The revision on whose condition something is deleted; a body may name it too. See ``revision``."""
        return self.revision(self.body(RevisionOnly).revision if self._text().strip() else None)

    def _if_match(self) -> int | None:
        tag = self._header("if-match")
        if tag is None:
            return None
        return _to_revision("If-Match", tag.strip().removeprefix("W/").removeprefix('"').removesuffix('"'))

    def _revision_in_query(self) -> int | None:
        text = self.query("revision")
        return _to_revision("revision", text) if text is not None else None


def parse_json(text: str) -> Any:
    """A JSON document, read strictly: no key twice, no NaN, no lone surrogates. Raises ``MalformedBody``."""
    try:
        document = json.loads(
            text, object_pairs_hook=_unique, parse_float=_finite, parse_constant=_refuse_constant
        )
        _require_shallow(document, _MAX_DEPTH)
        # A lone surrogate is no character; it could be neither stored nor sent back.
        json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        reason = _TOO_DEEP if isinstance(error, RecursionError) else str(error)
        if isinstance(error, UnicodeEncodeError):
            reason = "it must not have half of a surrogate pair"
        elif "set_int_max_str_digits" in reason:
            reason = "a number has too many digits"
        msg = f"the body must be a JSON document: {reason[:200]}"
        raise MalformedBody(msg) from error
    return document


def _completed(document: dict[str, Any], in_query: Mapping[str, Any]) -> dict[str, Any]:
    sent = {name: value for name, value in in_query.items() if value is not None}
    for name, value in sent.items():
        if document.get(name) is not None and document[name] != value:
            msg = f"{name} must be the same in the query and in the body"
            raise InvalidRequest(msg)
    return {**document, **{name: value for name, value in sent.items() if document.get(name) is None}}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for key, value in pairs:
        if key in document:
            msg = f"the key {quoted(key)} is there twice"
            raise ValueError(msg)
        document[key] = value
    return document


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        msg = f"{text[:40]} is too large a number"
        raise ValueError(msg)
    return number


def _require_shallow(document: Any, depth: int) -> None:
    """Records go through parsers with limits of their own, so a client's document must stay below those."""
    children = document.values() if isinstance(document, dict) else document
    if isinstance(document, dict | list) and children:
        if not depth:
            raise ValueError(_TOO_DEEP)
        for child in children:
            _require_shallow(child, depth - 1)


def _refuse_constant(name: str) -> None:
    msg = f"{name} is not a JSON number"
    raise ValueError(msg)


def _weighted(coding: str) -> tuple[str, float]:
    """A content coding and its weight; a weight that is none is 0."""
    name, *parameters = (part.strip() for part in coding.split(";"))
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            return name, float(value) if _WEIGHT.fullmatch(value.strip()) else 0.0
    return name, 1.0


def _to_revision(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MAX_REVISION))):
        msg = f"{name} must be a revision, a whole number"
        raise InvalidRequest(msg)
    return int(text)


def _explain(error: ValidationError, model: type[BaseModel]) -> str:
    """What must be true of the body, for the first few faults in it."""
    faults = _without_consequences(error.errors(include_url=False, include_context=False))
    explained = "; ".join(_explain_fault(fault, model) for fault in faults[:_MAX_ERRORS_TOLD])
    more = len(faults) - _MAX_ERRORS_TOLD
    return explained + (f"; and {more} more" if more > 0 else "")


def _without_consequences(faults: list[ErrorDetails]) -> list[ErrorDetails]:
    """Leave out that a list is too short because an item of it was refused."""
    places = [fault["loc"] for fault in faults]
    return [
        fault
        for fault in faults
        if fault["type"] != "too_short"
        or not any(place != fault["loc"] and place[: len(fault["loc"])] == fault["loc"] for place in places)
    ]


def _explain_fault(fault: ErrorDetails, model: type[BaseModel]) -> str:
    where = ".".join(str(part)[:80] for part in fault["loc"] if part != "[key]") or "the body"
    if fault["type"] != "extra_forbidden":
        return f"{where}: {_wording(fault)}"
    *above, name = fault["loc"]
    near = get_close_matches(str(name)[:80], _field_names(model, tuple(above)), n=1, cutoff=0)
    hint = f", the nearest known one is {near[0]}" if near else ""
    return f"{where}: unknown field{hint}"


def _wording(fault: ErrorDetails) -> str:
    """The fault in JSON's words, where pydantic has Python's."""
    kind = fault["type"]
    if kind in ("tuple_type", "list_type"):
        return "must be a list"
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        return "must be an object"
    if kind == "enum":
        return fault["msg"].replace("'", '"')
    return fault["msg"].removeprefix("Value error, ").replace("Tuple should", "The list should")


def _field_names(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """The names that the document at this place of the body may have."""
    schema = model.model_json_schema()
    here = schema
    for part in path:
        here = _resolve(schema, here)
        here = here.get("items", {}) if isinstance(part, int) else here.get("properties", {}).get(part, {})
    return list(_resolve(schema, here).get("properties", {}))


def _resolve(schema: dict[str, Any], here: dict[str, Any]) -> dict[str, Any]:
    options = [here, *here.get("anyOf", ()), *here.get("allOf", ())]
    for option in options:
        if "$ref" in option:
            resolved: dict[str, Any] = schema["$defs"][option["$ref"].rsplit("/", 1)[-1]]
            return resolved
    return here
