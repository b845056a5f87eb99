"""DynamoDB in memory, as far as the repository uses it, that counts what DynamoDB would charge.

It takes and gives the dictionaries that boto3 takes and gives, so that the real adapter runs over it. What
DynamoDB refuses, it refuses; ``tests/contract/test_dynamodb.py`` compares them. What is not modelled fails.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from tests.fakes.token_buckets import Bucket, TokenBuckets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Item = dict[str, Any]
_Key = tuple[str, str]

PAGE_BYTES = 1_048_576
BATCH_BYTES = 16 * PAGE_BYTES
MAX_BATCH = 100
MAX_ITEM_BYTES = 409_600
MAX_PK_BYTES = 2_048
MAX_SK_BYTES = 1_024
MAX_DIGITS = 38
READ_UNIT_BYTES = 4_096
WRITE_UNIT_BYTES = 1_024
TRANSACTION_BYTES = 4 * PAGE_BYTES
# What one partition takes in a second, however the table is paid for.
PARTITION_WRITES, PARTITION_READS = Bucket(1_000, 1_000), Bucket(3_000, 3_000)
HOT = "Throughput exceeds the current capacity of your table or index."


class FakeDynamoDb:
    """One table with the keys ``pk`` and ``sk``, and the index ``running``.

    ``calls`` counts calls by operation, ``items`` the items that they read or wrote. ``read_units`` and
    ``write_units`` are capacity units: strongly consistent reads, transactional writes, and the index's own.
    With ``limit`` each partition key has a partition's limits, and ``throttled`` counts the calls that met
    them. What is larger than a whole second's share needs all of it, and the partition then owes the rest.
    """

    def __init__(self) -> None:
        self._items: dict[_Key, Item] = {}
        self._order: defaultdict[str, list[str]] = defaultdict(list)
        self._lock = threading.RLock()
        self.calls: Counter[str] = Counter()
        self.items: Counter[str] = Counter()
        self.read_units = 0
        self.write_units = 0
        self.throttled: Counter[str] = Counter()
        self._partitions = TokenBuckets()
        self._done: dict[str, list[dict[str, Any]]] = {}
        self._now: Callable[[], float] | None = None
        self._part = 1.0

    def limit(self, now: Callable[[], float], part: float = 1) -> None:
        """Let partitions throttle from now on, or a part of each; ``now`` is the time in seconds."""
        self._now, self._part = now, part

    def transact_write_items(
        self,
        *,
        TransactItems: list[dict[str, Any]],  # noqa: N803
        ClientRequestToken: str,  # noqa: N803
    ) -> dict[str, Any]:
        """Each write costs twice its item, the old one or the new one, whichever is larger.

        What was done under a token is not done again.
        """
        operation = "TransactWriteItems"
        _must(1 <= len(TransactItems) <= MAX_BATCH, operation)
        writes = [next(iter(one.items())) for one in TransactItems]
        keys = [_key(write.get("Item") or write["Key"], operation) for _, write in writes]
        _must(len(set(keys)) == len(keys), operation)
        items = [write.get("Item") or write["Key"] for _, write in writes]
        _must(all(_is_storable(item) for item in items), operation)
        _must(sum(_size(item) for item in items) <= TRANSACTION_BYTES, operation)
        with self._lock:
            self.calls["TransactWriteItems"] += 1
            if ClientRequestToken in self._done:
                is_same = self._done[ClientRequestToken] == TransactItems
                _must(is_same, operation, "IdempotentParameterMismatchException")
                return {}
            held = [self._holds(key, write) for key, (_, write) in zip(keys, writes, strict=True)]
            if not all(held):
                self._cancel(["None" if one else "ConditionalCheckFailed" for one in held])
            units: Counter[str] = Counter()
            for key, (_, write) in zip(keys, writes, strict=True):
                units[key[0]] += self._units_to_write(key, write.get("Item"))
            hot = {pk for pk in units if not self._may_use(f"write {pk}", PARTITION_WRITES, units[pk])}
            if hot:
                self.throttled["TransactWriteItems"] += 1
                self._cancel(["ThrottlingError" if pk in hot else "None" for pk, _ in keys])
            for key, (kind, write) in zip(keys, writes, strict=True):
                self._write(key, kind, write.get("Item"))
            self._done[ClientRequestToken] = TransactItems
        return {}

    def _cancel(self, codes: list[str]) -> None:
        reasons = [
            {"Code": code, **({"Message": HOT} if code == "ThrottlingError" else {})} for code in codes
        ]
        error: Any = {
            "Error": {"Code": "TransactionCanceledException", "Message": f"Transaction cancelled: {codes}"},
            "CancellationReasons": reasons,
        }
        raise ClientError(error, "TransactWriteItems")

    def _may_use(self, name: str, partition: Bucket, units: int) -> bool:
        if self._now is None:
            return True
        share = Bucket(partition.capacity * self._part, partition.per_second * self._part)
        return self._partitions.borrow(name, share, units, self._now())

    def _require_read(self, operation: str, pk: str, size: int) -> None:
        """Throttle a read, as boto3 tells it after its own retries."""
        if not self._may_use(f"read {pk}", PARTITION_READS, _units(size, READ_UNIT_BYTES)):
            self.throttled[operation] += 1
            error: Any = {"Error": {"Code": "ThrottlingException", "Message": HOT}}
            raise ClientError(error, operation)

    def get_item(self, *, TableName: str, Key: Item, ConsistentRead: bool) -> dict[str, Any]:  # noqa: ARG002, N803
        """One item, or none; what is not there costs one unit too."""
        assert ConsistentRead
        with self._lock:
            self.calls["GetItem"] += 1
            key = _key(Key, "GetItem")
            found = self._items.get(key)
            self._require_read("GetItem", key[0], _size(found) if found else 1)
            self._charge_read("GetItem", [found] if found else [], _size(found) if found else 1)
            return {"Item": found} if found else {}

    def batch_get_item(self, *, RequestItems: dict[str, Any]) -> dict[str, Any]:  # noqa: N803
        """Up to 100 items and 16 MB; each item costs as if it were read alone."""
        [(table, request)] = RequestItems.items()
        wanted = request["Keys"]
        assert request["ConsistentRead"]
        _must(1 <= len(wanted) <= MAX_BATCH, "BatchGetItem")
        keys = [_key(key, "BatchGetItem") for key in wanted]
        _must(len(set(keys)) == len(keys), "BatchGetItem")
        found: list[Item] = []
        size = 0
        with self._lock:
            self.calls["BatchGetItem"] += 1
            for place, key in enumerate(keys):
                item = self._items.get(key)
                own_size = _size(item) if item else 1
                size += own_size
                units = _units(own_size, READ_UNIT_BYTES)
                is_hot = not self._may_use(f"read {key[0]}", PARTITION_READS, units)
                if is_hot and not place:
                    self.throttled["BatchGetItem"] += 1
                    error: Any = {"Error": {"Code": "ThrottlingException", "Message": HOT}}
                    raise ClientError(error, "BatchGetItem")
                if is_hot or size > BATCH_BYTES:
                    rest = {**request, "Keys": wanted[place:]}
                    return {"Responses": {table: found}, "UnprocessedKeys": {table: rest}}
                self._charge_read("BatchGetItem", [item] if item else [], own_size)
                found += [item] if item else []
        return {"Responses": {table: found}, "UnprocessedKeys": {}}

    def bytes_of(self, pk: str, begins_with: str) -> list[int]:
        """The size of each item of a partition whose sort key begins so."""
        return [_size(self._items[pk, sk]) for sk in self._order[pk] if sk.startswith(begins_with)]

    def query(self, **query: Any) -> dict[str, Any]:
        """A page of at most 1 MB, and where the next one goes on if there may be one."""
        start: Item | None = query.get("ExclusiveStartKey")
        with self._lock:
            page, last = self._page(query, _key(start, "Query") if start else None)
        if "FilterExpression" in query:
            # What it leaves out was read, and charged, all the same.
            assert query["FilterExpression"] == "attribute_not_exists(expiresAt)"
            page = [item for item in page if "expiresAt" not in item]
        return {"Items": page, **({"LastEvaluatedKey": last} if last else {})}

    def _page(self, query: dict[str, Any], after: _Key | None) -> tuple[list[Item], Item | None]:
        self.calls["Query"] += 1
        size = 0
        page: list[Item] = []
        for item in self._matching(query, after):
            if size >= PAGE_BYTES or len(page) == query.get("Limit"):
                break
            page.append(item)
            size += _size(item)
        # An index is a table of its own, with partitions of its own.
        pk = query.get("IndexName") or query["ExpressionAttributeValues"][":pk"]["S"]
        self._require_read("Query", pk, max(1, size))
        self._charge_read("Query", page, max(1, size))
        # A page that is full says that there may be more, and there may be none.
        is_full = size >= PAGE_BYTES or len(page) == query.get("Limit")
        return page, {name: page[-1][name] for name in ("pk", "sk")} if is_full else None

    def _matching(self, query: dict[str, Any], after: _Key | None) -> Iterator[Item]:
        """What a query matches, in the order of the sort keys, behind the key ``after``."""
        values = {name: value["S"] for name, value in query["ExpressionAttributeValues"].items()}
        if query.get("IndexName"):
            assert query["KeyConditionExpression"] == "running = :running AND begins_with(pk, :pk)"
            for key, item in sorted(self._items.items()):
                is_listed = item.get("running", {}).get("S") == values[":running"]
                if is_listed and key[0].startswith(values[":pk"]) and (after is None or key > after):
                    yield item
            return
        assert query["ConsistentRead"]
        pk, sk = values[":pk"], values.get(":sk", values.get(":first", ""))
        _key({"pk": {"S": pk}, "sk": {"S": sk if len(values) > 1 else pk[:1]}}, "Query")
        conditions: dict[str, Callable[[str], bool]] = {
            "pk = :pk": lambda _: True,
            "pk = :pk AND begins_with(sk, :sk)": lambda one: one.startswith(sk),
            "pk = :pk AND sk > :sk": lambda one: one > sk,
            "pk = :pk AND sk BETWEEN :first AND :last": lambda one: sk <= one <= values[":last"],
        }
        holds = conditions[query["KeyConditionExpression"]]
        _must(after is None or (after[0] == pk and holds(after[1])), "Query")
        order = self._order[pk]
        for one in order[max(bisect_left(order, sk), bisect_right(order, after[1]) if after else 0) :]:
            if not holds(one):
                if one > sk:
                    return
                continue
            yield self._items[pk, one]

    def _holds(self, key: _Key, write: dict[str, Any]) -> bool:
        stored = self._items.get(key)
        condition = write["ConditionExpression"]
        if condition == "attribute_not_exists(pk)":
            return stored is None
        assert condition == "revision = :was"
        return stored is not None and stored["revision"] == write["ExpressionAttributeValues"][":was"]

    def _units_to_write(self, key: _Key, item: Item | None) -> int:
        size = max(_size(one) for one in (self._items.get(key), item) if one is not None)
        return 2 * _units(size, WRITE_UNIT_BYTES)

    def _write(self, key: _Key, kind: str, item: Item | None) -> None:
        stored = self._items.get(key)
        self.items["TransactWriteItems"] += 1
        self.write_units += self._units_to_write(key, item)
        if kind == "ConditionCheck":
            return
        if ("running" in (stored or {})) != ("running" in (item or {})):
            # The index is written after the transaction, at the plain price.
            self.items["index"] += 1
            self.write_units += 1
        if item is None:
            del self._items[key]
            self._order[key[0]].remove(key[1])
            return
        if key not in self._items:
            insort(self._order[key[0]], key[1])
        self._items[key] = item

    def _charge_read(self, operation: str, items: list[Item], size: int) -> None:
        self.items[operation] += len(items)
        self.read_units += _units(size, READ_UNIT_BYTES)


def _must(holds: bool, operation: str, code: str = "ValidationException") -> None:
    if not holds:
        raise ClientError({"Error": {"Code": code, "Message": "refused"}}, operation)


def _key(item: Item, operation: str) -> _Key:
    """The key of an item, or a key by itself, if it can be one."""
    _must(all("S" in item.get(name, {}) for name in ("pk", "sk")), operation)
    pk, sk = item["pk"]["S"], item["sk"]["S"]
    _must(0 < len(pk.encode()) <= MAX_PK_BYTES and 0 < len(sk.encode()) <= MAX_SK_BYTES, operation)
    return pk, sk


def _is_storable(item: Item) -> bool:
    numbers = [value["N"] for value in item.values() if "N" in value]
    has_index_key = item.get("running") != {"S": ""}
    is_small = _size(item) <= MAX_ITEM_BYTES
    return has_index_key and is_small and all(len(number.strip("-0")) <= MAX_DIGITS for number in numbers)


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
