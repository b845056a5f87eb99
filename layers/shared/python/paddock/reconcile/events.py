"""Instance events: the cloud's hints, by which changes are seen within seconds, before the scheduled run.

They come late, twice or never, and about any instance of the account: only the cloud's description counts.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from paddock.errors import Busy
from paddock.model.identity import ClusterName, InstanceId, OperationId, derived_operation_id
from paddock.model.instance import InstanceState
from paddock.model.operation import Action
from paddock.model.time import SECOND_NS
from paddock.nodes.manage import Forced, begin_forced
from paddock.nodes.read import nodes_of
from paddock.ports.repository import WriteConflictError
from paddock.reconcile.observe import ended_launching_operations, observe
from paddock.virtual_clusters.reconcile import reconcile_unsatisfied

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from paddock.model.instance import Instance
    from paddock.model.node import Node
    from paddock.ports.compute import Compute
    from paddock.ports.repository import Reads
    from paddock.ports.workflows import Workflows
    from paddock.store.store import Store

logger = logging.getLogger(__name__)

# Of the two minutes that EC2 gives, less than the time that a warning takes to get here.
NOTICE_NS = 105 * SECOND_NS
_REASON = "EC2 takes its spot instance back"


@dataclass(slots=True)
class Looked:
    """The number of nodes changed, and of Ready nodes that are ended at a spot warning, by cluster.

    ``failed`` are the ids of instances that could not be handled; they hold up no others.
    """

    changed: int = 0
    interrupted: Counter[str] = field(default_factory=Counter)
    failed: set[InstanceId] = field(default_factory=set)


def look_at_instances(
    store: Store,
    compute: Compute,
    workflows: Workflows,
    instance_ids: Collection[InstanceId],
    interrupted: Collection[InstanceId],
) -> Looked:
    """Observe these instances' nodes, and end those whose spot instance will be interrupted.

    Instances that this deployment did not launch are none of its business. Each event may come
    again: an interrupted node that is ending already is left alone. Virtual clusters that lose nodes so get
    others at once.
    """
    launched: defaultdict[tuple[ClusterName, OperationId], dict[InstanceId, Instance]] = defaultdict(dict)
    for instance in compute.describe(instance_ids).values():
        if instance.operation_id:
            launched[instance.cluster, instance.operation_id][instance.id] = instance
    looked = Looked()
    all_nodes = cache(store.read.nodes)
    by_cluster: defaultdict[ClusterName, set[InstanceId]] = defaultdict(set)
    for (cluster, operation_id), seen in launched.items():
        with _failures_reported(looked, seen, operation_id=operation_id):
            found = _nodes(store.read, all_nodes, cluster, operation_id)
            nodes = [node for node in found if not seen.keys().isdisjoint(node.instance_ids)]
            if nodes:
                by_cluster[cluster] |= seen.keys()
                _look_at_nodes(store, workflows, nodes, seen, interrupted, looked)
    for cluster, about in by_cluster.items():
        # Virtual clusters that lost nodes now, and those that lacked the room that these nodes leave.
        with _failures_reported(looked, about, cluster=cluster):
            reconcile_unsatisfied(store, workflows, cluster)
    return looked


@contextmanager
def _failures_reported(looked: Looked, instance_ids: Collection[InstanceId], **about: str) -> Iterator[None]:
    """If this fails, the instances are reported to the queue, which brings their events again."""
    try:
        yield
    except (Busy, WriteConflictError):
        logger.info("changed meanwhile", extra=about)
        looked.failed.update(instance_ids)
    except Exception:  # the others are looked at all the same
        logger.exception("instances not looked at", extra=about)
        looked.failed.update(instance_ids)


def _look_at_nodes(
    store: Store,
    workflows: Workflows,
    nodes: Sequence[Node],
    seen: Mapping[InstanceId, Instance],
    interrupted: Collection[InstanceId],
    looked: Looked,
) -> None:
    """Observe nodes that one operation launched, and end those that will be interrupted."""
    cluster = nodes[0].cluster
    ended = ended_launching_operations(store.read, nodes, store.now())
    looked.changed += observe(store, cluster, nodes, seen, ended)
    leaving = [node for node in nodes if node.instance_id in interrupted and node.is_wanted]
    if leaving:
        _end(store, workflows, leaving)
    looked.changed += len(leaving)
    # A node whose instance is ending already has Failed by now, and was counted so.
    looked.interrupted.update(
        cluster for node in leaving if node.is_ready and seen[node.instance_id].state is InstanceState.RUNNING
    )


def _nodes(
    read: Reads,
    all_nodes: Callable[[ClusterName], Sequence[Node]],
    cluster: ClusterName,
    operation_id: OperationId,
) -> Sequence[Node]:
    """The nodes of the operation that launched; all of the cluster, once the operation is forgotten."""
    operation = read.operation(operation_id)
    return nodes_of(read, operation) if operation is not None else all_nodes(cluster)


def _end(store: Store, workflows: Workflows, nodes: Sequence[Node]) -> None:
    """Terminate the nodes by an operation whose id follows from their instances: it is begun once.

    They serve no more from now on, and the work that they have keeps the time that EC2 gives it.
    """
    instances = ",".join(sorted(node.instance_id for node in nodes))
    identity = derived_operation_id(nodes[0].created_by, f"interrupted {instances}")
    with suppress(WriteConflictError):
        begin_forced(store, workflows, Forced(identity, Action.TERMINATE, _REASON, NOTICE_NS), nodes)
