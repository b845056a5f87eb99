"""Instances that no node has: nobody would end them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from paddock.model.node_lifecycle import may_own_instances

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paddock.model.instance import Instance
    from paddock.model.node import Node
    from paddock.ports.compute import Compute

logger = logging.getLogger(__name__)


def find_orphans(instances: Iterable[Instance], nodes: Iterable[Node]) -> list[Instance]:
    """Those of the instances that have not ended, and that none of these nodes has a right to."""
    owned = {one for node in nodes if may_own_instances(node) for one in node.instance_ids}
    return [one for one in instances if one.id not in owned and not one.state.is_ending]


def end_instances(compute: Compute, orphans: Sequence[Instance], **about: str) -> int:
    """End these, and say so in the log; answers how many they are, with those that the cloud will not end."""
    if orphans:
        ids = [one.id for one in orphans]
        refused = compute.terminate(ids)
        ended = [one for one in ids if one not in refused]
        extra = {**about, "ended": ended, "refused": dict(refused)}
        logger.warning("ended instances that no node had", extra=extra)
    return len(orphans)
