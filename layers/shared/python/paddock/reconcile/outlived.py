"""Outlived: an instance that is still there when its node's termination has given up is asked to end again.

EC2 may have been out of reach for as long as the termination lasted, and nobody else would ask once more. One
that is protected ends as soon as it is not.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from paddock.model.node_observation import has_outlived
from paddock.reconcile.suspects import still_wrong

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from paddock.model.instance import Instance
    from paddock.model.node import Node
    from paddock.ports.compute import Compute
    from paddock.ports.repository import Reads

logger = logging.getLogger(__name__)


def end_outlived(
    read: Reads,
    compute: Compute,
    cluster: str,
    nodes: Sequence[Node],
    seen: Mapping[str, Instance],
) -> int:
    """End what outlived its node's termination in a cluster; answers how many instances EC2 agreed to end.

    ``seen`` are the instances as the cloud showed them before the nodes were read.
    """
    ending = still_wrong(read, cluster, nodes, seen, has_outlived)
    if not ending:
        return 0
    refused = compute.terminate(ending)
    ended = [one for one in ending if one not in refused]
    logger.warning(
        "ended instances that outlived their termination",
        extra={"cluster": cluster, "ended": ended, "refused": dict(refused)},
    )
    return len(ended)
