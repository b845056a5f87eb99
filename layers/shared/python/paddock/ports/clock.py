"""Time, so that tests have their own."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """The only source of time, and the only way to wait."""

    def now(self) -> int:
        """Nanoseconds since the epoch; each call gives a later time."""

    def pause(self, attempt: int) -> None:
        """Wait a short random time, longer with each attempt (0 is the first), after a lost race."""
