"""The shell blocks of the README and the docs survive being pasted into bash and zsh."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.blocks import Block, fences, pasted, unquoted

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
    read = subprocess.run([shell, "-n", "-c", block.text], capture_output=True, text=True, check=False)
    assert (read.returncode, read.stderr) == (0, "")


@pytest.mark.parametrize("block", BLOCKS, ids=named)
def test_a_block_has_no_placeholders(block: Block) -> None:
    """``<the ARN>`` reads a file and writes another; ``<the role's ARN>`` waits for the quote to end."""
    assert re.findall(r"<[^<>\n]+>", block.text) == []


@pytest.mark.parametrize("block", BLOCKS, ids=named)
def test_a_block_has_no_patterns_of_file_names(block: Block) -> None:
    """A zsh does not call a command if no file fits: ``curl http://paddock/nodes?operation=1``."""
    assert re.findall(r"\S*[?*\[]\S*|(?<!\S)=\S+", unquoted(block.text)) == []


@pytest.mark.parametrize("block", BLOCKS, ids=named)
def test_a_block_splits_no_variables(block: Block) -> None:
    """A bash makes several arguments of ``$OPTIONS``, and a zsh one."""
    assert re.findall(r"(?<!\S)\$\w+", unquoted(block.text)) == []


@pytest.mark.parametrize("block", BLOCKS, ids=named)
def test_a_block_sets_no_variable_that_zsh_keeps_for_itself(block: Block) -> None:
    special = (
        r"(?:status|path|cdpath|fpath|mailpath|manpath|module_path|argv|options|aliases|commands|history)"
    )
    assert (
        re.findall(
            rf"^\s*{special}=|\bread (?:-\w+ )*{special}\b|\bfor {special}\b", block.text, re.MULTILINE
        )
        == []
    )


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("block", BLOCKS, ids=named)
def test_a_block_gives_no_function_the_name_of_a_command(block: Block, shell: str) -> None:
    """The shell that it was pasted into would go on with another ``functions``, which zsh has itself."""
    for name in re.findall(r"^(\w+)\(\)", block.text, re.MULTILINE):
        known = subprocess.run([shell, "-c", f"type {name}"], capture_output=True, text=True, check=False)
        assert known.returncode != 0, known.stdout


@pytest.mark.parametrize("block", BLOCKS, ids=named)
def test_what_a_block_asks_for_is_shown_also_where_it_is_refused(block: Block) -> None:
    """``curl -sf`` says nothing at all to a wrong password, or to a block that is pasted again."""
    options = re.findall(r"\bcurl -(\w+)", block.text)
    assert [given for given in options if "f" in given or "S" not in given] == []


@pytest.mark.parametrize("block", BLOCKS, ids=named)
def test_a_block_leaves_no_files_outside_of_local(block: Block) -> None:
    """They would lie among the sources, for the next commit."""
    files = re.findall(r"(?:>|\s-o) *([^\s&|]+)", unquoted(block.text))
    assert [file for file in files if not file.startswith(".local/")] == []


@pytest.mark.parametrize("block", BLOCKS, ids=named)
def test_what_stays_in_the_foreground_is_alone_in_its_block(block: Block) -> None:
    """What is pasted after it is its input, and is lost."""
    stays = re.findall(r"^.*(?:make local\b(?!-)|make logs\b|sam local start-).*$", block.text, re.MULTILINE)
    assert not stays or block.text.strip() == stays[0]


def test_each_block_says_what_it_is() -> None:
    """A block of commands with another name would not be looked at here."""
    assert {kind for _, _, kind in fences()} <= {"sh", "bash", "json", "text", "mermaid"}


@pytest.mark.parametrize(
    ("text", "is_left"),
    [
        ("echo '$A' \"$B *\" $C", "echo _ _ $C"),
        ("""-d '{"a": "'$TOUR'", "b": 1}'""", "-d _$TOUR_"),
        (r"""echo it\'s "a \" b" *""", "echo it_s _ *"),
    ],
)
def test_what_is_quoted_is_found(text: str, is_left: str) -> None:
    assert unquoted(text) == is_left


@pytest.mark.parametrize("block", BLOCKS, ids=named)
def test_nothing_is_deleted_in_a_block_that_also_makes_what_replaces_it(block: Block) -> None:
    """Who pastes a block cannot look in between."""
    assert not ("delete-table" in block.text and re.search(r"create-backup|restore-table", block.text))


def test_a_backup_is_waited_for_before_the_table_is_deleted() -> None:
    text = "".join(block.text for block in BLOCKS if block.page == "restore.md")
    deleted = text.index('delete-table --table-name "$TABLE"\n')
    assert text.index("create-backup") < text.index("grep AVAILABLE") < deleted
