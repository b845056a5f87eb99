"""The facts that a machine may read: its node, and the other nodes of its placement group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.errors import NotFound
from paddock.model.operation import BATCH_SIZE
from paddock.nodes.read import nodes_of, some_nodes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.identity import InstanceId
    from paddock.model.instance import Instance
    from paddock.model.node import Node
    from paddock.ports.compute import Compute
    from paddock.ports.repository import Reads


def get_self(read: Reads, compute: Compute, instance_id: InstanceId) -> tuple[Node, Sequence[Node]]:
    """The node of an instance, and the other nodes of its placement group that have an address.

    The instance's tags name the operation and the batch that launched it, and so the nodes that it can be: at
    most 500 are read, of however many nodes the operation has. Nothing is written for it. Raises ``NotFound``
    for an instance of no node, as long as it is none.
    """
    instance = compute.describe([instance_id]).get(instance_id) if instance_id else None
    if instance is not None and instance.operation_id:
        for node in _launched_with(read, instance):
            if node.instance_id == instance_id:
                return node, _peers(read, node)
    msg = "No node found for the instance that asks"
    raise NotFound(msg)


def _launched_with(read: Reads, instance: Instance) -> Sequence[Node]:
    """The nodes of the batch that launched the instance, or more where it is not known any more."""
    operation = read.operation(instance.operation_id)
    if operation is None:
        # Operations are forgotten after a time, and instances may live longer.
        return read.nodes(instance.cluster)
    first = operation.first_of(instance.batch)
    if first is None:
        return nodes_of(read, operation)
    return some_nodes_of(read, operation, first - 1, BATCH_SIZE)


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
