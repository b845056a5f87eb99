"""The real time."""

from __future__ import annotations

import random
import time

_FIRST_PAUSE_SECONDS = 0.01
_MAX_PAUSE_SECONDS = 0.5


class SystemClock:
    """``Clock`` over the machine's own; it never gives the same time twice, nor an earlier one."""

    def __init__(self) -> None:
        self._last = 0

    def now(self) -> int:
        """See ``Clock.now``."""
        self._last = max(time.time_ns(), self._last + 1)
        return self._last

    def pause(self, attempt: int) -> None:
        """See ``Clock.pause``."""
        time.sleep(random.uniform(0, longest_pause_seconds(attempt)))  # noqa: S311 - jitter needs no secrecy


def longest_pause_seconds(attempt: int) -> float:
    """The most that the pause after so many attempts takes: 10 ms, and twice as much each time, up to 500."""
    return min(_MAX_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0 ** min(attempt, 10))
