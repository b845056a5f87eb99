"""Transactions of a few writes, so that what takes hundreds of nodes is seen with ten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.adapters.dynamodb.repository import DynamoDbRepository
from tests.fakes.repository import FakeRepository

if TYPE_CHECKING:
    import pytest

# The least that a claim with a launch can do with.
MAX_WRITES = 6


def make_transactions_small(monkeypatch: pytest.MonkeyPatch, most: int = MAX_WRITES) -> None:
    """Let a transaction have so many writes at most."""
    for repository in (FakeRepository, DynamoDbRepository):
        monkeypatch.setattr(repository, "max_writes", most)
