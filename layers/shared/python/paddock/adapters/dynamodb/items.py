"""Records as items: the key, the revision, and the whole record as one JSON document.

Conditions look at keys and revisions alone, so nothing else needs to be an attribute; and a JSON document
keeps a client's numbers as they came, where DynamoDB's own would change them. Two attributes serve DynamoDB
itself: ``expiresAt`` (seconds since the epoch) its TTL, and ``running`` the index of running operations. What
a record has by default is not written, so that a node fits into one write unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter

from paddock.adapters.dynamodb.keys import RUNNING, key_of
from paddock.errors import RecordTooLarge
from paddock.model.cluster import Cluster
from paddock.model.ledger import Ledger
from paddock.model.node import Node
from paddock.model.operation import RETENTION_NS, SECOND_NS, Operation, Request
from paddock.model.quotas import Quotas
from paddock.model.usage import USAGE_RETENTION_NS, UsageInterval
from paddock.model.virtual_cluster import VirtualCluster

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paddock.ports.repository import Record

# An item may have 400 KB, attribute names and keys included.
MAX_DOCUMENT_BYTES = 390_000

_ADAPTERS: Mapping[Any, TypeAdapter[Any]] = {
    kind: TypeAdapter(kind)
    for kind in (Cluster, Ledger, Node, Operation, Quotas, Request, UsageInterval, VirtualCluster)
}

Found = TypeVar("Found")


def to_item(record: Record) -> dict[str, Any]:
    """The item of a record, in DynamoDB's own notation. Raises ``RecordTooLarge``."""
    document = _ADAPTERS[type(record)].dump_json(record, by_alias=True, exclude_defaults=True)
    if len(document) > MAX_DOCUMENT_BYTES:
        msg = (
            f"the request must lead to records of at most {MAX_DOCUMENT_BYTES} bytes, not {len(document)}: "
            "split it"
        )
        raise RecordTooLarge(msg)
    key = key_of(record)
    item = {
        "pk": {"S": key.pk},
        "sk": {"S": key.sk},
        "revision": {"N": str(record.revision)},
        "document": {"S": document.decode()},
    }
    if isinstance(record, Operation) and record.is_running:
        item["running"] = {"S": RUNNING}
    if expires_at := _expires_at(record):
        item["expiresAt"] = {"N": str(expires_at // SECOND_NS)}
    return item


def from_item(kind: type[Found], item: Mapping[str, Any]) -> Found:
    """The record that an item holds."""
    record: Found = _ADAPTERS[kind].validate_json(item["document"]["S"])
    return record


def _expires_at(record: Record) -> int:
    """When the record may be forgotten, in ns since the epoch; 0 for never."""
    match record:
        case Operation() if not record.is_running:
            return record.finish_time + RETENTION_NS
        case Request():
            return record.revision + RETENTION_NS
        case UsageInterval():
            return record.end + USAGE_RETENTION_NS
        case VirtualCluster():
            return record.expires_at
        case _:
            return 0
