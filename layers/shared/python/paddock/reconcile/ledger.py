"""Counters: the ledger agrees with the nodes. If it does not, that is a bug: it is logged and mended."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.model.ledger import BucketUse, placement_group_key
from paddock.model.names import NameSet
from paddock.ports.repository import Put

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from paddock.model.ledger import Ledger
    from paddock.model.node import Node
    from paddock.model.operation import Operation
    from paddock.ports.repository import Reads
    from paddock.store.store import Store

logger = logging.getLogger(__name__)


# Some 2 kB of the ledger: only then it is worth a write to take out the creates that are recorded by now.
MANY_UNRECORDED = 50


def recounted(ledger: Ledger, nodes: Collection[Node]) -> Ledger:
    """The ledger that follows from these nodes; placement groups that have to be deleted stay."""
    exist = Counter(node.bucket_id for node in nodes)
    active = Counter(node.bucket_id for node in nodes if node.uses_limits)
    placed = Counter(
        (node.bucket_id, node.placement_group_id)
        for node in nodes
        if node.uses_limits and node.placement_group_id
    )
    groups = Counter(
        placement_group_key(node.spec.node_array, node.placement_group_id)
        for node in nodes
        if node.placement_group_id
    )
    return replace(
        ledger,
        buckets={
            bucket: BucketUse(
                active=active[bucket],
                nodes=count,
                placement_groups={name: n for (where, name), n in placed.items() if where == bucket},
            )
            for bucket, count in exist.items()
        },
        names=NameSet(node.name for node in nodes).to_document(),
        placement_groups={**dict.fromkeys(ledger.placement_groups, 0), **groups},
    )


def mend(store: Store, ledger: Ledger, nodes: Sequence[Node]) -> bool:
    """Mend a ledger that disagrees with its nodes, which are read after it; returns whether it had to be.

    A create is in the ledger before its nodes are on record, so the nodes of ``unrecorded`` creates count as
    planned. The ledger is written on condition that it has not changed since it was read: every write that
    plans or removes a node, or lets it begin or cease to count, changes it.
    """
    is_long = len(ledger.unrecorded) >= MANY_UNRECORDED
    if recounted(ledger, nodes) == ledger and not is_long:
        return False
    pending = _pending(store.read, ledger)
    # Read after the operations: what one of them planned no longer is on record now.
    existing = store.read.nodes(ledger.cluster)
    on_record = {node.id for node in existing}
    planned = (node for operation in pending for node in operation.planned_nodes())
    uses_limits = recounted(ledger, [*existing, *(node for node in planned if node.id not in on_record)])
    if uses_limits == ledger and not is_long:
        return False
    mended = replace(uses_limits, unrecorded=tuple(operation.id for operation in pending))
    store.commit(Put(mended, was=ledger))
    if uses_limits == ledger:
        return False
    # Before it was written, the nodes may have been read later than the ledger, and all may be well.
    logger.error(
        "the ledger differs from the nodes",
        extra={"cluster": ledger.cluster, "ledger": str(ledger), "mended": str(mended)},
    )
    return True


def _pending(read: Reads, ledger: Ledger) -> list[Operation]:
    found = (read.operation(identity) for identity in ledger.unrecorded)
    return [operation for operation in found if operation is not None and operation.may_lack_records]
