"""Child processes: each in a session of its own, so that a Ctrl-C reaches them only through their parent."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from tests.emulator.template import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

HOST = "127.0.0.1"


class StackError(Exception):
    """Something a person has to know, in one line."""


def is_free(port: int) -> bool:
    """Whether a server could listen at ``port`` now. Raises ``StackError`` where this user never may."""
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except PermissionError as error:
            msg = f"port {port} is not permitted to this user; take one from 1024 on (PORT=...)"
            raise StackError(msg) from error
        except OSError:
            return False
        return True


def free_port() -> int:
    """Return a port at which nothing listened a moment ago."""
    with closing(socket.socket()) as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


class Child:
    """A process that this one started, with its output in a file.

    With ``sign`` it is a Python module, which is sent that signal when this process is gone; see ``tether``.
    It keeps the files ``held`` open, and so their locks, until it has ended.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        env: Mapping[str, str],
        log: Path,
        sign: signal.Signals | None = None,
        held: Sequence[int] = (),
    ) -> None:
        if sign is not None:
            arguments = [sys.executable, "-m", "tests.emulator.tether", sign.name, *arguments]
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                arguments,
                env=env,
                cwd=ROOT,
                stdin=subprocess.DEVNULL if sign is None else subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=held,
            )

    @property
    def pid(self) -> int:
        """Its id, which is its process group's too."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is still there."""
        return self._process.poll() is None

    def wait_until_listening(self, port: int, timeout_seconds: float = 30) -> None:
        """Return when something accepts connections at ``port``; give up when the process is gone."""
        deadline = time.monotonic() + timeout_seconds
        while self.running and time.monotonic() < deadline:
            with closing(socket.socket()) as probe:
                if probe.connect_ex((HOST, port)) == 0:
                    return
            time.sleep(0.05)
        raise StackError(f"{self.name} does not listen at port {port}; its output is in {self.log}")

    def finish(self) -> int:
        """Wait for the process to end by itself and return its exit status. Interrupted, end it first."""
        try:
            return self._process.wait()
        except BaseException:
            self.stop(signal.SIGTERM, timeout_seconds=5)
            raise

    def stop(self, sign: signal.Signals, timeout_seconds: float) -> None:
        """Ask the process to end, insist after ``timeout_seconds``, and leave none of its children behind."""
        if self.running:
            self._process.send_signal(sign)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_seconds)
        # The session is the child's own, so its group holds nothing else.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
