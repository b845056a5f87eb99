"""Nodes that a launch left without an instance: another bucket, another time, or Failed."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from paddock.model.limits import count_bucket
from paddock.model.node_goals import waits_in
from paddock.model.node_lifecycle import asked_elsewhere, failed, moved
from paddock.model.places import next_place
from paddock.ports.compute import RefusalKind
from paddock.ports.repository import Check, Put
from paddock.store.lookup import known_quotas
from paddock.store.release import resolve_nodes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from paddock.model.cluster import Cluster
    from paddock.model.identity import NodeId
    from paddock.model.ledger import Ledger
    from paddock.model.node import LaunchSpec, Node
    from paddock.model.operation import LaunchBatch, Operation
    from paddock.ports.compute import LaunchResult
    from paddock.ports.repository import Write
    from paddock.store.store import Store


def fall_back(
    store: Store,
    operation: Operation,
    batch: LaunchBatch,
    ids: Collection[NodeId],
    result: LaunchResult,
) -> None:
    """Decide what becomes of the nodes of a batch that got no instance.

    Throttled, they wait as they are. Without capacity each is asked for in the other subnets of its bucket,
    and then goes to the next bucket that it may be in and that has room for it; the ledger moves the counts
    in the same transactions, and remembers the refusal. A node with no place left has failed, and its limits
    are given back. Doing it twice is the same as once: a node that has been moved or has failed is no longer
    in the batch's place and waiting.
    """
    if not ids or result.refusal_kind is RefusalKind.THROTTLED:
        return

    in_group = bool(batch.placement_group_id)
    following = next_place(
        batch.spec,
        batch.place,
        in_group=in_group,
        count=batch.count,
        refused_whole=result.refused_whole,
    )

    def resolve(ledger: Ledger, nodes: Sequence[Node]) -> tuple[Ledger, list[Write]]:
        left = [node for node in nodes if waits_in(node, batch, operation)]
        if not left:
            return ledger, []
        now = store.now()
        if result.refusal_kind is not RefusalKind.CAPACITY:
            return ledger.without_active(left), [
                Put(failed(node, _reason(node, batch, result)), was=node) for node in left
            ]
        if following is not None:
            return ledger, [
                Put(asked_elsewhere(node, following, _with_refusal(node, result)), was=node) for node in left
            ]
        cluster = store.read.cluster(operation.cluster)
        move = _Move(
            cluster,
            ledger.with_capacity_failure(batch.spec.bucket_id, now).without_active(left),
            known_quotas(store.read),
            now,
        )
        writes: list[Write] = []
        for places, alike in groupby(left, operation.places_left):
            for node, spec in move.place(list(alike), places):
                after = (
                    failed(node, _reason(node, batch, result))
                    if spec is None
                    else moved(node, spec, _with_refusal(node, result))
                )
                writes.append(Put(after, was=node))
        return move.ledger, [*writes, *([Check(cluster)] if cluster is not None else ())]

    resolve_nodes(store, operation.cluster, ids, resolve)


class _Move:
    """The ledger while nodes, whose limits are given back already, take their new places."""

    def __init__(self, cluster: Cluster | None, ledger: Ledger, quotas: Mapping[str, int], now: int) -> None:
        self._cluster = cluster
        self._quotas = quotas
        self._now = now
        self.ledger = ledger

    def place(
        self, nodes: Sequence[Node], places: Sequence[LaunchSpec]
    ) -> Iterator[tuple[Node, LaunchSpec | None]]:
        """Each node with its new place, the first that has room; ``None`` if no place has room."""
        left = nodes
        for spec in places:
            room = self._room(spec) if left else 0
            moving, left = left[:room], left[room:]
            if moving:
                self.ledger = self.ledger.with_moved(moving, spec.bucket_id)
                yield from ((node, spec) for node in moving)
        yield from ((node, None) for node in left)

    def _room(self, spec: LaunchSpec) -> int:
        """Room under the limits as they are now, whatever they were when the nodes were asked for."""
        definition = self._cluster.definition if self._cluster else None
        array = definition.array(spec.node_array) if definition else None
        bucket = array.bucket(spec.machine_type) if array else None
        if self._cluster is None or array is None or bucket is None:
            return 0
        if (bucket.instance_type, bucket.cores) != (spec.instance_type, spec.vcpu_count):
            # No node was in the bucket, so its definition could change to another machine meanwhile.
            return 0
        counts = count_bucket(self._cluster, self.ledger, self._quotas, array, bucket, self._now)
        return counts.available_count


def _with_refusal(node: Node, result: LaunchResult) -> str:
    """The node's message about its failed launches; a repeated reason appears once."""
    codes = ", ".join(dict.fromkeys(refusal.code for refusal in result.refusals)) or "no reason given"
    refused = f"no capacity for {node.spec.machine_type} ({codes})"
    if node.status_message.endswith(refused):
        return node.status_message
    return f"{node.status_message}, {refused}" if node.status_message else refused


def _reason(node: Node, batch: LaunchBatch, result: LaunchResult) -> str:
    """Why the node has no instance, with the reasons of earlier launches."""
    reasons = "; ".join(dict.fromkeys(f"{refusal.code}: {refusal.message}" for refusal in result.refusals))
    reason = reasons or f"{len(result.instance_ids)} of {batch.count} launched, with no reason given"
    return f"{reason}; before that, {node.status_message}" if node.status_message else reason
