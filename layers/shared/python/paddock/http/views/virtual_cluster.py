"""Virtual clusters, in the envelope and the shapes that their clients read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paddock.http.reply import Listing
from paddock.http.views.time import time_view
from paddock.model.virtual_cluster import AllocationMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.virtual_cluster import Condition, VirtualCluster, VirtualClusterChange


VIRTUAL_CLUSTERS_LISTED = Listing("virtualClusters", key="virtualClusterId", within="data")


def envelope(message: str, data: dict[str, Any]) -> dict[str, Any]:
    """Every reply of this surface that is no error."""
    return {"result": True, "msg": message, "data": data}


def virtual_cluster_view(virtual_cluster: VirtualCluster) -> dict[str, Any]:
    """One virtual cluster."""
    return {
        "virtualClusterId": virtual_cluster.id,
        "allocationMode": virtual_cluster.allocation_mode,
        "divisible": virtual_cluster.allocation_mode is AllocationMode.EXCLUSIVE,
        "cluster": virtual_cluster.cluster,
        "replicaSets": virtual_cluster.replica_sets,
        "pendingReplicaSets": virtual_cluster.unassigned(),
        "nodeInstances": {
            node_id: {"hostname": instance.hostname, "templateId": instance.template_id}
            for node_id, instance in virtual_cluster.node_instances.items()
        },
        "conditions": [_condition_view(virtual_cluster.condition)],
        "revision": virtual_cluster.revision,
    }


def written_view(virtual_cluster: VirtualCluster) -> dict[str, Any]:
    """One that was just written, with the operation that launches what it waits for."""
    view = virtual_cluster_view(virtual_cluster)
    if virtual_cluster.is_unsatisfied and virtual_cluster.operation_id:
        return {**view, "operationId": virtual_cluster.operation_id}
    return view


def history_view(
    identity: str, changes: Sequence[VirtualClusterChange], next_token: int | None
) -> dict[str, Any]:
    """Changes of one virtual cluster, latest first; ``nextToken`` only where there may be more."""
    view: dict[str, Any] = {
        "virtualClusterId": identity,
        "changes": [_change_view(change) for change in changes],
    }
    return {**view, "nextToken": str(next_token)} if next_token is not None else view


def _condition_view(condition: Condition) -> dict[str, Any]:
    return {
        "type": "Satisfied",
        "status": str(condition.status),
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": time_view(condition.since),
    }


def _change_view(change: VirtualClusterChange) -> dict[str, Any]:
    return {
        "action": change.action,
        "by": change.by or None,
        "time": time_view(change.at),
        "revision": change.revision,
        "previousRevision": change.previous,
        "replicaSets": change.replica_sets,
        "nodes": change.nodes,
        "addedNodes": change.added,
        "removedNodes": change.removed,
        "message": change.message,
    }


def virtual_clusters_view(found: Sequence[VirtualCluster], next_token: str | None) -> dict[str, Any]:
    """A page of them; ``nextToken`` only where there may be more."""
    view: dict[str, Any] = {
        "virtualClusters": [virtual_cluster_view(virtual_cluster) for virtual_cluster in found]
    }
    return {**view, "nextToken": next_token} if next_token is not None else view
