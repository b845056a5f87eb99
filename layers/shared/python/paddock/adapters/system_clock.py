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
        longest = min(_MAX_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(attempt, 10))
        time.sleep(random.uniform(0, longest))  # noqa: S311 - jitter needs no secrecy
