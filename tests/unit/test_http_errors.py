"""From errors to answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from aws_lambda_powertools.utilities.typing import LambdaContext
from pydantic.alias_generators import to_snake

from paddock import errors
from paddock.errors import PaddockError
from paddock.http.endpoint import endpoint
from paddock.http.errors import CLUSTERS, NODES, STATUS, VIRTUAL_CLUSTERS, Surface
from paddock.http.reply import Reply

if TYPE_CHECKING:
    from paddock.http.request import Request

# What each error with attributes shows of them, in this order.
FACTS: dict[type[PaddockError], dict[str, Any]] = {
    errors.ComputeThrottled: {"code": "RequestLimitExceeded"},
    errors.DuplicateRequest: {"operationId": "op", "requestId": "r-1"},
    errors.ImmutableAttribute: {"attribute": "allocationMode"},
    errors.InsufficientNodes: {"replicaSetsToRecommend": {"a": 1}, "missing": {"a": 2}},
    errors.InvalidRequest: {"nodeTypes": []},
    errors.LaunchRefused: {"code": "UnauthorizedOperation"},
    errors.MethodNotAllowed: {"allow": ["GET", "PUT"]},
    errors.NodesInUse: {"nodeCount": 2, "placementGroups": ["a/g"], "buckets": ["c7i-large in a"]},
    errors.NotFound: {"virtualClusterId": "vc"},
    errors.RevisionConflict: {"revision": 2**62, "virtualClusterId": "vc"},
}
EXPECTED = {
    "MalformedBody": 400,
    "InvalidRequest": 400,
    "RecordTooLarge": 400,
    "NotFound": 404,
    "MethodNotAllowed": 405,
    "RevisionConflict": 409,
    "DuplicateRequest": 409,
    "ImmutableAttribute": 409,
    "NodesInUse": 409,
    "InsufficientNodes": 409,
    "Busy": 503,
    "StoreThrottled": 503,
    "StoreUnavailable": 503,
    "WorkflowsUnavailable": 503,
    "ComputeThrottled": 503,
    "ComputeUnavailable": 503,
}


def kinds() -> list[type[PaddockError]]:
    """Every error that can be raised, also those of a later day: a class with kinds of its own is not."""
    found, waiting = [], [PaddockError]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if not kind.__subclasses__() and kind.__module__ == errors.__name__:
            found.append(kind)
    return sorted(found, key=lambda kind: kind.__name__)


def example(kind: type[PaddockError]) -> PaddockError:
    attributes = {to_snake(name): value for name, value in FACTS.get(kind, {}).items()}
    return kind("what must be true", **attributes)


def answer(error: Exception, surface: Surface = CLUSTERS) -> dict[str, Any]:
    """What the gateway is given when a use case raises this."""

    @endpoint(surface)
    def handler(_: Request) -> Reply:
        raise error

    return handler({"httpMethod": "GET", "path": "/x"}, context())


def context() -> LambdaContext:
    """What the logger reads of Lambda's context."""
    made = LambdaContext()
    made._function_name, made._aws_request_id, made._invoked_function_arn = "test", "id", "arn"
    made._memory_limit_in_mb = 128
    return made


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_every_error_has_a_status_of_its_own(kind: type[PaddockError]) -> None:
    assert kind in STATUS


@pytest.mark.parametrize(("name", "status"), EXPECTED.items())
def test_each_error_is_answered_with_its_status(name: str, status: int) -> None:
    assert answer(example(getattr(errors, name)))["statusCode"] == status


@pytest.mark.parametrize(
    ("kind", "status"),
    [(errors.InvalidRequest, 409), (errors.RecordTooLarge, 409), (errors.MalformedBody, 400)],
)
def test_autoscalers_get_409_for_all_that_is_wrong_with_a_body_but_its_syntax(
    kind: type[PaddockError], status: int
) -> None:
    assert answer(example(kind), NODES)["statusCode"] == status


@pytest.mark.parametrize("surface", [CLUSTERS, NODES])
@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_errors_of_clusters_have_message_and_detail(surface: Surface, kind: type[PaddockError]) -> None:
    body = json.loads(answer(example(kind), surface)["body"])
    assert body == {"Message": "what must be true", "Detail": kind.__name__, **FACTS.get(kind, {})}
    assert list(body) == ["Message", "Detail", *FACTS.get(kind, {})]


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_errors_of_virtual_clusters_have_their_envelope(kind: type[PaddockError]) -> None:
    body = json.loads(answer(example(kind), VIRTUAL_CLUSTERS)["body"])
    data = {"code": kind.__name__, **FACTS.get(kind, {})}
    assert body == {"result": False, "msg": "what must be true", "data": data}


def test_an_attribute_that_is_not_known_is_not_shown() -> None:
    assert CLUSTERS.reply(errors.ComputeThrottled("x")).body == {"Message": "x", "Detail": "ComputeThrottled"}


@pytest.mark.parametrize(
    ("passing", "others"),
    [
        (errors.TransientCompute, {"StoreThrottled", "StoreUnavailable", "WorkflowsUnavailable", "Busy"}),
        (errors.TransientStore, {"ComputeThrottled", "ComputeUnavailable", "WorkflowsUnavailable", "Busy"}),
    ],
)
def test_who_waits_for_one_service_does_not_swallow_the_failures_of_another(
    passing: type[errors.Transient], others: set[str]
) -> None:
    transient = {kind for kind in kinds() if issubclass(kind, errors.Transient)}
    assert {kind.__name__ for kind in transient if not issubclass(kind, passing)} == others
    assert len(transient) == len(others) + 2


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_all_that_passes_and_nothing_else_is_answered_with_503(kind: type[PaddockError]) -> None:
    assert (STATUS[kind] == 503) == issubclass(kind, errors.Transient)


def test_an_error_derived_from_another_is_answered_as_that() -> None:
    class Special(errors.NotFound):
        pass

    reply = CLUSTERS.reply(Special("x"))
    assert (reply.status, reply.body["Detail"]) == (404, "Special")


@pytest.mark.parametrize("surface", [CLUSTERS, NODES, VIRTUAL_CLUSTERS])
def test_an_error_that_nobody_foresaw_says_nothing_about_itself(surface: Surface) -> None:
    found = answer(KeyError("secret"), surface)
    assert found["statusCode"] == 500
    assert "secret" not in found["body"]
    assert "InternalError" in found["body"]


def test_a_conflict_says_the_current_revision_in_a_header_too() -> None:
    found = answer(example(errors.RevisionConflict), VIRTUAL_CLUSTERS)
    assert found["headers"]["ETag"] == f'"{2**62}"'


def test_a_method_that_is_not_allowed_says_which_are() -> None:
    assert answer(example(errors.MethodNotAllowed))["headers"]["Allow"] == "GET, PUT"


@pytest.mark.parametrize(("name", "status"), EXPECTED.items())
def test_who_may_succeed_later_is_told_when(name: str, status: int) -> None:
    headers = answer(example(getattr(errors, name)))["headers"]
    assert ("Retry-After" in headers) is (status == 503)


def test_every_answer_is_json_and_kept_by_no_cache() -> None:
    for found in (answer(KeyError()), answer(example(errors.NotFound)), Reply(200, {"ü": 1}).to_gateway()):
        assert found["headers"]["Content-Type"] == "application/json"
        assert found["headers"]["Cache-Control"] == "no-store"
        assert json.loads(found["body"])
        assert found["isBase64Encoded"] is False
