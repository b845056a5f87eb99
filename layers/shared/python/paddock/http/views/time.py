"""Times, in the form that clients read."""

from __future__ import annotations

from datetime import UTC, datetime

from paddock.model.operation import SECOND_NS


def time_view(nanoseconds: int) -> str:
    """A time in ns since the epoch in ISO 8601, UTC, to the second."""
    return datetime.fromtimestamp(nanoseconds // SECOND_NS, UTC).isoformat()
