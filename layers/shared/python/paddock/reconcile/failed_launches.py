"""Failed launches: nodes that failed to launch for a virtual cluster are forgotten; nobody asked for them.

The operation that failed to launch them forgets them at its end, unless it dies there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.model.node import NodeStatus
from paddock.service.settling import forget_failed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.node import Node
    from paddock.ports.clock import Clock
    from paddock.ports.repository import Repository


def is_failed_launch(node: Node) -> bool:
    """Whether the operation that made the node failed to launch it, and no other has taken hold of it."""
    in_vain = node.status is NodeStatus.FAILED and not node.counted and not node.ready_at
    return in_vain and node.is_wanted and node.launcher == node.operation_id


def forget_failed_launches(repository: Repository, clock: Clock, cluster: str, nodes: Sequence[Node]) -> None:
    """Forget those of these nodes that failed to launch for a virtual cluster whose operation has ended."""
    failed = [node for node in nodes if is_failed_launch(node)]
    operations = {one: repository.operation(one) for one in {node.operation_id for node in failed}}
    ended = {
        one
        for one, operation in operations.items()
        if operation is not None and not operation.is_running and operation.virtual_clusters()
    }
    forget_failed(repository, clock, cluster, [node.id for node in failed if node.operation_id in ended])
