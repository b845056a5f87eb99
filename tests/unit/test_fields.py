"""docs/api.md has every field of what clients send, and no other; its example is a definition."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from paddock.model.definition import Bucket, LaunchTemplate, NodeArray
from paddock.model.requests import (
    ClusterWrite,
    NodeCreationRequest,
    NodeManagementRequest,
    NodeSet,
    ScaleRequest,
    VirtualClusterWrite,
)
from tests.pages import DOCS

if TYPE_CHECKING:
    from pydantic import BaseModel

TEXT = (DOCS / "api.md").read_text(encoding="utf-8")
SECTIONS: dict[str, type[BaseModel]] = {
    "Definition": ClusterWrite,
    "Node array": NodeArray,
    "Launch template": LaunchTemplate,
    "Bucket": Bucket,
    "Request": NodeCreationRequest,
    "Set": NodeSet,
    "Action": NodeManagementRequest,
    "Scale": ScaleRequest,
    "Virtual cluster": VirtualClusterWrite,
}


@pytest.mark.parametrize("heading", SECTIONS)
def test_each_field_is_told_and_whether_it_is_required(heading: str) -> None:
    [section] = re.findall(rf"^## {heading}(?::[^\n]*)?\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    told = {name: bool(star) for name, star in re.findall(r"^\| `(\w+)`(\*?) \|", section, re.MULTILINE)}
    fields = SECTIONS[heading].model_fields
    assert told == {field.alias: field.is_required() for field in fields.values()}


def test_the_example_is_a_definition() -> None:
    [example] = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
    ClusterWrite.model_validate(json.loads(example))
