"""The repository that counts what it commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.adapters.dynamodb.repository import DynamoDbRepository
from paddock.measures import count_writes

if TYPE_CHECKING:
    from paddock.ports.repository import Write


class MeteredRepository(DynamoDbRepository):
    """``DynamoDbRepository`` whose commits become metrics."""

    def commit(self, *writes: Write) -> None:
        """See ``Repository.commit``."""
        super().commit(*writes)
        count_writes(writes)
