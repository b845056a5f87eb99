"""Times and spans: all are whole nanoseconds."""

from __future__ import annotations

SECOND_NS = 1_000_000_000
HOUR_NS = 3600 * SECOND_NS
DAY_NS = 24 * HOUR_NS
