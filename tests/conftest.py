"""What tests count is added up over all of them, in whatever process each ran, and told at the end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the sum of each number that tests recorded with ``record_property``."""
    totals: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            # The last report of a test has all that the test and its fixtures recorded.
            if getattr(report, "when", "") == "teardown":
                totals.update(dict(report.user_properties))
    if totals:
        terminalreporter.line("counted: " + ", ".join(f"{n} {what}" for what, n in sorted(totals.items())))
