"""How long a throttled call to DynamoDB is tried again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.ports.clock import Clock

# What an invocation needs to end well once it gives up: to answer its client, or to make the workflow wait.
RESERVE_SECONDS = 6
# A partition's share of a second is used up: to come back within hundredths of a second is of no use.
FIRST_PAUSE = 4


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits with jitter, while the running invocation has time: ``seconds_left`` until it is cut off.

    botocore tries plain calls again by itself, three times; a throttled transaction it does not.
    """

    clock: Clock
    seconds_left: Callable[[], float]

    def wait(self, attempt: int) -> bool:
        """Wait a little longer with each attempt (0 is the first); ``False``: no time is left for another."""
        if self.seconds_left() < RESERVE_SECONDS:
            return False
        self.clock.pause(FIRST_PAUSE + attempt)
        return True
