"""Each link from one page to another leads somewhere: the file exists, and it has the heading."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.emulator.template import ROOT
from tests.pages import PATHS

if TYPE_CHECKING:
    from pathlib import Path

# Pages that are linked to, beside those that have links themselves.
PAGES = [*PATHS, ROOT / "CHANGELOG.md"]


def prose(path: Path) -> str:
    """The page without its blocks of code, in which a bracket is no link and a hash is no heading."""
    return re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        repeated = sum(1 for anchor in found if re.fullmatch(rf"{re.escape(slug)}(-\d+)?", anchor))
        found.add(f"{slug}-{repeated}" if repeated else slug)
    return found


LINKS = [
    (path, target)
    for path in PAGES
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path))
    if not target.startswith(("http://", "https://"))
]


@pytest.mark.parametrize(("page", "target"), LINKS, ids=lambda part: getattr(part, "name", part))
def test_each_link_leads_somewhere(page: Path, target: str) -> None:
    file, _, anchor = target.partition("#")
    path = (page.parent / file).resolve() if file else page
    assert path.exists(), target
    assert not anchor or anchor in anchors(path), target


@pytest.mark.parametrize("page", PATHS[1:], ids=lambda path: path.stem)
def test_each_page_can_be_reached_from_the_readme(page: Path) -> None:
    reached, left = {PATHS[0]}, [PATHS[0]]
    while left:
        source = left.pop()
        for path, target in LINKS:
            found = (path.parent / target.partition("#")[0]).resolve()
            if path == source and found in PATHS and found not in reached:
                reached.add(found)
                left.append(found)
    assert page in reached


@pytest.mark.parametrize("page", PATHS, ids=lambda path: path.stem)
def test_a_page_that_is_named_in_code_style_exists(page: Path) -> None:
    """``docs/restore.md`` in a sentence is no link, and has to be there all the same."""
    named = re.findall(r"\bdocs/[\w/.-]+\.md", page.read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []
