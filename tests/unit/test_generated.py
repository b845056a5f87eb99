"""The tables of docs/ that are made from the code are as `make docs` makes them, and each has its meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import proofs
from tests.generated import UNWRITTEN, Generated, generated
from tests.pages import table

if TYPE_CHECKING:
    from pathlib import Path

GENERATED = list(generated())


def named(one: Generated) -> str:
    return f"{one.page.stem}-{one.heading}"


@pytest.mark.parametrize("one", GENERATED, ids=named)
def test_a_table_is_as_make_docs_writes_it(one: Generated) -> None:
    text = one.page.read_text(encoding="utf-8")
    assert one.written(text) == text, "make docs"


@pytest.mark.parametrize("one", GENERATED, ids=named)
def test_each_row_says_what_it_means(one: Generated) -> None:
    assert f"| {UNWRITTEN} |" not in one.written(one.page.read_text(encoding="utf-8"))


def test_a_new_row_gets_its_facts_and_keeps_what_others_mean(tmp_path: Path) -> None:
    text = "# Page\n\n## Fields\n\n" + table(["field", "value", "meaning"], [["`a`", "string", "the first"]])
    one = Generated(
        tmp_path, "Fields", ["field", "value"], [["`a`", "integer"], ["`b`", "object"]], "meaning"
    )
    rows = [["`a`", "integer", "the first"], ["`b`", "object", UNWRITTEN]]
    assert one.written(text) == "# Page\n\n## Fields\n\n" + table(["field", "value", "meaning"], rows)


def test_each_claim_is_an_answer_a_change_of_state_or_an_event() -> None:
    """One that is misspelt would be taken for an event, and its row would be missing elsewhere."""
    assert proofs.answers()
    assert proofs.changes()
    assert [claim for claim in proofs.events() if "→" in claim or claim.startswith(("GET ", "POST "))] == []
