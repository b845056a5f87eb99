"""How tests are shared out to several processes, and the sum of what they counted there."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

# Files whose tests take long, so that one process should not have all of them.
SPLIT = {"test_crash_sweep.py", "test_virtual_clusters_stateful.py"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Give a process a file at a time: to share out thousands of tests singly costs more than they do."""
    for item in items:
        if item.path.name not in SPLIT and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


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
