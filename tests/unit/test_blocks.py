"""The shell blocks of the README and the docs survive being pasted into bash and zsh."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.blocks import Block, pasted

BLOCKS = pasted()
SHELLS = [shell for shell in ("bash", "zsh") if shutil.which(shell)]


def named(block: Block) -> str:
    return f"{block.page}:{block.line}"


def test_there_are_blocks() -> None:
    assert len(BLOCKS) > 10


@pytest.mark.parametrize("block", BLOCKS, ids=named)
def test_a_block_has_no_comments(block: Block) -> None:
    """A zsh at a terminal takes them for commands, and one apostrophe in them makes it wait for the rest."""
    assert re.findall(r"(?:^|\s)#.*$", block.text, re.MULTILINE) == []


@pytest.mark.parametrize("block", BLOCKS, ids=named)
def test_a_block_has_no_history_expansion(block: Block) -> None:
    """At a terminal, an exclamation mark inside double quotes calls an earlier command back."""
    assert re.findall(r'"[^"\n]*![^"\n]*"', re.sub(r"'[^']*'", "''", block.text)) == []


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("block", BLOCKS, ids=named)
def test_a_block_can_be_read_by_the_shell(block: Block, shell: str) -> None:
    text = re.sub(r"<[^<>\n]+>", "placeholder", block.text)
    read = subprocess.run([shell, "-n", "-c", text], capture_output=True, text=True, check=False)
    assert (read.returncode, read.stderr) == (0, "")


@pytest.mark.parametrize("block", BLOCKS, ids=named)
def test_nothing_is_deleted_in_a_block_that_also_makes_what_replaces_it(block: Block) -> None:
    """Who pastes a block cannot look in between."""
    assert not ("delete-table" in block.text and re.search(r"create-backup|restore-table", block.text))


def test_a_backup_is_waited_for_before_the_table_is_deleted() -> None:
    text = "".join(block.text for block in BLOCKS if block.page == "README.md")
    deleted = text.index('delete-table --table-name "$TABLE"\n')
    assert text.index("create-backup") < text.index("grep AVAILABLE") < deleted
