"""Ports: one that this user may not have is told in one line, with what to do."""

from __future__ import annotations

import socket

import pytest

from tests.emulator.processes import StackError, is_free


def test_a_port_that_this_user_may_not_have_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """PORT=80; it cannot be tried as root, who may have every port."""

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(StackError, match=r"^port 80 is not permitted to this user; .*PORT=") as problem:
        is_free(80)
    assert "\n" not in str(problem.value)


def test_a_port_where_something_listens_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not is_free(server.getsockname()[1])
