"""Fan out: a run of the reconciler is one part for each running operation, and one for each cluster.

Parts are done side by side and each by itself, so a slow or broken one stops no other, and the run takes no
longer with a thousand clusters.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from paddock.errors import ComputeThrottled, ComputeUnavailable
from paddock.ports.parts import Part

if TYPE_CHECKING:
    from paddock.ports.compute import Compute
    from paddock.ports.parts import Parts
    from paddock.ports.repository import Repository

logger = logging.getLogger(__name__)


def fan_out(repository: Repository, compute: Compute, parts: Parts) -> int:
    """Send the parts of one run; answers how many. Two runs at once do no harm.

    Clusters that are gone have a part too, as long as there are instances of theirs.
    """
    operations = repository.running_operations()
    clusters = [cluster.name for cluster in repository.clusters()]
    known = [Part(operation_id=one) for one in operations] + [Part(cluster=name) for name in clusters]
    parts.send(known)
    try:
        gone = sorted(set(compute.clusters()).difference(clusters))
    except (ComputeThrottled, ComputeUnavailable) as error:
        logger.warning("clusters that are gone are left to the next run", extra={"reason": str(error)})
        return len(known)
    parts.send([Part(cluster=name) for name in gone])
    return len(known) + len(gone)
