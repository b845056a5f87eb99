"""Times, in the form that clients read."""

from __future__ import annotations

from datetime import UTC, datetime

from paddock.model.time import SECOND_NS


def time_view(nanoseconds: int) -> str:
    """A time in ns since the epoch in ISO 8601, UTC, to the second: ``2026-11-30T23:00:00Z``."""
    return datetime.fromtimestamp(nanoseconds // SECOND_NS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
