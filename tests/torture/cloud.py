"""The EC2 simulator on the run's clock, in a process of its own."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from tests.emulator.ec2_server import serving
from tests.fakes.ec2 import FakeEc2, Settings
from tests.torture.clock import FastClock, Times
from tests.torture.process import Process

if TYPE_CHECKING:
    from pathlib import Path

CLOCK = 0


def serve(times: Path, began: int, port: int) -> None:
    """Serve until whoever started it is gone."""
    # What it says of connections that break, since their clients were killed.
    sys.stderr = times.with_name("cloud.log").open("w")
    clock = FastClock(Times(times, began), CLOCK)
    settings = Settings(boot_seconds=8, terminate_seconds=8, describe_lag_seconds=4, address_seconds=4)
    with serving(FakeEc2(clock.seconds, settings), port):
        while Process.is_wanted():
            time.sleep(0.5)
