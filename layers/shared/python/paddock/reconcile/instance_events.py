"""Instance events: the cloud's hints, which make what the schedule would find a matter of seconds.

They come late, twice or never, and about any instance of the account: what counts is what the cloud shows.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING

from paddock.model.identity import derived_operation_id
from paddock.model.operation import Action
from paddock.ports.repository import WriteConflictError
from paddock.reconcile.observe import observe
from paddock.service.healing import heal_unmet
from paddock.service.manage_nodes import begin_forced
from paddock.service.read_nodes import nodes_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from paddock.model.node import Node
    from paddock.ports.clock import Clock
    from paddock.ports.compute import Compute, Instance
    from paddock.ports.repository import Repository
    from paddock.ports.workflows import Workflows

logger = logging.getLogger(__name__)


def look_at_instances(
    repository: Repository,
    compute: Compute,
    workflows: Workflows,
    clock: Clock,
    instance_ids: Collection[str],
    interrupted: Collection[str],
) -> tuple[int, set[str]]:
    """Observe these instances' nodes, and end those whose spot instance will be interrupted.

    Answers how many nodes were changed, and the ids of instances that could not be looked after, which stop
    no others. Instances that this deployment did not launch are none of its business. Each event may come
    again: an interrupted node that is ending already is left alone. Virtual clusters that lose nodes so get
    others at once.
    """
    launched: defaultdict[tuple[str, str], dict[str, Instance]] = defaultdict(dict)
    for instance in compute.describe(instance_ids).values():
        if instance.operation_id:
            launched[instance.cluster, instance.operation_id][instance.id] = instance
    changed = 0
    failed: set[str] = set()
    for (cluster, operation_id), seen in launched.items():
        try:
            nodes = [one for one in _nodes(repository, cluster, operation_id) if one.instance_id in seen]
            changed += _look_at_nodes(repository, workflows, clock, nodes, seen, interrupted)
        except Exception:  # told to the queue, which brings them again
            logger.exception("instances not looked at", extra={"operation_id": operation_id})
            failed |= seen.keys()
    return changed, failed


def _look_at_nodes(
    repository: Repository,
    workflows: Workflows,
    clock: Clock,
    nodes: Sequence[Node],
    seen: Mapping[str, Instance],
    interrupted: Collection[str],
) -> int:
    """The nodes of one launching operation; answers how many were changed."""
    if not nodes:
        return 0
    changed = observe(repository, clock, nodes[0].cluster, nodes, seen)
    leaving = [one for one in nodes if one.instance_id in interrupted and one.is_wanted]
    if leaving:
        _end(repository, workflows, clock, leaving)
    # Those that lost nodes now, and those for whom there was no room as long as these had not ended.
    heal_unmet(repository, workflows, clock, nodes[0].cluster)
    return changed + len(leaving)


def _nodes(repository: Repository, cluster: str, operation_id: str) -> Sequence[Node]:
    """The nodes of the operation that launched; all of the cluster, once that is forgotten."""
    operation = repository.operation(operation_id)
    return nodes_of(repository, operation) if operation is not None else repository.nodes(cluster)


def _end(repository: Repository, workflows: Workflows, clock: Clock, nodes: Sequence[Node]) -> None:
    """Terminate the nodes by an operation whose id follows from their instances: it is begun once."""
    instances = ",".join(sorted(node.instance_id for node in nodes))
    identity = derived_operation_id(nodes[0].operation_id, f"interrupted {instances}")
    with suppress(WriteConflictError):
        ids = [node.id for node in nodes]
        begin_forced(repository, workflows, clock, nodes[0].cluster, identity, Action.TERMINATE, ids)
