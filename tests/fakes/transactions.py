"""Transactions of a few writes, so that what takes hundreds of nodes is seen with ten."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

MAX_WRITES = 8
# The least that a claim with a launch can do with.
MAX_WRITES_OF_A_CLAIM = 6


def make_transactions_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a transaction have 8 writes at most, and one with a virtual cluster's record 6."""
    monkeypatch.setattr("paddock.service.claims.MAX_WRITES", MAX_WRITES_OF_A_CLAIM)
    for module in ("paddock.service.contention", "paddock.service.settling", "paddock.service.manage_nodes"):
        monkeypatch.setattr(f"{module}.MAX_WRITES", MAX_WRITES)
    monkeypatch.setattr("paddock.service.settling._NODES_PER_WRITE", (MAX_WRITES - 2) // 2)
    monkeypatch.setattr("paddock.service.manage_nodes._NODES_PER_WRITE", MAX_WRITES - 3)
    monkeypatch.setattr("tests.fakes.repository.MAX_WRITES", MAX_WRITES)
