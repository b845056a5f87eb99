"""Values and counts in messages to clients."""

from __future__ import annotations

import pytest

from paddock.model.wording import counted


@pytest.mark.parametrize(
    ("count", "message"), [(0, "0 nodes were lost"), (1, "1 node was lost"), (2, "2 nodes were lost")]
)
def test_words_agree_with_their_count(count: int, message: str) -> None:
    assert counted(count, "node was lost", "nodes were lost") == message
