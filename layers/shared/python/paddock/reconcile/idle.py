"""Idle: a node that virtual clusters are done with is ended after the cluster's idle timeout.

Such a node was launched for a virtual cluster, or was given back by one. All other nodes are their creator's:
an autoscaler ends its nodes by itself, and Paddock does not see the jobs that run on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.model.node_lifecycle import is_idle
from paddock.model.operation import Action
from paddock.nodes.manage import Command, manage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.identity import ClusterName
    from paddock.model.node import Node
    from paddock.ports.workflows import Workflows
    from paddock.store.store import Store


def end_idle(store: Store, workflows: Workflows, cluster: ClusterName, nodes: Sequence[Node]) -> int:
    """End the idle nodes among these; returns their number.

    A virtual cluster that claims such a node meanwhile keeps it.
    """
    stored = store.read.cluster(cluster)
    timeout = stored.definition.idle_timeout_seconds if stored else 0
    ids = [node.id for node in nodes if is_idle(node, timeout, store.now())]
    if not ids:
        return 0

    def select() -> list[Node]:
        found = store.read.nodes_by_id(cluster, ids)
        return [node for node in found if is_idle(node, timeout, store.now())]

    operation, _ = manage(store, workflows, Command(cluster, Action.TERMINATE), select)
    return operation.total
