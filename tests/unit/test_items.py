"""Records that an earlier release wrote are read by this one."""

from __future__ import annotations

import json

from paddock.adapters.dynamodb.items import from_item, to_item
from paddock.model.node import Node
from tests.fakes.world import World, nodearray


def test_a_record_with_a_field_that_is_no_more_is_read_without_it() -> None:
    world = World(nodearray("ondemand"))
    world.ready(1)
    [node] = world.nodes()
    item = to_item(node)
    document = json.loads(item["document"]["S"]) | {"created_at": 1_735_000_000_123_456_789}
    old = {**item, "document": {"S": json.dumps(document)}}
    assert from_item(Node, old) == node
