"""The emulator's DynamoDB alone."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from tests.emulator.processes import HOST, Child, free_port

if TYPE_CHECKING:
    from pathlib import Path


def start(directory: Path) -> tuple[Child, str]:
    """The process of an empty one, which keeps nothing, and its address."""
    port = free_port()
    environment = {
        "PATH": os.environ["PATH"],
        "GATEWAY_PORT": str(port),
        "BIND_HOST": HOST,
        "IOT_MTLS_ENABLED": "0",
        "SERVICES": "dynamodb",
        "STATE_DIR": str(directory / "state"),
        "TMPDIR": str(directory),
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    child = Child("dynamodb", [sys.executable, "-m", "ministack"], environment, directory / "log")
    try:
        child.wait_until_listening(port)
    except BaseException:
        child.stop(signal.SIGTERM, timeout_seconds=5)
        raise
    return child, f"http://{HOST}:{port}"
