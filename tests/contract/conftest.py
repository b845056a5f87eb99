"""The stores that the same suite runs against: the emulator's DynamoDB alone, and Amazon's DynamoDB Local."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.config import Config

from tests.emulator import dynamodb as emulated
from tests.emulator import dynamodb_local
from tests.emulator.tables import new_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_dynamodb import DynamoDBClient

# One connection for each thread of the concurrency tests.
CONNECTIONS = 20
LEFT_OUT = "no DynamoDB Local: "


@pytest.fixture(scope="module")
def dynamodb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DynamoDBClient]:
    """A client of an empty DynamoDB, which ends with the module that asked for it."""
    child, url = emulated.start(tmp_path_factory.mktemp("dynamodb"))
    try:
        yield _client(url)
    finally:
        # It keeps nothing, so there is no state to wait for.
        child.stop(signal.SIGTERM, timeout_seconds=5)


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DynamoDBClient]:
    """A client of Amazon's own DynamoDB Local. Where that cannot run, tests with it are left out."""
    try:
        with dynamodb_local.running(tmp_path_factory.mktemp("oracle")) as url:
            yield _client(url)
    except dynamodb_local.NotHereError as error:
        if "ORACLE_REQUIRED" in os.environ:
            raise
        pytest.skip(f"{LEFT_OUT}{error}")


@pytest.fixture
def table(dynamodb: DynamoDBClient) -> str:
    """The name of a table of the test's own in the emulator."""
    return new_table(dynamodb)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line that the contract did not run on DynamoDB Local, and why."""
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())]
    for reason in [one for one in reasons if LEFT_OUT in one][:1]:
        why = reason.partition(LEFT_OUT)[2].rstrip("')")
        terminalreporter.line(f"paddock: the contract on DynamoDB Local was left out: {why}")


def _client(url: str) -> DynamoDBClient:
    session = boto3.Session("test", "test", region_name="us-east-1")
    return session.client("dynamodb", endpoint_url=url, config=Config(max_pool_connections=CONNECTIONS))
