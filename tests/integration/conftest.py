"""One deployed stack for all integration tests of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.emulator.processes import free_port
from tests.emulator.reset import LOCAL
from tests.emulator.stack import Settings, started

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.emulator.client import Client
    from tests.emulator.stack import Stack

DL_QUOTA = {"L-6E869C2A": 192}


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The real template on free ports, with quick instances, short waits, and no schedule: tests call it."""
    settings = Settings(
        port=free_port(),
        ec2_port=free_port(),
        directory=tmp_path_factory.mktemp("stack"),
        build_directory=LOCAL / "build-tests",
        persist=False,
        wait_scale=0.01,
        simulator={"boot_seconds": 0.05, "terminate_seconds": 0.05},
        parameters={"Reconciliation": "DISABLED", "ApiRateLimit": "10000", "ApiBurstLimit": "5000"},
    )
    with started(settings) as running:
        # Of a family that one test alone uses, so that it holds no other, whoever calls the reconciler first.
        running.ec2_control("quotas", values=DL_QUOTA)
        running.deploy()
        yield running


@pytest.fixture(scope="session")
def base_url(stack: Stack) -> str:
    """The API's address, without a slash at its end."""
    return stack.base_url


@pytest.fixture(scope="session")
def client(stack: Stack) -> Client:
    """An HTTP client with the right credentials."""
    return stack.client
