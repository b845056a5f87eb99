"""Records that an earlier release wrote are read by this one."""

from __future__ import annotations

import json
import zlib
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest

from paddock.adapters.dynamodb.items import from_item, to_item
from paddock.model.node import Node
from paddock.ports.repository import Record
from tests.fakes.world import World, nodearray

# One document of each kind, with every field, under the name that it was first stored by.
EARLIER = json.loads(Path(__file__).with_name("earlier_records.json").read_text())


@pytest.mark.parametrize("kind", get_args(Record))
def test_each_field_of_a_record_keeps_the_name_under_which_it_was_first_stored(kind: Any) -> None:
    """A field that gets another name in Python has its first one as an alias: else deployed tables lose it.

    A new field is added to the documents.
    """
    earlier = EARLIER[kind.__name__]
    record = from_item(kind, {"document": {"S": json.dumps(earlier)}})
    _, content = next(iter(to_item(record)["document"].items()))
    text = zlib.decompress(content) if isinstance(content, bytes) else content
    assert json.loads(text) == earlier
    assert {field.metadata.get("alias", field.name) for field in fields(kind)} == earlier.keys()


def test_a_record_with_a_field_that_is_no_more_is_read_without_it() -> None:
    world = World(nodearray("ondemand"))
    world.ready(1)
    [node] = world.nodes()
    item = to_item(node)
    document = json.loads(item["document"]["S"]) | {"created_at": 1_735_000_000_123_456_789}
    old = {**item, "document": {"S": json.dumps(document)}}
    assert from_item(Node, old) == node
