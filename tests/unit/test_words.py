"""Retired words do not come back: a term has one name, and it is the field's."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# The retired word, and the field's that is used now. In code a word is a part of a name between underscores.
RETIRED = {
    "heal": "reconcile (Kubernetes)",
    "healed": "relaunched",
    "launcher": "launching_operation_id",
    "movable": "may_fall_back",
    "offers": "offerings (Karpenter)",
    "outlived": "drift",
    "shortage": "insufficient capacity, or fallback to another bucket",
    "unmet": "unsatisfied",
    "until_won": "retry_on_conflict (client-go)",
    "wish": "desired (Kubernetes)",
    "fan_out": "enqueue",
    "managed_by": "managing_operation_id",
    "give_back": "release_claims",
    "left_over": "failed nodes",
    "suspects": "drifted",
}
# Words that name no thing. The product's code says `node`, `instance_id` or `operation` instead.
PRONOUNS = {"every", "it", "one", "some"}
CODE = [
    path for part in ("layers/shared", "functions", "tests") for path in sorted((ROOT / part).rglob("*.py"))
]
PRODUCT = [path for path in CODE if path.relative_to(ROOT).parts[0] != "tests"]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def names(source: str) -> set[str]:
    """All names that a source has: of variables, functions, modules and fields."""
    return {
        token.string
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.NAME
    }


def retired_in(name: str) -> list[str]:
    """The retired words that a name is made of."""
    return [word for word in RETIRED if re.search(rf"(^|_){word}(_|$)", name.lower())]


@pytest.mark.parametrize("path", CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_name_has_a_retired_word(path: Path) -> None:
    found = {
        name: [RETIRED[word] for word in words]
        for name in {path.stem, *names(path.read_text())}
        if not name.startswith("test_") and (words := retired_in(name))
    }
    assert found == {}


@pytest.mark.parametrize("path", PRODUCT, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_variable_bears_the_name_of_its_thing(path: Path) -> None:
    assert names(path.read_text()) & PRONOUNS == set()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_page_has_a_retired_word(path: Path) -> None:
    text = path.read_text().lower()
    words = {
        word: now for word, now in RETIRED.items() if re.search(rf"\b{word.replace('_', '[_ -]')}\b", text)
    }
    assert words == {}


def test_a_pronoun_is_noticed() -> None:
    assert names("ids = [one.id for one in nodes]") & PRONOUNS == {"one"}
    assert names("ids = [node.id for node in someone]  # one of some") & PRONOUNS == set()


def test_a_retired_word_is_noticed() -> None:
    assert retired_in("heal_unmet") == ["heal", "unmet"]
    assert retired_in("healthz") == []
    assert names("one = two.three(four=5)  # six") == {"one", "two", "three", "four"}
