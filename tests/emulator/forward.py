"""Lets containers reach what listens on 127.0.0.1, by the same port at the address of a Docker bridge."""

from __future__ import annotations

import ipaddress
import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tests.emulator.processes import HOST, StackError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CHUNK_BYTES = 65_536


def check_address(text: str) -> str:
    """Return ``text`` if it is one private address; raise StackError where others could reach it."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        address = None
    if address is None or address.version != 4 or address.is_unspecified or not address.is_private:
        raise StackError(
            f"CONTAINERS must be one private IPv4 address, such as Docker's 172.17.0.1, not {text!r}"
        )
    return text


@contextmanager
def forwarded(address: str, ports: Sequence[int]) -> Iterator[None]:
    """While this lasts, pass connections to ``ports`` at ``address`` on to those of 127.0.0.1."""
    listeners: list[socket.socket] = []
    try:
        for port in ports:
            try:
                listeners.append(socket.create_server((address, port)))
            except OSError as error:
                raise StackError(f"cannot listen at {address}:{port}: {error.strerror}") from error
        for listener, port in zip(listeners, ports, strict=True):
            threading.Thread(target=_accept, args=(listener, port), daemon=True).start()
        yield
    finally:
        for listener in listeners:
            # Closing alone does not wake the thread that waits for a connection.
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()


def _accept(listener: socket.socket, port: int) -> None:
    with suppress(OSError):
        while True:
            outer, _ = listener.accept()
            threading.Thread(target=_join, args=(outer, port), daemon=True).start()


def _join(outer: socket.socket, port: int) -> None:
    """Pass on both ways until both sides have ended."""
    with outer, suppress(OSError), socket.create_connection((HOST, port)) as inner:
        back = threading.Thread(target=_copy, args=(inner, outer), daemon=True)
        back.start()
        _copy(outer, inner)
        back.join()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(CHUNK_BYTES):
            sink.sendall(chunk)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
