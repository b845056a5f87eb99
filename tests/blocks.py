"""The shell blocks of README.md and docs/, as a person pastes them."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.emulator.template import ROOT


class Block(NamedTuple):
    """A block of a page: where it begins (its line), the heading that it stands under, and its text."""

    page: str
    line: int
    heading: str
    text: str


def pasted() -> list[Block]:
    """All blocks of commands. Scripts, which are files of their own, are ``bash`` blocks instead."""
    found: list[Block] = []
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            before = text[: match.start()]
            headings = re.findall(r"^#+ (.*)$", before, re.MULTILINE)
            found.append(Block(path.name, before.count("\n") + 1, headings[-1] if headings else "", match[1]))
    return found
