"""Time for all processes of a run: fast, and set by the supervisor through a file that all of them map."""

from __future__ import annotations

import mmap
import random
import struct
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SECOND_NS = 1_000_000_000
SPEED = 20
"""So many seconds pass for Paddock and for the cloud in one of ours."""
MAX_CLOCKS = 64
_NUMBER = struct.Struct("q")
_LONGEST_PAUSE_SECONDS = 0.5


class Times:
    """The shared file: how far time was moved ahead, and how wrong each clock is (ns)."""

    def __init__(self, path: Path, began: int) -> None:
        self.began = began
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), (MAX_CLOCKS + 1) * _NUMBER.size)

    @staticmethod
    def make(path: Path) -> int:
        """Make the file with clocks that are right; answers when the run begins (ns)."""
        path.write_bytes(bytes((MAX_CLOCKS + 1) * _NUMBER.size))
        return time.time_ns()

    def advance(self, seconds: float) -> None:
        """Move time ahead for all; the supervisor alone does."""
        self._set(0, self._get(0) + round(seconds * SECOND_NS))

    def skew(self, number: int, seconds: float) -> None:
        """Let a clock be wrong by so much from now on."""
        self._set(number + 1, round(seconds * SECOND_NS))

    def read(self, number: int) -> int:
        """What a clock shows."""
        passed = (time.time_ns() - self.began) * SPEED
        return self.began + passed + self._get(0) + self._get(number + 1)

    def _get(self, place: int) -> int:
        (value,) = _NUMBER.unpack_from(self._map, place * _NUMBER.size)
        return int(value)

    def _set(self, place: int, value: int) -> None:
        _NUMBER.pack_into(self._map, place * _NUMBER.size, value)


class FastClock:
    """``Clock`` of one process; it never gives the same time twice, nor an earlier one."""

    def __init__(self, times: Times, number: int) -> None:
        self._times = times
        self._number = number
        self._last = 0

    def now(self) -> int:
        """See ``Clock.now``."""
        self._last = max(self._times.read(self._number), self._last + 1)
        return self._last

    def seconds(self) -> float:
        """The time as the cloud takes it."""
        return self._times.read(self._number) / SECOND_NS

    def pause(self, attempt: int) -> None:
        """See ``Clock.pause``."""
        longest = min(_LONGEST_PAUSE_SECONDS, 0.01 * 2 ** min(attempt, 10))
        time.sleep(random.uniform(0, longest) / SPEED)  # noqa: S311 - jitter needs no secrecy
