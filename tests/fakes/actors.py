"""Use cases that go on call by call, in an order that a test chooses.

An actor is a use case in a thread of its own, over ports that stop it before each call. It is let go on by
one call at a time, while everybody else stands still: so whoever lets actors go on decides how they
interleave, and the same decisions give the same run.
"""

from __future__ import annotations

import copy
from contextlib import suppress
from functools import partial
from threading import Semaphore, Thread
from typing import TYPE_CHECKING, Any, cast

from paddock.errors import ComputeThrottled, PaddockError, StoreThrottled, WorkflowsUnavailable
from paddock.ports.repository import WriteConflictError
from tests.fakes.clock import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fakes.clock import ManualClock
    from tests.fakes.world import World

    Call = Callable[[], Any]
    # How a call to a port, which is named first, comes out.
    Luck = Callable[[str, Call], Any]

_THROTTLED: dict[str, type[PaddockError]] = {
    "repository": StoreThrottled,
    "compute": ComputeThrottled,
    "workflows": WorkflowsUnavailable,
}


class Crash(BaseException):
    """The process is gone; nobody may catch it."""


def plainly(_: str, call: Call) -> Any:
    """Nothing goes wrong with the call."""
    return call()


def crash_before(_port: str, _call: Call) -> Any:
    """The process dies before the call."""
    raise Crash


def crash_after(_: str, call: Call) -> Any:
    """The process dies before the answer arrives."""
    with suppress(PaddockError, WriteConflictError):
        call()
    raise Crash


def throttle(port: str, call: Call) -> Any:
    """There are too many calls, and so it is not done; nobody throttles a pause."""
    if port not in _THROTTLED:
        return call()
    raise _THROTTLED[port]("not now")


class Actor:
    """One run of a use case: ``act`` is given a view of the world whose ports stop before each call.

    Its clock is ``ahead_seconds`` ahead of the world's, behind where that is negative. Once it ``has_ended``
    there is its ``answer``, or the ``error`` that it ended with.
    """

    def __init__(self, world: World, act: Callable[[World], object], ahead_seconds: float = 0) -> None:
        self.answer: object = None
        self.error: BaseException | None = None
        self.has_ended = False
        # The port and method that are called next.
        self.next_call = ("", "")
        self._how: Luck = plainly
        self._ahead_seconds = ahead_seconds
        self._may_go, self._stands = Semaphore(0), Semaphore(0)
        self._thread = Thread(target=self._run, args=(self._view(world), act), daemon=True)
        self._thread.start()
        self._stands.acquire()

    def go(self, how: Luck = plainly) -> None:
        """Make the next call, ``how`` says with what luck, and go on until the one after it."""
        assert not self.has_ended
        self._how = how
        self._may_go.release()
        self._stands.acquire()
        if self.has_ended:
            self._thread.join()

    def finish(self) -> None:
        """Make all calls that are left."""
        while not self.has_ended:
            self.go()

    def _view(self, world: World) -> World:
        view = copy.copy(world)
        for port in _THROTTLED:
            setattr(view, port, _Gate(port, getattr(world, port), self._stop))
        view.clock = cast("ManualClock", _GatedClock(world.clock, self._stop, self._ahead_seconds))
        return view

    def _run(self, view: World, act: Callable[[World], object]) -> None:
        try:
            self.answer = act(view)
        except BaseException as error:  # noqa: BLE001  # whoever let it go on looks at it
            self.error = error
        self.has_ended = True
        self._stands.release()

    def _stop(self, port: str, call: Call, method: str = "") -> Any:
        self.next_call = (port, method)
        self._stands.release()
        self._may_go.acquire()
        return self._how(port, call)


class _Gate:
    """A port each of whose methods stops before it acts."""

    def __init__(self, name: str, port: object, stop: Callable[..., Any]) -> None:
        self._name, self._port, self._stop = name, port, stop

    def __getattr__(self, method: str) -> Callable[..., Any]:
        act = getattr(self._port, method)
        if not callable(act):
            return act  # type: ignore[no-any-return]
        if method == "fits":
            # It leaves the process no more than a look at the clock does.
            return act  # type: ignore[no-any-return]
        return lambda *given, **named: self._stop(self._name, partial(act, *given, **named), method)


class _GatedClock:
    """Reading the clock goes on at once; a pause is where others get on."""

    def __init__(self, clock: ManualClock, stop: Callable[[str, Call], Any], ahead_seconds: float) -> None:
        self._clock, self._stop, self._ahead_seconds = clock, stop, ahead_seconds

    def now(self) -> int:
        return self._clock.now() + round(self._ahead_seconds * SECOND)

    def seconds(self) -> float:
        return self._clock.seconds() + self._ahead_seconds

    def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)

    def pause(self, attempt: int) -> None:
        self._stop("clock", partial(abs, attempt))
