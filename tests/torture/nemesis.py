"""What goes wrong, from one seed: processes die, sleep and misread time; store and cloud fail."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.torture.clock import SPEED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from multiprocessing.context import ForkServerContext
    from multiprocessing.process import BaseProcess
    from random import Random

    from tests.emulator.client import Client
    from tests.torture.clock import Times
    from tests.torture.process import Run

    Main = Callable[[Run, str, int, int], None]

MAX_SKEW_SECONDS = 45
# Beyond every grace period that a claim, a request or a lost instance has.
LONG_PAUSES_SECONDS = (70, 130, 200, 400)
SHORT_PAUSES_SECONDS = (5, 15, 30)
# The last one is longer than a call may take.
STORE_PAUSES_SECONDS = (0.2, 0.5, 3.5)
CODES = ("RequestLimitExceeded", "InternalError", "Unavailable", "AnswerLost")
CALLS = ("CreateFleet", "DescribeInstances", "TerminateInstances", "StartInstances", "StopInstances")


@dataclass
class _Slot:
    name: str
    main: Main
    number: int
    life: int = 0
    process: BaseProcess | None = None
    sleeps_until: float = 0


class Herd:
    """The processes that are at work, each of which is started again once it has ended."""

    def __init__(self, run: Run, context: ForkServerContext, roles: Mapping[str, tuple[Main, int]]) -> None:
        self._run, self._context = run, context
        self._slots: list[_Slot] = []
        for role, (main, count) in roles.items():
            for index in range(count):
                self._slots.append(_Slot(f"{role}-{index}", main, len(self._slots) + 1))

    def tend(self) -> None:
        """Start those that have ended, and wake those that have slept."""
        for slot in self._slots:
            if slot.process is None or not slot.process.is_alive():
                slot.life += 1
                given = (self._run, slot.name, slot.number, slot.life)
                slot.process = self._context.Process(target=slot.main, args=given, daemon=True)
                slot.process.start()
                slot.sleeps_until = 0
            elif slot.sleeps_until and time.monotonic() >= slot.sleeps_until:
                slot.sleeps_until = 0
                self._signal(slot, signal.SIGCONT)

    def kill(self, choose: Random) -> None:
        """Let one die, wherever it is."""
        self._signal(choose.choice(self._slots), signal.SIGKILL)

    def pause(self, choose: Random, seconds: float) -> None:
        """Let one sleep, wherever it is."""
        slot = choose.choice(self._slots)
        if not slot.sleeps_until:
            slot.sleeps_until = time.monotonic() + seconds / SPEED
            self._signal(slot, signal.SIGSTOP)

    def skew(self, choose: Random, times: Times, seconds: float) -> None:
        """Let one's clock be wrong."""
        times.skew(choose.choice(self._slots).number, seconds)

    def calm(self, times: Times) -> None:
        """All are awake, and know the time."""
        for slot in self._slots:
            times.skew(slot.number, 0)
            slot.sleeps_until = 0
            self._signal(slot, signal.SIGCONT)

    def end(self, role: str = "") -> None:
        """End those of a role, or all."""
        for slot in [one for one in self._slots if one.name.startswith(role)]:
            self._signal(slot, signal.SIGKILL)
            if slot.process is not None:
                slot.process.join()
            self._slots.remove(slot)

    @staticmethod
    def _signal(slot: _Slot, sign: signal.Signals) -> None:
        if slot.process is not None and slot.process.is_alive() and slot.process.pid:
            os.kill(slot.process.pid, sign)


class Nemesis:
    """Does one bad thing at a time, and counts them."""

    def __init__(self, herd: Herd, times: Times, choose: Random, store: int, cloud: Client) -> None:
        self._herd, self._times, self._choose = herd, times, choose
        self._store, self._cloud = store, cloud
        self.done: Counter[str] = Counter()

    def act(self) -> None:
        """One more."""
        acts = {
            self._kill: 6,
            self._sleep: 5,
            self._sleep_long: 2,
            self._skew: 3,
            self._pause_store: 1,
            self._fail_cloud: 4,
            self._no_capacity: 1,
            self._capacity: 3,
            self._end_instance: 1,
        }
        [chosen] = self._choose.choices(list(acts), list(acts.values()))
        chosen()
        self.done[chosen.__name__.strip("_")] += 1

    def calm(self) -> None:
        """Nothing is wrong any more."""
        os.killpg(self._store, signal.SIGCONT)
        self._herd.calm(self._times)
        self._capacity()

    def _kill(self) -> None:
        self._herd.kill(self._choose)

    def _sleep(self) -> None:
        self._herd.pause(self._choose, self._choose.choice(SHORT_PAUSES_SECONDS))

    def _sleep_long(self) -> None:
        self._herd.pause(self._choose, self._choose.choice(LONG_PAUSES_SECONDS))

    def _skew(self) -> None:
        seconds = self._choose.uniform(-MAX_SKEW_SECONDS, MAX_SKEW_SECONDS)
        self._herd.skew(self._choose, self._times, seconds)

    def _pause_store(self) -> None:
        os.killpg(self._store, signal.SIGSTOP)
        time.sleep(self._choose.choice(STORE_PAUSES_SECONDS))
        os.killpg(self._store, signal.SIGCONT)

    def _fail_cloud(self) -> None:
        code, call = self._choose.choice(CODES), self._choose.choice(CALLS)
        after = code in ("InternalError", "AnswerLost") and self._choose.random() < 0.5
        times = self._choose.randint(1, 6)
        self._door("fail_next", operation=call, code=code, times=times, after_effect=after)

    def _no_capacity(self) -> None:
        self._door("capacity", remaining=self._choose.randint(0, 3))

    def _capacity(self) -> None:
        self._door("capacity", remaining=None)

    def _end_instance(self) -> None:
        instances = self._cloud.get("/_fake/state").json()["state"]["instances"].values()
        alive = sorted(one["id"] for one in instances if one["terminated_at"] is None)
        if alive:
            self._door("end", instance_id=self._choose.choice(alive))

    def _door(self, name: str, **arguments: object) -> None:
        reply = self._cloud.post(f"/_fake/{name}", arguments)
        assert reply.status == 200, reply.body


def context() -> ForkServerContext:
    """Processes that are forked from one that has read everything already, so that they start at once."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(["tests.torture.roles", "tests.torture.cloud"])
    return made
