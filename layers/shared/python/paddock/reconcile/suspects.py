"""Suspects: instances that should not be as the cloud shows them, going by their nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.model.node_observation import instance_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from paddock.model.instance import Instance
    from paddock.model.node import Node
    from paddock.ports.repository import Reads


def still_wrong(
    read: Reads,
    cluster: str,
    nodes: Sequence[Node],
    seen: Mapping[str, Instance],
    is_wrong: Callable[[Node, Instance], bool],
) -> list[str]:
    """Ids of the instances that are wrong for these nodes of a cluster, and for the nodes as they are now.

    ``seen`` are the instances as the cloud showed them before the nodes were read. Somebody may have taken
    hold of a node since, so those of suspects are read again.
    """
    suspects = [node.id for node in nodes if _wrong_of(node, seen, is_wrong)]
    again = read.nodes_by_id(cluster, suspects) if suspects else ()
    return [instance_id for node in again for instance_id in _wrong_of(node, seen, is_wrong)]


def _wrong_of(
    node: Node, seen: Mapping[str, Instance], is_wrong: Callable[[Node, Instance], bool]
) -> list[str]:
    instance = instance_of(node, seen)
    return [instance.id] if instance is not None and is_wrong(node, instance) else []
