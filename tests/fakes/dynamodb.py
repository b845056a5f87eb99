"""DynamoDB in memory, as far as the repository uses it, that counts what DynamoDB would charge.

It takes and gives the dictionaries that boto3 takes and gives, so that the real adapter runs over it. What is
not modelled fails.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Item = dict[str, Any]
_Key = tuple[str, str]

PAGE_BYTES = 1_048_576
BATCH_BYTES = 16 * PAGE_BYTES
MAX_BATCH = 100
READ_UNIT_BYTES = 4_096
WRITE_UNIT_BYTES = 1_024


class FakeDynamoDb:
    """One table with the keys ``pk`` and ``sk``, and the index ``running``.

    ``calls`` counts calls by operation, ``items`` the items that they read or wrote. ``read_units`` and
    ``write_units`` are capacity units: strongly consistent reads, transactional writes, and the index's own.
    """

    def __init__(self) -> None:
        self._items: dict[_Key, Item] = {}
        self._lock = threading.RLock()
        self.calls: Counter[str] = Counter()
        self.items: Counter[str] = Counter()
        self.read_units = 0
        self.write_units = 0

    def transact_write_items(self, *, TransactItems: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        """Each write costs twice its item, the old one or the new one, whichever is larger."""
        assert 1 <= len(TransactItems) <= MAX_BATCH
        writes = [next(iter(one.items())) for one in TransactItems]
        keys = [_key(write.get("Item") or write["Key"]) for _, write in writes]
        assert len(set(keys)) == len(keys)
        with self._lock:
            self.calls["TransactWriteItems"] += 1
            held = [self._holds(key, write) for key, (_, write) in zip(keys, writes, strict=True)]
            if not all(held):
                reasons = [{"Code": "None" if one else "ConditionalCheckFailed"} for one in held]
                answer: Any = {
                    "Error": {"Code": "TransactionCanceledException", "Message": ""},
                    "CancellationReasons": reasons,
                }
                raise ClientError(answer, "TransactWriteItems")
            for key, (kind, write) in zip(keys, writes, strict=True):
                self._write(key, kind, write.get("Item"))
        return {}

    def get_item(self, *, TableName: str, Key: Item, ConsistentRead: bool) -> dict[str, Any]:  # noqa: ARG002, N803
        """One item, or none; what is not there costs one unit too."""
        assert ConsistentRead
        with self._lock:
            self.calls["GetItem"] += 1
            found = self._items.get(_key(Key))
            self._charge_read("GetItem", [found] if found else [], _size(found) if found else 1)
            return {"Item": found} if found else {}

    def batch_get_item(self, *, RequestItems: dict[str, Any]) -> dict[str, Any]:  # noqa: N803
        """Up to 100 items and 16 MB; each item costs as if it were read alone."""
        [(table, request)] = RequestItems.items()
        wanted = request["Keys"]
        assert request["ConsistentRead"]
        assert 1 <= len(wanted) <= MAX_BATCH
        found: list[Item] = []
        size = 0
        with self._lock:
            self.calls["BatchGetItem"] += 1
            for place, key in enumerate(wanted):
                item = self._items.get(_key(key))
                size += _size(item) if item else 1
                if size > BATCH_BYTES:
                    rest = {**request, "Keys": wanted[place:]}
                    return {"Responses": {table: found}, "UnprocessedKeys": {table: rest}}
                self._charge_read("BatchGetItem", [item] if item else [], _size(item) if item else 1)
                found += [item] if item else []
        return {"Responses": {table: found}, "UnprocessedKeys": {}}

    def bytes_of(self, pk: str, begins_with: str) -> list[int]:
        """The size of each item of a partition whose sort key begins so."""
        every = sorted(self._items.items())
        return [_size(item) for key, item in every if key[0] == pk and key[1].startswith(begins_with)]

    def get_paginator(self, operation: str) -> FakeDynamoDb:
        """The only one there is."""
        assert operation == "query"
        return self

    def paginate(self, **query: Any) -> Iterator[dict[str, Any]]:
        """Pages of at most 1 MB, each of which is a call."""
        start: Item | None = query.get("ExclusiveStartKey")
        while True:
            with self._lock:
                page, last = self._page(query, _key(start) if start else None)
            yield {"Items": page}
            if last is None:
                return
            start = last

    def _page(self, query: dict[str, Any], after: _Key | None) -> tuple[list[Item], Item | None]:
        self.calls["Query"] += 1
        matching = self._matching(query)
        left = [item for item in matching if after is None or _key(item) > after]
        size = 0
        page: list[Item] = []
        for item in left:
            if size >= PAGE_BYTES or len(page) == query.get("Limit"):
                break
            page.append(item)
            size += _size(item)
        self._charge_read("Query", page, max(1, size))
        # A page that is full says that there may be more, and there may be none.
        is_full = size >= PAGE_BYTES or len(page) == query.get("Limit")
        return page, {name: page[-1][name] for name in ("pk", "sk")} if is_full else None

    def _matching(self, query: dict[str, Any]) -> list[Item]:
        values = {name: value["S"] for name, value in query["ExpressionAttributeValues"].items()}
        every = sorted(self._items.items())
        if query.get("IndexName"):
            assert query["KeyConditionExpression"] == "running = :running AND begins_with(pk, :pk)"
            listed = [item for _, item in every if item.get("running", {}).get("S") == values[":running"]]
            return [item for item in listed if item["pk"]["S"].startswith(values[":pk"])]
        assert query["ConsistentRead"]
        conditions: dict[str, Callable[[str], bool]] = {
            "pk = :pk": lambda _sk: True,
            "pk = :pk AND begins_with(sk, :sk)": lambda sk: sk.startswith(values[":sk"]),
            "pk = :pk AND sk > :sk": lambda sk: sk > values[":sk"],
        }
        holds = conditions[query["KeyConditionExpression"]]
        return [item for (pk, sk), item in every if pk == values[":pk"] and holds(sk)]

    def _holds(self, key: _Key, write: dict[str, Any]) -> bool:
        stored = self._items.get(key)
        condition = write["ConditionExpression"]
        if condition == "attribute_not_exists(pk)":
            return stored is None
        assert condition == "revision = :was"
        return stored is not None and stored["revision"] == write["ExpressionAttributeValues"][":was"]

    def _write(self, key: _Key, kind: str, item: Item | None) -> None:
        stored = self._items.get(key)
        size = max(_size(one) for one in (stored, item) if one is not None)
        self.items["TransactWriteItems"] += 1
        self.write_units += 2 * _units(size, WRITE_UNIT_BYTES)
        if kind == "ConditionCheck":
            return
        if ("running" in (stored or {})) != ("running" in (item or {})):
            # The index is written after the transaction, at the plain price.
            self.items["index"] += 1
            self.write_units += 1
        if item is None:
            del self._items[key]
        else:
            self._items[key] = item

    def _charge_read(self, operation: str, items: list[Item], size: int) -> None:
        self.items[operation] += len(items)
        self.read_units += _units(size, READ_UNIT_BYTES)


def _key(item: Item) -> _Key:
    return item["pk"]["S"], item["sk"]["S"]


def _size(item: Item) -> int:
    """The bytes of an item: names and values; a number takes a byte for two digits, and one more."""
    return sum(len(name) + _value_size(*next(iter(value.items()))) for name, value in item.items())


def _value_size(kind: str, value: Any) -> int:
    match kind:
        case "S":
            return len(value.encode())
        case "B":
            return len(value)
        case _:
            return len(value) // 2 + 2


def _units(size: int, unit: int) -> int:
    return -(-size // unit)
