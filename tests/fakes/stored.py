"""The real ``Repository`` adapter over the DynamoDB in memory, as strict about states as a ``World`` is."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from paddock.adapters.dynamodb.items import from_item
from paddock.adapters.dynamodb.keys import key_of
from paddock.adapters.dynamodb.repository import DynamoDbRepository
from paddock.model.cluster import Cluster
from paddock.model.ledger import Ledger
from paddock.model.node import Node
from paddock.model.operation import Operation, UsedRequestId
from paddock.model.pace import Pace
from paddock.model.quotas import Quotas
from paddock.model.usage import UsageInterval
from paddock.model.virtual_cluster import VirtualCluster, VirtualClusterChange
from tests.fakes.dynamodb import FakeDynamoDb

if TYPE_CHECKING:
    from paddock.adapters.dynamodb.keys import Key
    from paddock.ports.repository import Record, Write

KINDS: dict[str, type[Record]] = {
    "CLUSTERS": Cluster,
    "CLUSTER": Node,
    "OPERATION": Operation,
    "PACE": Pace,
    "QUOTAS": Quotas,
    "REQUEST": UsedRequestId,
    "USAGE": UsageInterval,
    "VIRTUAL_CLUSTERS": VirtualCluster,
    "HISTORY": VirtualClusterChange,
}


def record_of(item: dict[str, Any]) -> Record:
    """The record of any kind that an item holds."""
    kind: Any = Ledger if item["sk"]["S"] == "LEDGER" else KINDS[item["pk"]["S"].partition("#")[0]]
    [(form, document)] = item["document"].items()
    return _parsed(kind, form, document)


@lru_cache(maxsize=10_000)
def _parsed(kind: type[Record], form: str, document: str | bytes) -> Record:
    """The invariants look at every record after every step, and most are what they were before it."""
    return from_item(kind, {"document": {form: document}})


class StoredRepository(DynamoDbRepository):
    """What a ``World`` may have in place of the repository in memory: slower, and nearer to AWS."""

    def __init__(self) -> None:
        self.table = FakeDynamoDb()
        client: Any = self.table
        super().__init__(client, "table")

    def commit(self, *writes: Write) -> None:
        assert len(writes) <= self.max_writes
        super().commit(*writes)

    @property
    def _records(self) -> dict[Key, Record]:
        """All there is, for the invariants to look at."""
        records = [record_of(item) for item in [*self.table._items.values()]]
        return {key_of(record): record for record in records}
