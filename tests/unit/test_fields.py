"""docs/api.md has every field of what clients send, and no other; its example is a definition."""

from __future__ import annotations

import json
import re

import pytest

from paddock.requests.bodies import ClusterWrite
from tests.generated import MODELS
from tests.pages import DOCS

TEXT = (DOCS / "api.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("heading", MODELS)
def test_each_field_is_told_and_whether_it_is_required(heading: str) -> None:
    [section] = re.findall(rf"^## {heading}(?::[^\n]*)?\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    told = {name: bool(star) for name, star in re.findall(r"^\| `(\w+)`(\*?) \|", section, re.MULTILINE)}
    fields = MODELS[heading].model_fields
    assert told == {field.alias: field.is_required() for field in fields.values()}


def test_the_example_is_a_definition() -> None:
    [example] = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
    ClusterWrite.model_validate(json.loads(example))
