"""The README's tour, as it is pasted, twice."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.blocks import pasted
from tests.emulator.local import DEMO_CLUSTER, DEMO_DEFINITION

if TYPE_CHECKING:
    from pathlib import Path

    from tests.emulator.stack import Stack

TOUR = [
    block.text
    for block in pasted()
    if (block.page, block.heading) == ("README.md", "Ten minutes") and "PADDOCK_URL/" in block.text
]
SHELLS = [shell for shell in ("bash", "zsh") if shutil.which(shell)]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_tour_can_be_done_twice(stack: Stack, tmp_path: Path, shell: str) -> None:
    stack.ensure_cluster(DEMO_CLUSTER, DEMO_DEFINITION)
    (tmp_path / ".local").mkdir()
    environment = {"PATH": os.environ["PATH"], "PADDOCK_URL": stack.base_url}
    for _ in range(2):
        done = subprocess.run(
            [shell, "-c", "set -e\n" + "".join(TOUR)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=150,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        statuses = [
            status for status in re.findall(r"^HTTP (\d+)$", done.stdout, re.MULTILINE) if status != "000"
        ]
        assert statuses[:2] == ["200", "202"]
        assert statuses[-7:] == ["200", "200", "200", "409", "200", "200", "202"]
