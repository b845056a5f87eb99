"""Names: no two nodes of a cluster bear the same name. If two do, that is a bug: it is logged and repaired.

One of them keeps the name: the node that a virtual cluster has, or else a node that has an instance, or else
the oldest. Each other node gets a free name; if it has neither instance nor virtual cluster, it is ended.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from paddock.model.identity import ClusterName, derived_operation_id
from paddock.model.names import PLACEHOLDER, NameSet
from paddock.model.operation import Action
from paddock.nodes.manage import Forced, begin_forced
from paddock.ports.repository import Put, WriteConflictError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paddock.model.node import Node
    from paddock.ports.workflows import Workflows
    from paddock.store.store import Store

logger = logging.getLogger(__name__)


def doubles(nodes: Iterable[Node]) -> list[Node]:
    """The nodes of a cluster that have to give up their names to other nodes."""
    bearers: defaultdict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        bearers[node.name].append(node)
    return [node for namesakes in bearers.values() for node in sorted(namesakes, key=_claim_to_its_name)[1:]]


def repair_names(store: Store, workflows: Workflows, cluster: ClusterName, nodes: Sequence[Node]) -> int:
    """Give nodes that bear another node's name a name of their own, or end them; returns their number.

    The ledger is written with each, so no other node gets the new name. It may lack the old name, if a bearer
    was removed before this; the next run mends that.
    """
    repaired = 0
    for node in doubles(nodes):
        renamed = store.retry_on_conflict(partial(_rename, store, cluster, node))
        if renamed is None:
            continue
        repaired += 1
        logger.error(
            "two nodes bore one name",
            extra={"cluster": cluster, "node": node.id, "shared": node.name, "renamed": renamed.name},
        )
        if not renamed.instance_ids and not renamed.virtual_cluster:
            identity = derived_operation_id(node.created_by, f"double name {node.id}")
            # The operation exists where an earlier run did not live to mark the node.
            reason = f"another node bears its name {node.name}"
            with suppress(WriteConflictError):
                begin_forced(store, workflows, Forced(identity, Action.TERMINATE, reason), [renamed])
    return repaired


def _claim_to_its_name(node: Node) -> tuple[bool, bool, str]:
    return not node.virtual_cluster, not node.instance_ids, node.id


def _rename(store: Store, cluster: ClusterName, node: Node) -> Node | None:
    """The node under a free name; ``None`` if it is no double any more."""
    ledger = store.read.ledger(cluster)
    nodes = store.read.nodes(cluster)
    current = next((other for other in doubles(nodes) if other.id == node.id), None)
    if ledger is None or current is None:
        return None
    taken = NameSet.from_document(ledger.names)
    for other in nodes:
        taken.add(other.name)
    [name] = islice(taken.free(f"{node.spec.node_array}-{PLACEHOLDER}", 1), 1)
    taken.add(name)
    renamed = replace(current, name=name)
    after = replace(ledger, names=taken.to_document())
    return store.commit(Put(after, was=ledger), Put(renamed, was=current)).stored(renamed)
