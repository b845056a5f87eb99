"""Left-over nodes: those that were launched for a virtual cluster and have failed are forgotten.

Nobody else knows them by name, so nobody would ever end them. The virtual cluster's history tells what became
of them, and others take their place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.model.node_lifecycle import is_left_over
from paddock.service.lookup import running_among
from paddock.service.settling import forget_failed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.node import Node
    from paddock.service.store import Store


def forget_left_over(store: Store, cluster: str, nodes: Sequence[Node]) -> None:
    """Forget those of these nodes that are left over, unless an operation on them runs: it counts by them."""
    left = {node.id: {node.operation_id, node.managed_by} for node in nodes if is_left_over(node)}
    running = running_among(store.read, (one for ids in left.values() for one in ids)).keys()
    forget_failed(store, cluster, [node for node, ids in left.items() if running.isdisjoint(ids)])
