"""Tags that show an instance's node, for node arrays that want them.

They cost a call for each instance, of EC2's 10 a second, and nothing depends on them. So a few are set at a
time, at the end of tasks that look at the instances anyway, and throttled or refused calls are left to later.
"""

from __future__ import annotations

import logging
from itertools import islice
from typing import TYPE_CHECKING

from paddock.errors import TransientCompute
from paddock.model.node_observation import lacks_tags
from paddock.model.time import SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from paddock.model.identity import InstanceId
    from paddock.model.instance import Instance
    from paddock.model.node import Node
    from paddock.ports.compute import Compute

logger = logging.getLogger(__name__)

TAGS_PER_POLL = 20
TAGS_PER_RUN = 100
# No further call is begun after this time, so that a slow EC2 delays no task.
MAX_NS = 5 * SECOND_NS


def tag_instances(
    compute: Compute,
    now: Callable[[], int],
    nodes: Sequence[Node],
    seen: Mapping[InstanceId, Instance],
    most: int,
) -> None:
    """Tag at most so many of these nodes' instances, of those that are ``seen`` without their tags.

    It ends at the first call that is throttled, refused or not answered. The next time it begins with another
    instance, so an instance that is refused each time does not keep the others from their tags.
    """
    lacking = [node for node in nodes if lacks_tags(node, seen.get(node.instance_id))]
    began = now()
    first = began // SECOND_NS % len(lacking) if lacking else 0
    for node in islice((*lacking[first:], *lacking[:first]), most):
        if now() - began >= MAX_NS:
            return
        try:
            reason = compute.tag(node.instance_id, node.id, node.name)
        except TransientCompute as error:
            reason = str(error)
        if reason:
            about = {"node_id": node.id, "instance_id": node.instance_id, "reason": reason}
            logger.info("left an instance without its tags for now", extra=about)
            return
