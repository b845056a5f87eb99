"""Containers reach what listens on 127.0.0.1 by the address that they are given, while that lasts."""

from __future__ import annotations

import socket
import threading

import pytest

from tests.emulator.forward import forwarded
from tests.emulator.processes import StackError


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
