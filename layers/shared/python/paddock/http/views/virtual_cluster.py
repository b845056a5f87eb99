"""Virtual clusters, in the envelope and the shapes that their clients read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paddock.http.reply import Listing
from paddock.model.virtual_cluster import AllocationMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.virtual_cluster import VirtualCluster


VIRTUAL_CLUSTERS_LISTED = Listing("virtualClusters", key="virtualClusterId", within="data")


def envelope(message: str, data: dict[str, Any]) -> dict[str, Any]:
    """Every reply of this surface that is no error."""
    return {"result": True, "msg": message, "data": data}


def virtual_cluster_view(one: VirtualCluster) -> dict[str, Any]:
    """One virtual cluster."""
    return {
        "virtualClusterId": one.id,
        "allocationMode": one.allocation_mode,
        "divisible": one.allocation_mode is AllocationMode.EXCLUSIVE,
        "cluster": one.cluster,
        "replicaSets": one.replica_sets,
        "pendingReplicaSets": {},
        "nodeInstances": {
            node_id: {"hostname": instance.hostname, "templateId": instance.template_id}
            for node_id, instance in one.node_instances.items()
        },
        "conditions": [],
        "revision": one.revision,
    }


def virtual_clusters_view(found: Sequence[VirtualCluster], next_token: str | None) -> dict[str, Any]:
    """A page of them; ``nextToken`` only where there may be more."""
    view: dict[str, Any] = {"virtualClusters": [virtual_cluster_view(one) for one in found]}
    return {**view, "nextToken": next_token} if next_token is not None else view
