"""Drift: instances that are not in the state that their nodes have, and that nothing else would put right.

- The instance of a Deallocated node that was started by hand is stopped again. It would cost money and use up
  quotas of the account without using limits. To have it run, start the node.
- An instance that is still there when its node's termination has given up is asked to end again. EC2 may have
  been out of reach for as long as the termination lasted. A protected instance ends once it is unprotected.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from paddock.model.node_observation import instance_of, must_end, must_stop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from paddock.model.identity import ClusterName, InstanceId
    from paddock.model.instance import Instance
    from paddock.model.node import Node
    from paddock.ports.compute import Compute
    from paddock.ports.repository import Reads

logger = logging.getLogger(__name__)


def stop_started(
    read: Reads,
    compute: Compute,
    cluster: ClusterName,
    nodes: Sequence[Node],
    seen: Mapping[InstanceId, Instance],
) -> int:
    """Stop instances that run for Deallocated nodes; returns the number that EC2 agreed to stop.

    ``seen`` are the instances as the cloud showed them before the nodes were read. If the cloud was behind,
    an instance is stopped that has stopped already, which is harmless.
    """
    stopping = _drifted(read, cluster, nodes, seen, must_stop)
    stopped, refused = _changed(compute.stop, stopping)
    if stopping:
        extra = {"cluster": cluster, "stopped": stopped, "refused": refused}
        logger.warning("stopped instances of Deallocated nodes", extra=extra)
    return len(stopped)


def end_again(
    read: Reads,
    compute: Compute,
    cluster: ClusterName,
    nodes: Sequence[Node],
    seen: Mapping[InstanceId, Instance],
) -> int:
    """End instances of a cluster that are still there after their nodes' terminations.

    Returns the number of instances that EC2 agreed to end. ``seen`` are the instances as the cloud showed
    them before the nodes were read.
    """
    ending = _drifted(read, cluster, nodes, seen, must_end)
    ended, refused = _changed(compute.terminate, ending)
    if ending:
        extra = {"cluster": cluster, "ended": ended, "refused": refused}
        logger.warning("ended instances that outlived their termination", extra=extra)
    return len(ended)


def _changed(
    change: Callable[[Sequence[InstanceId]], Mapping[InstanceId, str]], drifted: Sequence[InstanceId]
) -> tuple[list[InstanceId], dict[InstanceId, str]]:
    """The instances that EC2 agreed to change, and why not the others. EC2 is not asked about none."""
    refused = dict(change(drifted)) if drifted else {}
    return [instance_id for instance_id in drifted if instance_id not in refused], refused


def _drifted(
    read: Reads,
    cluster: ClusterName,
    nodes: Sequence[Node],
    seen: Mapping[InstanceId, Instance],
    has_drifted: Callable[[Node, Instance], bool],
) -> list[InstanceId]:
    """Ids of the instances that have drifted from these nodes, and from the nodes as they are now.

    ``seen`` are the instances as the cloud showed them before the nodes were read. Another request may have
    taken hold of a node since, so the candidates are read again.
    """
    candidates = [node.id for node in nodes if _drifted_of(node, seen, has_drifted)]
    again = read.nodes_by_id(cluster, candidates) if candidates else ()
    return [instance_id for node in again for instance_id in _drifted_of(node, seen, has_drifted)]


def _drifted_of(
    node: Node, seen: Mapping[InstanceId, Instance], has_drifted: Callable[[Node, Instance], bool]
) -> list[InstanceId]:
    instance = instance_of(node, seen)
    return [instance.id] if instance is not None and has_drifted(node, instance) else []
