"""Orphans: instances that belong to no node, so that no operation would end them."""

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
    """The instances that have not ended, and that none of these nodes has a right to."""
    owned = {instance_id for node in nodes if may_own_instances(node) for instance_id in node.instance_ids}
    return [instance for instance in instances if instance.id not in owned and not instance.state.is_ending]


def end_instances(compute: Compute, orphans: Sequence[Instance], **about: str) -> int:
    """End these instances, and log it; returns their number, also of those that the cloud will not end."""
    if orphans:
        ids = [orphan.id for orphan in orphans]
        refused = compute.terminate(ids)
        ended = [instance_id for instance_id in ids if instance_id not in refused]
        extra: dict[str, object] = {**about, "ended": ended, "refused": dict(refused)}
        logger.warning("ended instances that no node had", extra=extra)
    return len(orphans)
