"""Counters: the ledger says what the nodes say. Where it does not, that is a bug, told loudly and mended."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.model.identity import next_revision, revised_at
from paddock.model.ledger import BucketUse, placement_group_key
from paddock.model.names import NameSet
from paddock.model.operation import SECOND_NS
from paddock.ports.repository import Put

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from paddock.model.ledger import Ledger
    from paddock.model.node import Node
    from paddock.ports.clock import Clock
    from paddock.ports.repository import Repository

logger = logging.getLogger(__name__)

# The list of running operations lags a little behind: only for what is older is it complete.
SETTLED_NS = 120 * SECOND_NS


def recounted(ledger: Ledger, nodes: Collection[Node]) -> Ledger:
    """The ledger as these nodes make it; placement groups that have to be deleted stay."""
    exist = Counter(node.bucket_id for node in nodes)
    active = Counter(node.bucket_id for node in nodes if node.counted)
    placed = Counter(
        (node.bucket_id, node.placement_group_id)
        for node in nodes
        if node.counted and node.placement_group_id
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


def mend(repository: Repository, clock: Clock, ledger: Ledger, nodes: Sequence[Node]) -> bool:
    """Mend a ledger that its nodes, read after it, do not bear out; tells whether it had to be.

    A create stands in the ledger before its nodes do, so a difference is looked at more closely: the nodes of
    creates that run and have not launched count as planned, and a ledger that has just changed is left to a
    later run. It is written on condition that nothing has changed it since; with every node that begins or
    ceases to count, something would have.
    """
    if recounted(ledger, nodes) == ledger or clock.now() - revised_at(ledger.revision) < SETTLED_NS:
        return False
    planned = _planned_nodes(repository, ledger)
    # Read after the operations: what one of them planned no longer is on record now.
    existing = repository.nodes(ledger.cluster)
    known = {node.id for node in existing}
    every = [*existing, *(node for node in planned if node.id not in known)]
    mended = recounted(ledger, every)
    if mended == ledger:
        return False
    revision = next_revision(clock.now(), ledger.revision)
    repository.commit(Put(replace(mended, revision=revision), was=ledger))
    # Before that was written, the nodes may have been read later than the ledger, and nothing be wrong.
    logger.error(
        "the ledger differs from the nodes",
        extra={"cluster": ledger.cluster, "ledger": str(ledger), "mended": str(mended)},
    )
    return True


def _planned_nodes(repository: Repository, ledger: Ledger) -> list[Node]:
    running = (repository.operation(one) for one in repository.running_operations())
    return [
        node
        for operation in running
        if operation is not None and operation.may_lack_records
        if (operation.cluster, operation.cluster_uid) == (ledger.cluster, ledger.cluster_uid)
        for node in operation.planned_nodes()
    ]
