"""`make logs`: every line once, however many there are, and a word when what it follows has ended."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import EndpointConnectionError

from tests.emulator import logs
from tests.emulator.logs import LATE_MS, Tail
from tests.emulator.running import Running

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT = 4


class Emulator:
    """Logs as ministack has them: the oldest of what was asked for, no more than so many, and no token."""

    def __init__(self, *events: tuple[int, str]) -> None:
        self.events = list(events)

    def filter_log_events(self, *, logGroupName: str, startTime: int) -> dict[str, Any]:  # noqa: N803
        assert logGroupName == logs.GROUP
        found = sorted((event for event in self.events if event[0] >= startTime), key=lambda event: event[0])
        return {"events": [{"timestamp": at, "message": text} for at, text in found[:LIMIT]]}


class Ended:
    def filter_log_events(self, **_: object) -> dict[str, Any]:
        raise EndpointConnectionError(endpoint_url="http://127.0.0.1:4566")


def read(tail: Tail) -> Sequence[str]:
    return [event["message"] for event in tail.read()]


@pytest.mark.parametrize("count", [0, 1, LIMIT, LIMIT + 1, 5 * LIMIT])
def test_all_that_there_is_is_read_once(count: int) -> None:
    emulator = Emulator(*((1_000 * number, f"{number}") for number in range(count)))
    tail = Tail(emulator)
    assert read(tail) == [f"{number}" for number in range(count)]
    assert read(tail) == []


def test_what_comes_later_is_read_once_also_beyond_the_limit_and_at_the_same_time() -> None:
    emulator = Emulator((1_000, "a"), (1_000, "b"))
    tail = Tail(emulator)
    assert read(tail) == ["a", "b"]
    for number in range(3 * LIMIT):
        emulator.events.append((1_001 + number // 2, f"{number}"))
    assert read(tail) == [f"{number}" for number in range(3 * LIMIT)]
    assert read(tail) == []


def test_a_line_of_another_function_that_arrives_late_is_read() -> None:
    emulator = Emulator((100_000, "first"))
    tail = Tail(emulator)
    read(tail)
    emulator.events.append((100_000 - LATE_MS, "late"))
    assert read(tail) == ["late"]
    assert read(tail) == []


def test_it_says_that_what_it_follows_has_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logs, "find", lambda: Running("http://127.0.0.1:4566", ""))
    monkeypatch.setattr(logs, "connect", lambda _: Ended())
    assert logs.main([]) == 1
    assert capsys.readouterr().err == "paddock: `make local` does not answer any more\n"


def test_once_prints_the_lines_of_an_operation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        json.dumps({"level": "INFO", "message": "did", "operation_id": one}) for one in ("mine", "other")
    ]
    monkeypatch.setattr(logs, "find", lambda: Running("http://127.0.0.1:4566", ""))
    monkeypatch.setattr(logs, "connect", lambda _: Emulator((1, lines[0]), (2, lines[1])))
    assert logs.main(["--once", "--operation", "mine"]) == 0
    assert capsys.readouterr().out.count("\n") == 1
