"""Clusters and their status, in the shapes that autoscalers read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paddock.http.reply import Listing
from paddock.http.views.node import node_view
from paddock.model.base import MAX_NODES
from paddock.model.configuration import with_defaults
from paddock.model.limits import Limit
from paddock.model.node import NodeStatus
from paddock.model.time import SECOND_NS

if TYPE_CHECKING:
    from paddock.clusters.status import BucketStatus, ClusterStatus
    from paddock.model.cluster import Cluster
    from paddock.model.definition import NodeArray

CLUSTERS_LISTED = Listing("clusters", key="name")
_NEVER = -1.0


def cluster_view(cluster: Cluster) -> dict[str, Any]:
    """A cluster with its definition, as it was put, completed with what the cloud says of its machines."""
    definition = cluster.definition.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"name": cluster.name, "revision": cluster.revision, **definition}


def status_view(status: ClusterStatus, region: str) -> dict[str, Any]:
    """``ClusterStatus``; clients crash on a missing field, so each is there, also limits that are not set."""
    definition = status.cluster.definition
    most_cores = max((bucket.cores for _, bucket in definition.buckets()), default=1)
    view: dict[str, Any] = {
        "state": "Started",
        "targetState": "Started",
        "maxCount": _or(definition.max_count, MAX_NODES),
        "maxCoreCount": _or(definition.max_core_count, MAX_NODES * most_cores),
        # Autoscalers take a machine type's family quota from the first bucket that has it, so the zeros of
        # spot come last.
        "nodearrays": [
            _array_view(status, array, region)
            for array in sorted(definition.nodearrays, key=lambda array: array.interruptible)
        ],
    }
    if status.nodes is not None:
        view["nodes"] = [node_view(node) for node in status.nodes if node.status is not NodeStatus.OFF]
    return view


def _array_view(status: ClusterStatus, array: NodeArray, region: str) -> dict[str, Any]:
    definition = status.cluster.definition
    most_cores = max(bucket.cores for bucket in array.buckets)
    max_count = _or(array.max_count, _or(definition.max_count, MAX_NODES))
    max_core_count = _or(array.max_core_count, _or(definition.max_core_count, MAX_NODES * most_cores))
    return {
        "name": array.name,
        "maxCount": max_count,
        "maxCoreCount": max_core_count,
        "nodearray": {
            "Name": array.name,
            "Region": region,
            "SubnetId": array.subnet_ids[0],
            "SubnetIds": list(array.subnet_ids),
            "AvailabilityZones": {
                subnet_id: status.cluster.zones.get(subnet_id) for subnet_id in array.subnet_ids
            },
            "MachineType": [bucket.machine_type for bucket in array.buckets],
            "Interruptible": array.interruptible,
            "ThrottleCapacity": array.throttle_capacity,
            "MaxCount": max_count,
            "MaxCoreCount": max_core_count,
            "LaunchTemplateId": array.launch_template.launch_template_id,
            "Configuration": with_defaults(array.configuration),
        },
        "buckets": [_bucket_view(status, bucket) for bucket in status.buckets if bucket.array is array],
    }


def _bucket_view(status: ClusterStatus, bucket_status: BucketStatus) -> dict[str, Any]:
    bucket, counts, cores = bucket_status.bucket, bucket_status.counts, bucket_status.bucket.cores
    # A spot bucket has no quota of its family; zeros say so, and limit nothing.
    family = bucket_status.family or Limit(0, 0, cores)
    view: dict[str, Any] = {
        "bucketId": bucket_status.id,
        "definition": {"machineType": bucket.machine_type},
        "maxCount": counts.max_count,
        "maxCoreCount": counts.max_count * cores,
        "activeCount": counts.active_count,
        "activeCoreCount": counts.active_count * cores,
        "availableCount": counts.available_count,
        "availableCoreCount": counts.available_count * cores,
        "quotaCount": bucket_status.quota.max_count,
        "quotaCoreCount": bucket_status.quota.capacity,
        "consumedCoreCount": bucket_status.quota.used,
        "familyQuotaCount": family.max_count,
        "familyQuotaCoreCount": family.capacity,
        "familyConsumedCoreCount": family.used,
        "regionalQuotaCount": bucket_status.regional.max_count,
        "regionalQuotaCoreCount": bucket_status.regional.capacity,
        "regionalConsumedCoreCount": bucket_status.regional.used,
        "maxPlacementGroupSize": bucket.placement_group_size,
        "maxPlacementGroupCoreSize": bucket.placement_group_size * cores,
        "placementGroups": [
            {"name": name, "activeCount": count, "activeCoreCount": count * cores}
            for name, count in sorted(bucket_status.placement_groups.items())
        ],
        "valid": True,
        "invalidReason": "",
        "lastCapacityFailure": _seconds(bucket_status.since_capacity_failure),
        "virtualMachine": {
            "vcpuCount": cores,
            "pcpuCount": _or(bucket.pcpu_count, cores),
            "gpuCount": bucket.gpu_count or 0,
            "memory": bucket.memory or 0.0,
            "infiniband": bool(bucket.infiniband),
        },
    }
    if status.nodes is not None:
        view["activeNodes"] = [
            node.name for node in status.nodes if node.bucket_id == bucket_status.id and node.uses_limits
        ]
    return view


def _seconds(nanoseconds: int | None) -> float:
    return _NEVER if nanoseconds is None else nanoseconds / SECOND_NS


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
