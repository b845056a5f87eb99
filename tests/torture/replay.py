"""The store's own stream of changes, replayed: what must be true after each of them."""

from __future__ import annotations

import json
import threading
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from paddock.model.ledger import Ledger
from paddock.model.node import Node
from paddock.model.virtual_cluster import VirtualCluster
from paddock.ports.repository import Delete, Put
from paddock.store.store import wrong_transition
from tests.fakes.stored import record_of
from tests.torture.roles import DEFINITION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.ports.repository import Record
    from tests.torture.process import Run

BETWEEN_READS_SECONDS = 0.3
# The changes of one transaction follow each other, in any order, and are not told from others.
CHANGES_OF_A_TRANSACTION = 100


class Replay:
    """Follows the stream in a thread. ``violations`` are told in words, with the moment in the stream."""

    def __init__(self, run: Run) -> None:
        self._client = run.client("dynamodbstreams")
        self._table = run.table
        self._trace = (run.path / "changes.trace").open("a", buffering=1)
        self._iterators: dict[str, str | None] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self.changes = 0
        self.violations: list[str] = []
        self._judge = Judge()

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def finish(self) -> None:
        """Read what is left, and stop."""
        self._stop.set()
        self._thread.join()
        self._read_all()

    def close(self) -> None:
        """Follow no more, and close the file that keeps what was judged."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._trace.close()

    def _follow(self) -> None:
        while not self._stop.wait(BETWEEN_READS_SECONDS):
            # The store may be paused.
            with suppress(BotoCoreError, ClientError):
                self._read_all()

    def _read_all(self) -> None:
        [stream] = self._client.list_streams(TableName=self._table)["Streams"]
        shards = self._client.describe_stream(StreamArn=stream["StreamArn"])["StreamDescription"]["Shards"]
        for shard in shards:
            name = shard["ShardId"]
            if name not in self._iterators:
                self._iterators[name] = self._client.get_shard_iterator(
                    StreamArn=stream["StreamArn"], ShardId=name, ShardIteratorType="TRIM_HORIZON"
                )["ShardIterator"]
            while iterator := self._iterators[name]:
                answer = self._client.get_records(ShardIterator=iterator)
                self._iterators[name] = answer.get("NextShardIterator")
                for change in answer["Records"]:
                    self.changes += 1
                    key, before, after = _images(change["dynamodb"])
                    line = {"change": self.changes, "key": key, "before": before, "after": after}
                    self._trace.write(json.dumps(line, default=str) + "\n")
                    told = self._judge.see(key, before, after)
                    self.violations += [f"change {self.changes}: {one}" for one in told]
                if not answer["Records"]:
                    break


class Judge:
    """All records as they are after each change, as far as rules need them."""

    def __init__(self) -> None:
        self._seen: set[tuple[tuple[str, str], int]] = set()
        self._removed: set[str] = set()
        self._names: dict[tuple[str, str], str] = {}
        self._holders: dict[str, str] = {}
        self._claims: dict[str, str] = {}
        self._doubtful: dict[str, int] = {}
        self._changes = 0

    def see(self, key: tuple[str, str], before: Record | None, after: Record | None) -> Iterator[str]:
        """What the change of a record violates."""
        record = after or before
        self._changes += 1
        if after is not None:
            # A cluster that is made anew under its name, by a clock that is behind, may only not repeat one.
            last = before.revision if before else 0
            if after.revision <= last or (key, after.revision) in self._seen:
                yield f"{key} was at revision {last}, and is at {after.revision}"
            self._seen.add((key, after.revision))
        if wrong := _wrong(before, after):
            yield f"{key}: {wrong}"
        match record:
            case Node():
                yield from self._see_node(record, is_there=after is not None)
            case VirtualCluster() if after is not None:
                yield from self._see_members(record)
            case Ledger() if after is not None:
                yield from _see_limits(record)
        for node, since in list(self._doubtful.items()):
            if self._changes - since > CHANGES_OF_A_TRANSACTION:
                del self._doubtful[node]
                yield f"node {node} is in {self._holders.get(node)}, and says {self._claims.get(node)!r}"

    def _compare(self, node: str) -> None:
        """What a virtual cluster has must know so, but within a transaction."""
        holder = self._holders.get(node)
        if holder is None or self._claims.get(node) == holder:
            self._doubtful.pop(node, None)
        else:
            self._doubtful.setdefault(node, self._changes)

    def _see_node(self, node: Node, *, is_there: bool) -> Iterator[str]:
        name = (node.cluster, node.name)
        if is_there:
            self._claims[node.id] = node.virtual_cluster
        else:
            self._claims.pop(node.id, None)
        self._compare(node.id)
        if not is_there:
            self._removed.add(node.id)
            if self._names.get(name) == node.id:
                del self._names[name]
            return
        if node.id in self._removed:
            yield f"node {node.id} was removed, and is back"
        # It may have been given another name.
        for former in [one for one, bearer in self._names.items() if bearer == node.id and one != name]:
            del self._names[former]
        other = self._names.setdefault(name, node.id)
        if other != node.id:
            yield f"nodes {other} and {node.id} bear the name {name}"

    def _see_members(self, one: VirtualCluster) -> Iterator[str]:
        held = set() if one.deleted else set(one.node_instances)
        for left in [node for node, holder in self._holders.items() if holder == one.id and node not in held]:
            del self._holders[left]
            self._compare(left)
        for node in held:
            other = self._holders.setdefault(node, one.id)
            if other != one.id:
                yield f"node {node} is in {other} and in {one.id}"
            self._compare(node)


def _wrong(before: Record | None, after: Record | None) -> str:
    """Why the state may not have changed so. A change whose revision did not grow is reported elsewhere."""
    if after is None:
        return wrong_transition(Delete(before)) if before else ""
    if before is not None and after.revision <= before.revision:
        return ""
    return wrong_transition(Put(after, was=before))


def _see_limits(ledger: Ledger) -> Iterator[str]:
    active = Counter({name: use.active for name, use in ledger.buckets.items()})
    if active.total() > (DEFINITION.max_count or 0):
        yield f"cluster {ledger.cluster} counts {active.total()} active nodes of {DEFINITION.max_count}"
    for name, use in ledger.buckets.items():
        if use.active < 0:
            yield f"bucket {name} counts {use.active} active nodes"


def _images(change: dict[str, Any]) -> tuple[tuple[str, str], Record | None, Record | None]:
    key = change["Keys"]["pk"]["S"], change["Keys"]["sk"]["S"]
    images = [record_of(change[name]) if name in change else None for name in ("OldImage", "NewImage")]
    return key, images[0], images[1]
