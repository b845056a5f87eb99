"""Requests made from the OpenAPI document, right and wrong ones: no 5xx, and no answer that it does not tell.

`make fuzz` makes more of them.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import (
    negative_data_rejection,
    positive_data_acceptance,
    unsupported_method,
)

from tests.fakes.api import LocalCredentials, serve
from tests.fakes.world import CLUSTER, World, bucket, nodearray
from tests.fakes.wsgi import application
from tests.openapi.document import document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schemathesis import Case

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "5"))
# What there is; else nearly every request would be a 404.
KNOWN = {"cluster": CLUSTER, "nodearray": "ondemand", "virtualCluster": "held"}
AUTH = LocalCredentials().read()

EXCLUDED = [
    # API Gateway knows no TRACE; tests/unit/test_methods.py holds the 405 of each other method.
    unsupported_method,
    # Rules between fields, and what a revision must be, are more than a schema tells.
    positive_data_acceptance,
]
# Each request has credentials, which a negative test would take from it.
# tests/integration/test_gateway.py holds that each route asks for them.
DOCUMENT = {name: part for name, part in document().items() if name != "security"}
whole = schemathesis.openapi.from_dict(DOCUMENT)
whole.app = application
schema = whole.exclude(path="/self")


@schema.hook
def map_path_parameters(context: Any, path_parameters: Any) -> Any:
    """Every second request is about something that exists."""
    del context
    if not path_parameters:
        return path_parameters
    return {
        name: KNOWN[name] if name in KNOWN and len(str(value)) % 2 else value
        for name, value in path_parameters.items()
    }


@pytest.fixture(scope="module", autouse=True)
def world() -> Iterator[World]:
    world = World(
        nodearray(), nodearray("spot", bucket("c7i-2xlarge", templateId="8c16g"), interruptible=True)
    )
    operation, _ = world.create(4, request_id="used")
    world.drive(operation)
    world.claim("held", x4c8g=1)
    with pytest.MonkeyPatch.context() as patch:
        serve(world, patch)
        logging.disable(logging.CRITICAL)
        yield world
        logging.disable(logging.NOTSET)


@schema.parametrize()
@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=EXAMPLES < 10
)
def test_each_answer_is_one_that_the_document_tells(case: Case[Any]) -> None:
    known = {parameter.name for parameter in case.operation.query}
    # Query parameters that a route does not know are not refused so far.
    unknown = [negative_data_rejection] if set(case.query) - known else []
    case.call_and_validate(auth=AUTH, excluded_checks=[*EXCLUDED, *unknown])
