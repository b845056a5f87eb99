"""`python -m tests.emulator.machine`: it finds the running `make local`, and says in a line what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.emulator import machine
from tests.emulator.client import Reply
from tests.emulator.processes import free_port
from tests.emulator.running import Running, find, told

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INSTANCE = "i-0123456789abcdef0"


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where `make local` says that it runs; nobody answers there."""
    address = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setattr(machine, "find", lambda: find(tmp_path / "running.json"))
    with told(Running(address, ""), tmp_path / "running.json"):
        yield address


def test_it_asks_where_make_local_runs(
    address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine, "ask_as", lambda *asked: Reply(200, {}, " ".join(asked).encode()))
    assert machine.main([INSTANCE]) == 0
    assert capsys.readouterr().out == f"{address} {INSTANCE}\n"


@pytest.mark.parametrize("name", ["ondemand-1", "x", "", "i-0", "i-0123456789abcdef0 "])
@pytest.mark.usefixtures("address")
def test_what_is_no_instance_is_told(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert machine.main([name]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line == f"paddock: name the instance, such as {INSTANCE}, not {name!r}"


@pytest.mark.usefixtures("address")
def test_it_says_that_nobody_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert machine.main([INSTANCE]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line == "paddock: `make local` does not answer"


def test_it_says_that_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine, "find", lambda: find(tmp_path / "running.json"))
    assert machine.main([INSTANCE]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line == "paddock: `make local` must be running, in another terminal"
