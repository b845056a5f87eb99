"""Outlived: an instance that is still there when its node's termination has given up is asked to end again.

EC2 may have been out of reach for as long as the termination lasted, and nobody else would ask once more. One
that is protected ends as soon as it is not.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from paddock.service.observation import instance_of, is_ending, is_to_end
from paddock.service.orphans import ENDING_STATES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from paddock.model.node import Node
    from paddock.ports.compute import Compute, Instance
    from paddock.ports.repository import Repository

logger = logging.getLogger(__name__)


def has_outlived(node: Node, instance: Instance | None) -> bool:
    """Whether the node's termination has given up, and this instance of it is not about to end."""
    given_up = is_ending(node) and is_to_end(node)
    return given_up and instance is not None and instance.state not in ENDING_STATES


def end_outlived(
    repository: Repository,
    compute: Compute,
    cluster: str,
    nodes: Sequence[Node],
    seen: Mapping[str, Instance],
) -> int:
    """End what outlived its node's termination in a cluster; answers how many instances EC2 agreed to end.

    ``seen`` are the instances as the cloud showed them before the nodes were read.
    """
    suspects = [node.id for node in nodes if has_outlived(node, instance_of(node, seen))]
    if not suspects:
        return 0
    # Somebody may have begun another termination, which asks by itself.
    again = repository.nodes_by_id(cluster, suspects)
    ending = [
        instance.id
        for node in again
        if (instance := instance_of(node, seen)) is not None and has_outlived(node, instance)
    ]
    if not ending:
        return 0
    refused = compute.terminate(ending)
    logger.warning(
        "ended instances that outlived their termination",
        extra={"cluster": cluster, "ended": ending, "refused": dict(refused)},
    )
    return len(ending) - len(refused)
