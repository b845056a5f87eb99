"""Failed nodes: nodes that were launched for a virtual cluster and have failed are forgotten.

No client knows them by name, so no client would ever end them. The virtual cluster's history keeps the
reasons, and other nodes take their place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.model.node_lifecycle import is_forgettable
from paddock.store.lookup import running_among
from paddock.store.release import forget_failed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.identity import ClusterName
    from paddock.model.node import Node
    from paddock.store.store import Store


def forget_failed_nodes(store: Store, cluster: ClusterName, nodes: Sequence[Node]) -> None:
    """Forget the forgettable nodes, unless an operation on them runs: its result counts them."""
    left = {node.id: {node.created_by, node.managing_operation_id} for node in nodes if is_forgettable(node)}
    running = running_among(
        store.read, (operation_id for operation_ids in left.values() for operation_id in operation_ids)
    ).keys()
    forget_failed(
        store, cluster, [node for node, operation_ids in left.items() if running.isdisjoint(operation_ids)]
    )
