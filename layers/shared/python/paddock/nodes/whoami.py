"""What a machine may learn: which node it is, and who stands beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.errors import NotFound
from paddock.nodes.read import nodes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.node import Node
    from paddock.ports.compute import Compute
    from paddock.ports.repository import Reads


def get_self(read: Reads, compute: Compute, instance_id: str) -> tuple[Node, Sequence[Node]]:
    """The node of an instance, and the other nodes of its placement group that have an address.

    The instance's tags name the operation that launched it, and so the nodes that it can be; nothing is
    written for it. Raises ``NotFound`` for an instance of no node, as long as it is none.
    """
    instance = compute.describe([instance_id]).get(instance_id) if instance_id else None
    if instance is not None and instance.operation_id:
        operation = read.operation(instance.operation_id)
        # Operations are forgotten after a time, and instances may live longer.
        found = nodes_of(read, operation) if operation else read.nodes(instance.cluster)
        for node in found:
            if node.instance_id == instance_id:
                return node, _peers(read, node)
    msg = "No node found for the instance that asks"
    raise NotFound(msg)


def _peers(read: Reads, node: Node) -> list[Node]:
    if not node.placement_group_id:
        return []
    place = (node.spec.node_array, node.placement_group_id)
    return [
        peer
        for peer in read.nodes(node.cluster)
        if (peer.spec.node_array, peer.placement_group_id) == place
        and peer.id != node.id
        and peer.is_wanted
        and peer.private_ip
    ]
