"""Deliberate faults of the product: torture that does not find them is worth nothing.

Each takes a condition out of the writes of one kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paddock.adapters.dynamodb.repository import DynamoDbRepository
from paddock.model.ledger import Ledger
from paddock.model.node import Node
from paddock.ports.repository import Put

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.ports.repository import Write


def _is_ledger(write: Write) -> bool:
    return isinstance(write, Put) and isinstance(write.record, Ledger) and write.was is not None


def _is_release(write: Write) -> bool:
    """A node that is given back, or claimed: whoever has it by now loses it."""
    if not isinstance(write, Put) or not isinstance(write.record, Node) or not isinstance(write.was, Node):
        return False
    return write.record.virtual_cluster != write.was.virtual_cluster


FAULTS: dict[str, Callable[[Write], bool]] = {
    "ledger-without-condition": _is_ledger,
    "claims-without-condition": _is_release,
}


def apply(name: str) -> None:
    """Let this process have that fault."""
    concerns = FAULTS[name]
    rightly = DynamoDbRepository._transact_item

    def wrongly(self: DynamoDbRepository, write: Write) -> dict[str, Any]:
        item = rightly(self, write)
        if concerns(write):
            for made in item.values():
                made.pop("ConditionExpression")
                made.pop("ExpressionAttributeValues")
        return item

    DynamoDbRepository._transact_item = wrongly  # type: ignore[method-assign]
