"""Revisions are numbers that clients keep exact, and tell when they were made."""

from __future__ import annotations

from paddock.model.base import MAX_REVISION
from paddock.model.identity import next_revision, revised_at

YEAR_2200_NS = 7_258_118_400 * 10**9


def test_revisions_are_numbers_that_javascript_keeps_exact() -> None:
    assert next_revision(YEAR_2200_NS) < MAX_REVISION == 2**53 - 1


def test_a_revision_tells_about_when_it_was_made() -> None:
    assert revised_at(next_revision(YEAR_2200_NS + 999)) == YEAR_2200_NS
