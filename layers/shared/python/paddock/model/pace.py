"""EC2's token buckets, as far as they count instances: how many a call may touch now, and when more.

EC2 gives each account and Region a bucket for each action. Launching and starting begin with 1,000 instances
and get 2 more a second, stopping and terminating 1,000 and 20. A call for more instances gets nothing.

A bucket is kept as one time: that at which it will be full. A call for n instances puts it off by what n take
to come back, and may be made as soon as the bucket holds so many. Example: of an idle account 1,000 are
launched, so the bucket is full in 500 seconds; the next 100 may follow after 50.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

_SECOND_NS = 1_000_000_000
_PORTION_SECONDS = 50


class Bucket(StrEnum):
    """The actions of EC2 that count instances. A fleet launches by RunInstances."""

    LAUNCH = "RunInstances"
    START = "StartInstances"
    STOP = "StopInstances"
    TERMINATE = "TerminateInstances"


@dataclass(frozen=True, slots=True)
class Rate:
    """What a bucket holds, and how many instances come back each second."""

    burst: int
    per_second: float

    @property
    def portion(self) -> int:
        """The fewest that a call is made for, unless fewer are wanted: what comes back in 50 seconds.

        EC2 advises to launch about 100 at a time; of an emptied bucket that is 100 launches, or 500 ends.
        """
        return max(1, min(self.burst // 2, round(_PORTION_SECONDS * self.per_second)))

    def nanoseconds(self, count: int) -> int:
        """The ns that so many instances take to come back."""
        return round(count * _SECOND_NS / self.per_second)

    def seconds_for(self, count: int) -> float:
        """What so many instances take, from a full bucket on. 10,000 launches: 9,000 / 2 s = 75 minutes."""
        return max(0, count - self.burst) / self.per_second


Rates = Mapping[Bucket, Rate]
DEFAULT_RATES: Rates = {
    Bucket.LAUNCH: Rate(1_000, 2),
    Bucket.START: Rate(1_000, 2),
    Bucket.STOP: Rate(1_000, 20),
    Bucket.TERMINATE: Rate(1_000, 20),
}
"""AWS's defaults (EC2 Developer Guide, "Request throttling for the Amazon EC2 API")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The account's buckets, as far as this deployment empties them. ``full_at`` is in ns, by bucket."""

    revision: int = 0
    full_at: dict[Bucket, int] = field(default_factory=dict)

    def may_at(self, bucket: Bucket, rate: Rate, count: int, now: int) -> int:
        """When a call may touch so many instances: now (ns), or later."""
        full_at = max(now, self.full_at.get(bucket, 0))
        return max(now, full_at - rate.nanoseconds(max(0, rate.burst - count)))

    def room(self, bucket: Bucket, rate: Rate, now: int) -> int:
        """How many instances a call may touch now."""
        missing_ns = max(0, self.full_at.get(bucket, 0) - now)
        return max(0, rate.burst - -(-missing_ns * round(rate.per_second * 1_000) // (1_000 * _SECOND_NS)))

    def taken(self, bucket: Bucket, rate: Rate, count: int, now: int) -> Pace:
        """The pace once so many are taken."""
        full_at = max(now, self.full_at.get(bucket, 0)) + rate.nanoseconds(count)
        return replace(self, full_at={**self.full_at, bucket: full_at})

    def emptied(self, bucket: Bucket, rate: Rate, now: int) -> Pace:
        """The pace once EC2 has said that there is nothing left: others use the account too."""
        full_at = max(now + rate.nanoseconds(rate.burst), self.full_at.get(bucket, 0))
        return replace(self, full_at={**self.full_at, bucket: full_at})
