"""From errors to answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from aws_lambda_powertools.utilities.typing import LambdaContext

from paddock import errors
from paddock.errors import PaddockError
from paddock.http.endpoint import endpoint
from paddock.http.errors import CLUSTERS, NODES, STATUS, VIRTUAL_CLUSTERS, Surface
from paddock.http.reply import Reply

if TYPE_CHECKING:
    from paddock.http.request import Request

FACTS: dict[type[PaddockError], dict[str, Any]] = {
    errors.RevisionConflict: {"revision": 2**62},
    errors.MethodNotAllowed: {"allow": ["GET", "PUT"]},
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
    """Every error that there is, also those of a later day."""
    found, waiting = [], [PaddockError]
    while waiting:
        new = waiting.pop().__subclasses__()
        found += new
        waiting += new
    return sorted(found, key=lambda kind: kind.__name__)


def example(kind: type[PaddockError]) -> PaddockError:
    return kind("what must be true", **FACTS.get(kind, {"known": "fact"}))


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
    facts = FACTS.get(kind, {"known": "fact"})
    assert body == {"Message": "what must be true", "Detail": kind.__name__, **facts}


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_errors_of_virtual_clusters_have_their_envelope(kind: type[PaddockError]) -> None:
    body = json.loads(answer(example(kind), VIRTUAL_CLUSTERS)["body"])
    data = {"code": kind.__name__, **FACTS.get(kind, {"known": "fact"})}
    assert body == {"result": False, "msg": "what must be true", "data": data}


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
