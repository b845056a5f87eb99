"""Where a running `make local` is, for those who steer it or look into it from another terminal."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from tests.emulator.processes import StackError
from tests.emulator.reset import LOCAL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUNNING = LOCAL / "running.json"


@dataclass(frozen=True)
class Running:
    """The addresses of the AWS emulator and of the EC2 simulator."""

    aws: str
    ec2: str


@contextmanager
def told(running: Running, path: Path = RUNNING) -> Iterator[None]:
    """Tell where it runs, for as long as the context lasts."""
    path.write_text(json.dumps(asdict(running)))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def find(path: Path = RUNNING) -> Running:
    """Where it runs. Raises ``StackError`` where it does not."""
    try:
        return Running(**json.loads(path.read_text()))
    except FileNotFoundError as error:
        raise StackError("`make local` must be running, in another terminal") from error
