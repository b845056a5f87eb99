"""Clusters: written whole, on condition of their revision."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.errors import InvalidRequest, NodesInUse, RevisionConflict
from paddock.model.cluster import Cluster
from paddock.model.definition import CLUSTER_NAME, bucket_id, is_cluster_name
from paddock.model.identity import ClusterName, new_uid
from paddock.model.ledger import Ledger
from paddock.model.wording import listed, quoted
from paddock.ports.repository import Check, Delete, Put
from paddock.store.lookup import require_cluster, require_ledger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from paddock.model.definition import Bucket, ClusterDefinition, NodeArray
    from paddock.ports.compute import Compute, MachineFacts
    from paddock.ports.repository import Reads
    from paddock.requests.bodies import ClusterWrite
    from paddock.store.store import Store


def list_clusters(read: Reads, after: str) -> Sequence[Cluster]:
    """See ``Repository.clusters``. Raises ``InvalidRequest`` for a token that none can be."""
    if after and not is_cluster_name(after):
        msg = "nextToken must be one that a reply gave"
        raise InvalidRequest(msg)
    return read.clusters(after)


def put_cluster(
    store: Store,
    compute: Compute,
    region: str,
    name: ClusterName,
    body: ClusterWrite,
    expected: int | None,
) -> tuple[Cluster, bool]:
    """Create the cluster, or replace its definition; returns it, and whether it is new.

    ``expected`` is the revision that the writer last read, ``None`` or 0 to create. Machine facts that the
    definition leaves out are what the cloud says. Raises ``RevisionConflict``, ``InvalidRequest`` for an
    instance type that the cloud does not offer, a subnet that it does not know, or a region that is not the
    deployment's, and ``NodesInUse``
    for a bucket that nodes still use and the new definition has no longer.
    """
    if not is_cluster_name(name) or body.name not in (None, name):
        msg = f"the path and the body must have the same name, matching {CLUSTER_NAME}"
        raise InvalidRequest(msg)
    definition = body.definition()

    def attempt() -> tuple[Cluster, bool]:
        current = store.read.cluster(name)
        _require_revision(name, current, expected)
        _require_region(definition, region)
        complete, zones = _with_facts(compute, definition), _zones(compute, definition)
        if current is None:
            new = Cluster(
                name=name,
                definition=complete,
                uid=new_uid(),
                zones=zones,
            )
            ledger = Ledger(cluster=name, cluster_uid=new.uid)
            return store.commit(Put(new, was=None), Put(ledger, was=None)).stored(new), True
        ledger = require_ledger(store.read, name)
        _require_used_buckets(name, current.definition, complete, ledger)
        new = replace(current, definition=complete, zones=zones)
        return store.commit(Put(new, was=current), Check(ledger)).stored(new), False

    return store.retry_on_conflict(attempt)


def delete_cluster(store: Store, name: ClusterName, expected: int | None) -> None:
    """Remove a cluster without nodes, once its placement groups are gone from the cloud too.

    Raises ``NotFound``, ``RevisionConflict`` and ``NodesInUse``.
    """

    def attempt() -> None:
        current = require_cluster(store.read, name)
        if expected is not None:
            _require_revision(name, current, expected)
        ledger = require_ledger(store.read, name)
        if ledger.node_count:
            msg = f"the cluster must have no nodes, it has {ledger.node_count}"
            raise NodesInUse(msg, node_count=ledger.node_count)
        if ledger.placement_groups:
            # Nobody would know of them any more.
            msg = (
                "the cluster must have no placement groups; they are deleted within minutes, unless other "
                "instances are in them or they lack the tag paddock:deployment"
            )
            raise NodesInUse(msg, placement_groups=sorted(ledger.placement_groups))
        store.commit(Delete(current), Delete(ledger))

    store.retry_on_conflict(attempt)


def _require_revision(name: ClusterName, current: Cluster | None, expected: int | None) -> None:
    revision = current.revision if current else 0
    if (expected or 0) != revision:
        state = f"is at revision {revision}" if current else "does not exist"
        based = f"the request is based on {expected}" if expected else "send the revision that you read"
        msg = f"cluster {quoted(name)} {state}, {based}"
        raise RevisionConflict(msg, revision=revision)


def _require_region(definition: ClusterDefinition, region: str) -> None:
    other_regions = {array.region for array in definition.nodearrays} - {None, region}
    if other_regions:
        msg = f"region must be {region}, where Paddock runs, or left out"
        raise InvalidRequest(msg)


def _zones(compute: Compute, definition: ClusterDefinition) -> dict[str, str]:
    """The zone of each subnet, so that no launch names two of one zone."""
    subnets = {subnet_id for array in definition.nodearrays for subnet_id in array.subnet_ids}
    zones = dict(compute.subnet_zones(subnets)) if subnets else {}
    if unknown := sorted(subnets - zones.keys()):
        msg = f"each of subnetIds must be a subnet that EC2 knows here: {', '.join(unknown)}"
        raise InvalidRequest(msg)
    return zones


def _require_used_buckets(
    name: ClusterName, before: ClusterDefinition, after: ClusterDefinition, ledger: Ledger
) -> None:
    """Refuse to take away, or make another machine of, a bucket that nodes still use."""
    kept = {(array.name, bucket.machine_type): _machine(array, bucket) for array, bucket in after.buckets()}
    used = [
        f"{bucket.machine_type} in {array.name}"
        for array, bucket in before.buckets()
        if ledger.use(bucket_id(name, array.name, bucket.machine_type)).nodes
        and kept.get((array.name, bucket.machine_type)) != _machine(array, bucket)
    ]
    if used:
        msg = (
            "the definition must keep the buckets that have nodes, with their instanceType, templateId, "
            f"vcpuCount and interruptible: {', '.join(used)}"
        )
        raise NodesInUse(msg, buckets=used)


def _machine(array: NodeArray, bucket: Bucket) -> tuple[str, str, int, bool]:
    """What nodes of a bucket are counted and claimed by."""
    return bucket.instance_type, bucket.template_id, bucket.cores, array.interruptible


def _with_facts(compute: Compute, definition: ClusterDefinition) -> ClusterDefinition:
    unknown = {bucket.instance_type for _, bucket in definition.buckets() if not bucket.facts_are_known}
    facts = compute.machine_facts(unknown) if unknown else {}
    missing = sorted(
        bucket.instance_type
        for _, bucket in definition.buckets()
        if bucket.instance_type in unknown - facts.keys()
        and (bucket.vcpu_count is None or bucket.memory is None)
    )
    if missing:
        rule = "each instanceType must be one that EC2 offers here, or have vcpuCount and memory"
        msg = f"{rule}: {listed(missing)}"
        raise InvalidRequest(msg)
    arrays = tuple(
        array.model_copy(update={"buckets": tuple(_complete(bucket, facts) for bucket in array.buckets)})
        for array in definition.nodearrays
    )
    return definition.model_copy(update={"nodearrays": arrays})


def _complete(bucket: Bucket, facts: Mapping[str, MachineFacts]) -> Bucket:
    """The bucket with what it leaves out filled in; what it says itself wins."""
    found = facts.get(bucket.instance_type)
    vcpu_count = bucket.cores if found is None else found.vcpu_count
    defaults = {
        "vcpu_count": vcpu_count,
        "pcpu_count": found.pcpu_count if found else vcpu_count,
        "memory": found.memory_gib if found else bucket.memory,
        "gpu_count": found.gpu_count if found else 0,
        "infiniband": found.infiniband if found else False,
    }
    return bucket.model_copy(
        update={name: value for name, value in defaults.items() if getattr(bucket, name) is None}
    )
