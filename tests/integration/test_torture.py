"""A short torture in each run of the tests, and the torture's own test: it finds deliberate faults.

``make torture`` does it for as long as one wants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.torture.deliberate import FAULTS
from tests.torture.run import torture

if TYPE_CHECKING:
    from pathlib import Path

SECONDS, SEED = 20, 20261130
# On a computer that has much else to do, a fault may take some time to show.
FAULT_SECONDS = 60


@pytest.mark.timeout(300)
def test_nothing_is_violated_whatever_processes_store_and_cloud_do(tmp_path: Path) -> None:
    found = torture(SECONDS, SEED, tmp_path)
    assert found.violations == []
    assert found.counts["ok"]


@pytest.mark.soak
@pytest.mark.timeout(FAULT_SECONDS + 240)
@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_deliberate_fault_is_found(tmp_path: Path, fault: str) -> None:
    assert torture(FAULT_SECONDS, SEED, tmp_path, fault).violations
