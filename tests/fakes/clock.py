"""Time that moves when a test says so."""

from __future__ import annotations

import random
import threading

from paddock.adapters.system_clock import longest_pause_seconds

SECOND = 1_000_000_000
START = 1_735_000_000 * SECOND


class ManualClock:
    """A clock that stands still but for one microsecond each time it is read, and for what tests add."""

    def __init__(self) -> None:
        self._now = START
        self._lock = threading.Lock()

    def copy(self) -> ManualClock:
        """A clock of its own that shows the same time."""
        other = ManualClock()
        other._now = self._now
        return other

    def now(self) -> int:
        with self._lock:
            self._now += 1_000
            return self._now

    def seconds(self) -> float:
        """The time as the fake cloud takes it."""
        return self._now / SECOND

    def advance(self, seconds: float) -> None:
        with self._lock:
            self._now += round(seconds * SECOND)

    def pause(self, attempt: int) -> None:
        """A pause costs no time in a test."""


class PassingClock(ManualClock):
    """A clock on which pauses take their time, as the real one's do; random, and the same in each run."""

    def __init__(self) -> None:
        super().__init__()
        self._random = random.Random(1)  # noqa: S311 - jitter needs no secrecy
        self.paused_seconds = 0.0

    def pause(self, attempt: int) -> None:
        seconds = self._random.uniform(0, longest_pause_seconds(attempt))
        self.paused_seconds += seconds
        self.advance(seconds)
