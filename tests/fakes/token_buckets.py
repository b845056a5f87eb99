"""Token buckets, as AWS throttles by them: each holds so many tokens, and is refilled at a steady rate."""

from __future__ import annotations

from dataclasses import dataclass

# A time of today in seconds is exact to less than a microsecond.
ROUNDING = 1e-4


@dataclass(frozen=True)
class Bucket:
    """How many tokens a bucket holds, and how many come back each second."""

    capacity: float
    per_second: float


class TokenBuckets:
    """Buckets by name, each full at first. ``levels`` is their whole state: by name, the tokens and when."""

    def __init__(self, levels: dict[str, list[float]] | None = None) -> None:
        self.levels = {} if levels is None else levels

    def take(self, name: str, bucket: Bucket, tokens: float, now: float) -> bool:
        """Take that many tokens, or none where there are fewer."""
        level, since = self.levels.get(name, (bucket.capacity, now))
        level = min(bucket.capacity, level + (now - since) * bucket.per_second)
        is_granted = level >= tokens - ROUNDING
        self.levels[name] = [level - tokens if is_granted else level, now]
        return is_granted

    def borrow(self, name: str, bucket: Bucket, tokens: float, now: float) -> bool:
        """Like ``take``, but more than the bucket can hold are lent to a full one, which then owes them."""
        if not self.take(name, bucket, min(tokens, bucket.capacity), now):
            return False
        self.levels[name][0] -= max(0.0, tokens - bucket.capacity)
        return True
