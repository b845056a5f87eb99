"""Records as items: the key, the revision, and the whole record as one JSON document.

Conditions look at keys and revisions alone, so nothing else needs to be an attribute; and a JSON document
keeps a client's numbers as they came, where DynamoDB's own would change them. Two attributes serve DynamoDB
itself: ``expiresAt`` (seconds since the epoch) its TTL, and ``running`` the index of what the reconciler has
to look at. What a record has by default is not written, so that a node fits into one write unit. A virtual
cluster's document is compressed, for it names each of its nodes: 10,000 of them fit into one item, which
readers see whole or not at all. So is that of a large operation: its sets are mostly alike, and it grows
after its request was answered.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter

from paddock.adapters.dynamodb.keys import RUNNING, key_of
from paddock.errors import RecordTooLarge
from paddock.model.cluster import Cluster
from paddock.model.identity import revised_at
from paddock.model.ledger import Ledger
from paddock.model.node import Node
from paddock.model.operation import RETENTION_NS, Operation, UsedRequestId
from paddock.model.pace import Pace
from paddock.model.quotas import Quotas
from paddock.model.time import SECOND_NS
from paddock.model.usage import USAGE_RETENTION_NS, UsageInterval
from paddock.model.virtual_cluster import HISTORY_RETENTION_NS, VirtualCluster, VirtualClusterChange

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paddock.ports.repository import Record

# An item may have 400 KB, attribute names and keys included.
MAX_DOCUMENT_BYTES = 390_000
MAX_PLAIN_BYTES = 50_000

_ADAPTERS: Mapping[Any, TypeAdapter[Any]] = {
    kind: TypeAdapter(kind)
    for kind in (
        Cluster,
        Ledger,
        Node,
        Operation,
        Pace,
        Quotas,
        UsedRequestId,
        UsageInterval,
        VirtualCluster,
        VirtualClusterChange,
    )
}

Found = TypeVar("Found")


def to_item(record: Record) -> dict[str, Any]:
    """The item of a record, in DynamoDB's own notation. Raises ``RecordTooLarge``."""
    document = _ADAPTERS[type(record)].dump_json(record, by_alias=True, exclude_defaults=True)
    is_compressed = isinstance(record, VirtualCluster) or (
        isinstance(record, Operation) and len(document) > MAX_PLAIN_BYTES
    )
    if is_compressed:
        document = zlib.compress(document)
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
        "document": {"B": document} if is_compressed else {"S": document.decode()},
    }
    if _is_unsettled(record):
        item["running"] = {"S": RUNNING}
    if expires_at := _expires_at(record):
        item["expiresAt"] = {"N": str(expires_at // SECOND_NS)}
    return item


def from_item(kind: type[Found], item: Mapping[str, Any]) -> Found:
    """The record that an item holds."""
    document = item["document"]
    text = zlib.decompress(document["B"]) if "B" in document else document["S"]
    record: Found = _ADAPTERS[kind].validate_json(text)
    return record


def bytes_of(item: Mapping[str, Any]) -> int:
    """What DynamoDB counts an item as: the bytes of its names and values."""
    return sum(len(name) + _value_bytes(value) for name, value in item.items())


def _value_bytes(value: Mapping[str, Any]) -> int:
    [content] = value.values()
    return len(content) if isinstance(content, bytes) else len(content.encode())


def _is_unsettled(record: Record) -> bool:
    """Whether the reconciler has to look at the record."""
    match record:
        case Operation():
            return record.is_running
        case VirtualCluster():
            return record.is_unsatisfied
        case _:
            return False


def _expires_at(record: Record) -> int:
    """When the record may be forgotten, in ns since the epoch; 0 for never."""
    match record:
        case Operation() if not record.is_running:
            return record.finish_time + RETENTION_NS
        case UsedRequestId():
            return revised_at(record.revision) + RETENTION_NS
        case UsageInterval():
            return record.end + USAGE_RETENTION_NS
        case VirtualCluster():
            return record.expires_at
        case VirtualClusterChange():
            return record.at + HISTORY_RETENTION_NS
        case _:
            return 0
