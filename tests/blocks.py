"""The shell blocks of README.md and docs/, as a person pastes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from tests.pages import PATHS

if TYPE_CHECKING:
    from pathlib import Path


class Block(NamedTuple):
    """A block of a page: where it begins (its line), the heading that it stands under, and its text."""

    page: str
    line: int
    heading: str
    text: str


def fences() -> list[tuple[Path, re.Match[str], str]]:
    """All blocks of all pages: the page, where it stands, and the word that says what it is."""
    return [
        (path, match, match[1])
        for path in PATHS
        for match in re.finditer(
            r"^```([^\n]*)\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )
    ]


def pasted() -> list[Block]:
    """All blocks of commands. Scripts, which are files of their own, are ``bash`` blocks instead."""
    found: list[Block] = []
    for path, match, kind in fences():
        if kind == "sh":
            before = match.string[: match.start()]
            headings = re.findall(r"^#+ (.*)$", before, re.MULTILINE)
            found.append(Block(path.name, before.count("\n") + 1, headings[-1] if headings else "", match[2]))
    return found


def unquoted(text: str) -> str:
    """The text with ``_`` for each part that is quoted, by quotation marks or by a backslash."""
    return re.sub(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.""", "_", text, flags=re.DOTALL)
