"""Stop: the instance of a Deallocated node that was started by hand is stopped again.

It would cost money and use up quotas of the account without counting. Whoever wants it starts the node.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from paddock.model.node_observation import must_stop
from paddock.reconcile.suspects import still_wrong

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from paddock.model.instance import Instance
    from paddock.model.node import Node
    from paddock.ports.compute import Compute
    from paddock.ports.repository import Reads

logger = logging.getLogger(__name__)


def stop_started(
    read: Reads,
    compute: Compute,
    cluster: str,
    nodes: Sequence[Node],
    seen: Mapping[str, Instance],
) -> int:
    """Stop what runs behind Deallocated nodes of a cluster; answers how many instances EC2 agreed to stop.

    ``seen`` are the instances as the cloud showed them before the nodes were read. Where it was behind, an
    instance is stopped that has stopped already, which is harmless.
    """
    stopping = still_wrong(read, cluster, nodes, seen, must_stop)
    if not stopping:
        return 0
    refused = compute.stop(stopping)
    stopped = [one for one in stopping if one not in refused]
    logger.warning(
        "stopped instances of Deallocated nodes",
        extra={"cluster": cluster, "stopped": stopped, "refused": dict(refused)},
    )
    return len(stopped)
