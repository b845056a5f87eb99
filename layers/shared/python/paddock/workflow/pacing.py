"""Keeping to EC2's rates: what a call touches is taken from the account's token buckets before it is made.

All operations of a deployment share one record of the buckets, so that they do not throttle each other. The
account may have other users: where EC2 throttles all the same, the bucket is put down as empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddock.errors import ComputeThrottled
from paddock.model.pace import Pace
from paddock.model.time import SECOND_NS
from paddock.ports.repository import Put

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from paddock.model.identity import InstanceId
    from paddock.model.pace import Bucket, Rates
    from paddock.store.store import Store


@dataclass(frozen=True, slots=True)
class Paced:
    """What a call refused, how many it did not touch, and after how many seconds it is their turn."""

    refused: Mapping[InstanceId, str]
    left: int = 0
    wait_seconds: int = 0


@dataclass(frozen=True, slots=True)
class Granted:
    """How many instances a call may touch now, and after how many seconds it is some of the others' turn."""

    count: int
    wait_seconds: int = 0


def take(store: Store, rates: Rates, bucket: Bucket, wanted: int) -> Granted:
    """Take what a call on ``wanted`` instances needs: for all of them, or a portion at least, or for none."""
    rate = rates[bucket]

    def attempt() -> Granted:
        stored, now = store.read.pace(), store.now()
        pace = stored or Pace()
        count = min(wanted, pace.room(bucket, rate, now))
        if count < min(wanted, rate.portion):
            count = 0
        after = pace.taken(bucket, rate, count, now)
        if count:
            store.commit(Put(after, was=stored))
        left = wanted - count
        due = after.may_at(bucket, rate, min(left, rate.portion), now)
        return Granted(count, seconds_until(due, now) if left else 0)

    return store.retry_on_conflict(attempt)


def paced(
    store: Store,
    rates: Rates,
    bucket: Bucket,
    instance_ids: Sequence[InstanceId],
    call: Callable[[Collection[InstanceId]], Mapping[InstanceId, str]],
) -> Paced:
    """Call for as many of these instances as may be touched now, the first ones; maybe for none."""
    if not instance_ids:
        return Paced({})
    granted = take(store, rates, bucket, len(instance_ids))
    left = len(instance_ids) - granted.count
    if not granted.count:
        return Paced({}, left, granted.wait_seconds)
    try:
        return Paced(call(instance_ids[: granted.count]), left, granted.wait_seconds)
    except ComputeThrottled:
        put_down_as_empty(store, rates, bucket)
        raise


def put_down_as_empty(store: Store, rates: Rates, bucket: Bucket) -> None:
    """EC2 has throttled a call: whatever the record says, there is nothing left."""

    def attempt() -> None:
        stored, now = store.read.pace(), store.now()
        after = (stored or Pace()).emptied(bucket, rates[bucket], now)
        store.commit(Put(after, was=stored))

    store.retry_on_conflict(attempt)


def seconds_until(due: int, now: int) -> int:
    """Whole seconds until then (ns), rounded up."""
    return max(0, -((now - due) // SECOND_NS))
