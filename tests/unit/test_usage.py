"""Sums of usage over time: nothing lost, nothing twice, nothing outside of what was asked for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from paddock.model.identity import ClusterName, NodeId
from paddock.model.time import DAY_NS, HOUR_NS
from paddock.model.usage import (
    Machine,
    Slot,
    UsageInterval,
    add_nodes,
    core_hours,
    cost,
    count_node_uses,
    sum_by_machine,
)
from paddock.requests.timeframe import Granularity, UsageQuery

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOW = "2025-06-15T10:20:30.123456Z"


def ns(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1) * 1_000


def text(nanoseconds: int) -> str:
    return (EPOCH + timedelta(microseconds=nanoseconds // 1_000)).strftime("%Y-%m-%dT%H:%M")


def query(**parameters: str) -> UsageQuery:
    return UsageQuery.model_validate(parameters)


def edges(now: str = NOW, **parameters: str) -> list[int]:
    return query(**parameters).edges(ns(now))


def interval(
    start: int,
    end: int,
    node: str = "node-1",
    *,
    array: str = "a",
    cores: int = 4,
    price: float | None = 2.0,
) -> UsageInterval:
    return UsageInterval(
        cluster=ClusterName("demo"),
        node_id=NodeId(node),
        name=f"name of {node}",
        node_array=array,
        machine_type=f"type-{cores}",
        cores=cores,
        price_per_hour=price,
        interruptible=False,
        start=start,
        end=end,
        revision=1,
    )


# Timeframes.


@pytest.mark.parametrize(
    ("now", "timeframe", "first", "last"),
    [
        (NOW, "monthToDate", "2025-06-01T00:00", "2025-06-16T00:00"),
        ("2025-06-01T00:00:00Z", "monthToDate", "2025-06-01T00:00", "2025-06-02T00:00"),
        ("2025-06-30T23:59:59Z", "monthToDate", "2025-06-01T00:00", "2025-07-01T00:00"),
        ("2024-02-29T12:00:00Z", "monthToDate", "2024-02-01T00:00", "2024-03-01T00:00"),
        (NOW, "lastMonth", "2025-05-01T00:00", "2025-06-01T00:00"),
        ("2025-01-31T12:00:00Z", "lastMonth", "2024-12-01T00:00", "2025-01-01T00:00"),
        ("2024-03-31T12:00:00Z", "lastMonth", "2024-02-01T00:00", "2024-03-01T00:00"),
        ("2025-03-31T12:00:00Z", "lastMonth", "2025-02-01T00:00", "2025-03-01T00:00"),
        # 2025-06-15 is a Sunday.
        ("2025-06-14T23:59:59Z", "weekToDate", "2025-06-08T00:00", "2025-06-15T00:00"),
        (NOW, "weekToDate", "2025-06-15T00:00", "2025-06-16T00:00"),
        ("2025-06-16T00:00:00Z", "weekToDate", "2025-06-15T00:00", "2025-06-17T00:00"),
        ("2025-01-01T12:00:00Z", "weekToDate", "2024-12-29T00:00", "2025-01-02T00:00"),
    ],
)
def test_a_timeframe_is_whole_days_up_to_the_one_that_it_is_now(
    now: str, timeframe: str, first: str, last: str
) -> None:
    found = edges(now, timeframe=timeframe)
    assert (text(found[0]), text(found[-1])) == (first, last)
    assert {after - before for before, after in pairwise(found)} == {DAY_NS}


def test_the_default_is_this_month_by_the_day() -> None:
    assert edges() == edges(timeframe="monthToDate", granularity="daily")
    assert len(edges()) == 15 + 1


@pytest.mark.parametrize(
    ("now", "days"),
    [("2024-03-01T00:00:00Z", 29), ("2025-03-01T00:00:00Z", 28), ("2025-04-01T00:00:00Z", 31)],
)
def test_a_month_has_as_many_days_and_hours_as_the_calendar_says(now: str, days: int) -> None:
    # Europe and America change their clocks in March; UTC does not.
    assert len(edges(now, timeframe="lastMonth")) == days + 1
    assert len(edges(now, timeframe="lastMonth", granularity="hourly")) == days * 24 + 1
    assert len(edges(now, timeframe="lastMonth", granularity="total")) == 2


def test_hours_to_date_end_with_the_one_that_it_is_now() -> None:
    for granularity in ("hourly", "total"):
        assert text(edges(timeframe="weekToDate", granularity=granularity)[-1]) == "2025-06-15T11:00"


@pytest.mark.parametrize(
    ("granularity", "start", "end", "first", "last", "slots"),
    [
        ("daily", "2025-01-01", "2025-01-03", "2025-01-01T00:00", "2025-01-03T00:00", 2),
        ("daily", "2025-01-01T23:59", "2025-01-02T00:01", "2025-01-01T00:00", "2025-01-03T00:00", 2),
        ("daily", "2025-01-01T10:00Z", "2025-01-01T10:01Z", "2025-01-01T00:00", "2025-01-02T00:00", 1),
        (
            "hourly",
            "2025-01-01T10:59:59.9",
            "2025-01-01T11:00:00.1",
            "2025-01-01T10:00",
            "2025-01-01T12:00",
            2,
        ),
        (
            "hourly",
            "2025-01-01T00:00:00+02:00",
            "2025-01-01T01:00",
            "2024-12-31T22:00",
            "2025-01-01T01:00",
            3,
        ),
        ("total", "2025-01-01T10:30", "2025-01-02T10:30", "2025-01-01T10:00", "2025-01-02T11:00", 1),
        ("daily", "20250101T000000Z", "20250102T000000Z", "2025-01-01T00:00", "2025-01-02T00:00", 1),
        ("hourly", "2025-01-01", "2025-02-01", "2025-01-01T00:00", "2025-02-01T00:00", 744),
        ("daily", "2024-01-01", "2025-02-04", "2024-01-01T00:00", "2025-02-04T00:00", 400),
        ("total", "1970-01-01", "1970-01-02", "1970-01-01T00:00", "1970-01-02T00:00", 1),
    ],
)
def test_a_custom_timeframe_is_widened_to_whole_slots(
    granularity: str, start: str, end: str, first: str, last: str, slots: int
) -> None:
    found = edges(timeframe="custom", granularity=granularity, **{"from": start, "to": end})
    assert (text(found[0]), text(found[-1]), len(found) - 1) == (first, last, slots)


@pytest.mark.parametrize(
    ("parameters", "rule"),
    [
        ({"timeframe": "yearToDate"}, "monthToDate"),
        ({"timeframe": "MonthToDate"}, "monthToDate"),
        ({"timeframe": ""}, "monthToDate"),
        ({"granularity": "weekly"}, "hourly"),
        ({"granularity": ""}, "hourly"),
        ({"timeframe": "custom"}, "must have from and to"),
        ({"timeframe": "custom", "from": "2025-01-01"}, "must have from and to"),
        ({"timeframe": "custom", "to": "2025-01-01"}, "must have from and to"),
        ({"from": "2025-01-01", "to": "2025-01-02"}, "must be custom"),
        ({"timeframe": "lastMonth", "to": "2025-01-02"}, "must be custom"),
    ],
)
def test_what_is_no_timeframe_is_refused_with_the_rule(parameters: dict[str, str], rule: str) -> None:
    with pytest.raises(ValidationError, match=rule):
        query(**parameters)


@pytest.mark.parametrize(
    ("granularity", "start", "end", "rule"),
    [
        ("daily", "2025-01-02", "2025-01-01", "before"),
        ("daily", "2025-01-01", "2025-01-01", "before"),
        ("daily", "2025-01-01T02:00+02:00", "2025-01-01T00:00", "before"),
        ("hourly", "2025-01-01", "2025-02-01T00:00:01", "at most 31 days"),
        ("daily", "2024-01-01", "2025-02-04T00:00:01", "at most 400 days"),
        ("total", "1970-01-01", "2100-01-01", "at most 400 days"),
        ("daily", "yesterday", "2025-01-01", "ISO 8601"),
        ("daily", "", "2025-01-01", "ISO 8601"),
        ("daily", "1735000000", "2025-01-01", "ISO 8601"),
        ("daily", "2025-02-29", "2025-03-01", "ISO 8601"),
        ("daily", "2025-01-01T25:00", "2025-01-02", "ISO 8601"),
        ("daily", "0001-01-01T00:00+14:00", "2025-01-02", "ISO 8601"),
        ("daily", "1969-12-31", "1970-01-02", "between 1970 and 2100"),
        ("daily", "9999-12-31", "9999-12-31T23:59", "between 1970 and 2100"),
        ("daily", "9" * 10_000, "2025-01-02", "ISO 8601"),
    ],
)
def test_a_custom_timeframe_must_be_one(granularity: str, start: str, end: str, rule: str) -> None:
    with pytest.raises(ValidationError, match=rule):
        query(timeframe="custom", granularity=granularity, **{"from": start, "to": end})


# Sums.

BEGIN = ns("2024-02-27T00:00:00Z")
SPAN = 5 * DAY_NS
MOMENTS = st.integers(BEGIN - DAY_NS, BEGIN + SPAN + DAY_NS) | st.integers(-30, 150).map(
    lambda hour: BEGIN + hour * HOUR_NS
)
INTERVALS = st.lists(
    st.builds(
        lambda moments, node, cores, price: interval(
            min(moments), max(moments), node, cores=cores, price=price
        ),
        st.tuples(MOMENTS, MOMENTS),
        st.sampled_from(["1", "2", "3"]),
        st.sampled_from([1, 4]),
        st.sampled_from([None, 0.5]),
    ),
    max_size=12,
)


def cut(intervals: list[UsageInterval], granularity: Granularity) -> list[Slot]:
    step = {Granularity.HOURLY: HOUR_NS, Granularity.DAILY: DAY_NS, Granularity.TOTAL: SPAN}[granularity]
    bounds = list(range(BEGIN, BEGIN + SPAN + step, step))
    slots = sum_by_machine(intervals, bounds)
    add_nodes(slots, intervals, bounds)
    assert sum(len(slot.nodes) for slot in slots) <= count_node_uses(intervals, bounds)
    return slots


def whole(slots: list[Slot]) -> dict[Machine, int]:
    """What all slots have together."""
    machines = {machine for slot in slots for machine in slot.machines}
    return {machine: sum(slot.machines.get(machine, 0) for slot in slots) for machine in machines}


@given(INTERVALS)
def test_hours_days_and_total_have_the_same_sum_and_it_is_that_of_the_intervals(
    intervals: list[UsageInterval],
) -> None:
    hourly, daily, total = (cut(intervals, one) for one in reversed(Granularity))
    assert whole(hourly) == whole(daily) == whole(total)
    inside = sum(max(0, min(one.end, BEGIN + SPAN) - max(one.start, BEGIN)) for one in intervals)
    assert sum(whole(total).values()) == inside


@given(INTERVALS)
def test_in_each_slot_nodes_and_machines_have_the_same_sum(intervals: list[UsageInterval]) -> None:
    for granularity in Granularity:
        for slot in cut(intervals, granularity):
            by_machine: dict[Machine, int] = {}
            for node in slot.nodes:
                assert node.used > 0
                by_machine[node.machine] = by_machine.get(node.machine, 0) + node.used
            assert by_machine == slot.machines
            most = (slot.end - slot.start) * len(intervals)
            assert all(0 < used <= most for used in slot.machines.values())


def test_an_interval_is_clipped_at_both_ends_and_cut_at_each_edge() -> None:
    bounds = [0, 10, 20, 30]
    slots = sum_by_machine([interval(-5, 3), interval(8, 22), interval(30, 40), interval(-9, 0)], bounds)
    assert [sum(slot.machines.values()) for slot in slots] == [3 + 2, 10, 2]


def test_machines_are_summed_up_apart_by_what_they_are_and_cost() -> None:
    ones = [
        interval(0, HOUR_NS),
        interval(0, HOUR_NS, "node-2"),
        interval(0, HOUR_NS, array="b"),
        interval(0, HOUR_NS, cores=8),
        interval(0, HOUR_NS, price=3.0),
    ]
    [slot] = sum_by_machine(ones, [0, DAY_NS])
    assert sorted(slot.machines.values()) == [HOUR_NS] * 3 + [2 * HOUR_NS]
    assert core_hours(slot.machines) == 4 + 4 + 4 + 8 + 4
    assert cost(slot.machines) == 2 + 2 + 2 + 2 + 3


def test_the_cost_of_what_has_no_price_is_not_known() -> None:
    [slot] = sum_by_machine([interval(0, HOUR_NS), interval(0, HOUR_NS, price=None)], [0, DAY_NS])
    assert cost(slot.machines) is None
    assert cost({}) == 0
    [free] = sum_by_machine([interval(0, HOUR_NS, price=0.0)], [0, DAY_NS])
    assert cost(free.machines) == 0
