"""Forget what `make local` has stored. Needs nothing but Python: it works before anything is installed."""

from __future__ import annotations

import fcntl
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCAL = Path(__file__).parents[2] / ".local"
STATE = LOCAL / "state"


class InUseError(Exception):
    """Another process uses the state."""


@contextmanager
def state_lock() -> Iterator[int]:
    """Hold the state alone, also by processes that keep this file open. Raise InUseError when others do."""
    LOCAL.mkdir(exist_ok=True)
    with (LOCAL / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InUseError("another `make local` is running, or still stopping; stop it first") from error
        yield lock.fileno()


def main() -> int:
    """Remove the state. Return the exit status."""
    try:
        with state_lock():
            shutil.rmtree(STATE, ignore_errors=True)
    except InUseError as error:
        print(f"paddock: {error}", file=sys.stderr)
        return 1
    print("paddock: the next `make local` starts empty")
    return 0


if __name__ == "__main__":
    sys.exit(main())
