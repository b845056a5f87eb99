"""How long the running invocation may still take. A Lambda function's process has one at a time."""

from __future__ import annotations

from typing import Protocol


class Context(Protocol):
    """The part of Lambda's context that is used here."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda cuts the invocation off."""


_running: list[Context] = []


def begin(context: Context) -> None:
    """An invocation begins, and any earlier one has ended."""
    _running[:] = [context]


def seconds_left() -> float:
    """Seconds until the running invocation is cut off; 0 where there is none."""
    return _running[0].get_remaining_time_in_millis() / 1000 if _running else 0.0
