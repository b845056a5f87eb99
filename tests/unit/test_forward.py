"""Containers reach what listens on 127.0.0.1 by the address that they are given, while that lasts."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading

import pytest

from tests.emulator.forward import forwarded
from tests.emulator.processes import StackError
from tests.emulator.template import ROOT


def serve_once(listener: socket.socket) -> None:
    """Answer what a client sent, reversed, when it has sent all of it."""
    connection, _ = listener.accept()
    with connection:
        received = b"".join(iter(lambda: connection.recv(65_536), b""))
        connection.sendall(received[::-1])


def test_a_connection_is_passed_on_both_ways_and_its_ends_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        server = threading.Thread(target=serve_once, args=(listener,))
        server.start()
        # Every address that begins with 127 is this computer's own.
        with forwarded("127.0.0.2", [port]), socket.create_connection(("127.0.0.2", port)) as client:
            client.sendall(b"abc" * 100_000)
            client.shutdown(socket.SHUT_WR)
            assert b"".join(iter(lambda: client.recv(65_536), b"")) == b"cba" * 100_000
        server.join()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port))


def test_an_address_that_this_computer_does_not_have_is_told_in_one_line() -> None:
    with (
        pytest.raises(StackError, match=r"^cannot listen at 192\.0\.2\.77:4566: "),
        forwarded("192.0.2.77", [4566]),
    ):
        pass


def test_make_local_is_told_the_address_and_refuses_a_public_one_before_it_starts() -> None:
    command = ["make", "--dry-run", "local", "CONTAINERS=172.17.0.1"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert '--containers "172.17.0.1"' in told.stdout

    command = [sys.executable, "-m", "tests.emulator.local", "--containers", "0.0.0.0"]  # noqa: S104
    refused = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("paddock: CONTAINERS must be one private IPv4 address")
    assert refused.stderr.count("\n") == 1
