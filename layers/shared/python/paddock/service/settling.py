"""Ending nodes in the records: the node, its limits and its usage change in one transaction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.model.identity import next_revision
from paddock.model.usage import interval_until
from paddock.ports.repository import MAX_WRITES, Delete, Put
from paddock.service.contention import until_won

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from paddock.model.ledger import Ledger
    from paddock.model.node import Node
    from paddock.ports.clock import Clock
    from paddock.ports.repository import Repository, Write

# One write of each transaction is the ledger's; a node takes two, its own and that of its usage interval.
_NODES_PER_WRITE = (MAX_WRITES - 1) // 2


def fail_nodes(
    repository: Repository, clock: Clock, cluster: str, ids: Collection[str], fail: Callable[[Node], Node]
) -> None:
    """Write ``fail(node)`` for those of these nodes that still use up limits, and give their limits back.

    Where ``fail`` answers the very same node, or one that still counts, that node is left as it is.
    """

    def settle(ledger: Ledger, nodes: Sequence[Node]) -> tuple[Ledger, list[Write]]:
        pairs = [(node, fail(node)) for node in nodes if node.counted]
        pairs = [(node, after) for node, after in pairs if not after.counted]
        ended = [node for node, _ in pairs]
        writes: list[Write] = [Put(after, was=node) for node, after in pairs]
        return ledger.without_active(ended), writes + _usage(ended, clock.now())

    _settle(repository, clock, cluster, ids, settle)


def remove_nodes(repository: Repository, clock: Clock, cluster: str, ids: Collection[str]) -> None:
    """Remove these nodes, as far as they exist: their limits, names and records."""

    def settle(ledger: Ledger, nodes: Sequence[Node]) -> tuple[Ledger, list[Write]]:
        writes: list[Write] = [Delete(node) for node in nodes]
        return ledger.without_nodes(nodes), writes + _usage(nodes, clock.now())

    _settle(repository, clock, cluster, ids, settle)


def _usage(ended: Sequence[Node], now: int) -> list[Write]:
    """The writes that keep for how long these nodes used their machines, which they do no longer."""
    intervals = [interval_until(node, now) for node in ended]
    return [Put(interval, was=None) for interval in intervals if interval is not None]


def _settle(
    repository: Repository,
    clock: Clock,
    cluster: str,
    ids: Collection[str],
    settle: Callable[[Ledger, Sequence[Node]], tuple[Ledger, list[Write]]],
) -> None:
    ordered = sorted(ids)
    for start in range(0, len(ordered), _NODES_PER_WRITE):
        chunk = ordered[start : start + _NODES_PER_WRITE]

        def attempt(chunk: Sequence[str] = chunk) -> None:
            ledger = repository.ledger(cluster)
            nodes = repository.nodes_by_id(cluster, chunk)
            if ledger is None or not nodes:
                return
            after, writes = settle(ledger, nodes)
            if writes:
                after = replace(after, revision=next_revision(clock.now(), ledger.revision))
                repository.commit(Put(after, was=ledger), *writes)

        until_won(clock, attempt)
