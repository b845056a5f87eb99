"""Which time a question about usage is about, and into which slots it is cut. All of it is UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from paddock.model.base import Document
from paddock.model.time import DAY_NS, HOUR_NS

MAX_HOURLY_DAYS = 31
MAX_DAYS = 400

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime(2100, 1, 1, tzinfo=UTC)
_DAYS_OF_WEEK = 7


class Timeframe(StrEnum):
    """The time that a question is about; weeks begin on Sunday."""

    MONTH_TO_DATE = "monthToDate"
    LAST_MONTH = "lastMonth"
    WEEK_TO_DATE = "weekToDate"
    CUSTOM = "custom"


class Granularity(StrEnum):
    """How long a slot is."""

    TOTAL = "total"
    DAILY = "daily"
    HOURLY = "hourly"


def _to_time(value: Any) -> datetime | None:
    """ISO 8601, UTC where it names no offset."""
    if value is None:
        return None
    try:
        time = datetime.fromisoformat(value)
        time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, TypeError, OverflowError) as error:
        msg = "must be a time in ISO 8601, such as 2025-01-31T12:00:00Z"
        raise ValueError(msg) from error
    if not _EPOCH <= time <= _LAST:
        msg = f"must lie between {_EPOCH:%Y} and {_LAST:%Y}"
        raise ValueError(msg)
    return time


Time = Annotated[datetime | None, BeforeValidator(_to_time)]


class UsageQuery(Document):
    """The query of a question about usage. ``from_time`` and ``to_time`` are for custom timeframes alone."""

    timeframe: Annotated[Timeframe, Field(strict=False)] = Timeframe.MONTH_TO_DATE
    """The time that the question is about; weeks begin on Sunday. Left out: `monthToDate`."""
    granularity: Annotated[Granularity, Field(strict=False)] = Granularity.DAILY
    """How long a slot is. Left out: `daily`."""
    from_time: Annotated[Time, Field(alias="from")] = None
    """Where a custom timeframe begins, in ISO 8601; UTC where it names no offset."""
    to_time: Annotated[Time, Field(alias="to")] = None
    """Where a custom timeframe ends."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [time is not None for time in (self.from_time, self.to_time)]
        if self.timeframe is not Timeframe.CUSTOM and any(given):
            msg = "timeframe must be custom where there is from or to"
            raise ValueError(msg)
        if self.timeframe is Timeframe.CUSTOM and not all(given):
            msg = "a custom timeframe must have from and to"
            raise ValueError(msg)
        if self.from_time is not None and self.to_time is not None:
            self._check_span(self.to_time - self.from_time)
        return self

    def _check_span(self, span: timedelta) -> None:
        if span <= timedelta(0):
            msg = "from must be before to"
            raise ValueError(msg)
        most = MAX_HOURLY_DAYS if self.granularity is Granularity.HOURLY else MAX_DAYS
        if span > timedelta(days=most):
            msg = f"from and to must be at most {most} days apart at this granularity"
            raise ValueError(msg)

    def edges(self, now: int) -> list[int]:
        """Where the slots begin and end, in ns since the epoch: one more than there are slots, ascending.

        Timeframes to date end with the slot that ``now`` is in. A custom one is widened to whole days, or to
        whole hours where the granularity is not daily.
        """
        step = DAY_NS if self.granularity is Granularity.DAILY else HOUR_NS
        start, end = self._range(now)
        start, end = start // step * step, -(-end // step) * step
        if self.granularity is Granularity.TOTAL:
            return [start, end]
        return list(range(start, end + step, step))

    def _range(self, now: int) -> tuple[int, int]:
        if self.from_time is not None and self.to_time is not None:
            return _to_ns(self.from_time), _to_ns(self.to_time)
        time = _EPOCH + timedelta(microseconds=now // 1_000)
        today = time.replace(hour=0, minute=0, second=0, microsecond=0)
        month = today.replace(day=1)
        match self.timeframe:
            case Timeframe.LAST_MONTH:
                return _to_ns((month - timedelta(days=1)).replace(day=1)), _to_ns(month)
            case Timeframe.WEEK_TO_DATE:
                since_sunday = today.isoweekday() % _DAYS_OF_WEEK
                return _to_ns(today - timedelta(days=since_sunday)), now + 1
            case _:
                return _to_ns(month), now + 1


def _to_ns(time: datetime) -> int:
    """Exact, where a float of seconds is not."""
    return (time - _EPOCH) // timedelta(microseconds=1) * 1_000
