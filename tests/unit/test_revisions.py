"""No change can be written under the revision of what it replaces."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paddock.model.base import MAX_REVISION
from paddock.model.identity import next_revision, revised_at
from paddock.model.ledger import Ledger
from paddock.ports.repository import Put

BEFORE = Ledger(cluster="demo", revision=7)
YEAR_2200_NS = 7_258_118_400 * 10**9


@pytest.mark.parametrize("revision", [6, 7])
def test_a_write_that_does_not_raise_the_revision_cannot_be_made(revision: int) -> None:
    """Else it would succeed, and so would the next write of somebody who had read the record before it."""
    with pytest.raises(ValueError, match="must raise the revision above 7"):
        Put(replace(BEFORE, revision=revision), was=BEFORE)


def test_a_write_that_raises_the_revision_can_be_made() -> None:
    assert Put(replace(BEFORE, revision=8), was=BEFORE).record.revision == 8


def test_a_new_record_has_a_revision() -> None:
    with pytest.raises(ValueError, match="must raise the revision above 0"):
        Put(replace(BEFORE, revision=0), was=None)


def test_revisions_are_numbers_that_javascript_keeps_exact() -> None:
    assert next_revision(YEAR_2200_NS) < MAX_REVISION == 2**53 - 1


def test_a_revision_tells_about_when_it_was_made() -> None:
    assert revised_at(next_revision(YEAR_2200_NS + 999)) == YEAR_2200_NS
