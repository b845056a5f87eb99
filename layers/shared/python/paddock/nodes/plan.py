"""Planning new nodes: how many of each set there is room for, in which bucket, and under which names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from paddock.errors import InvalidRequest
from paddock.model.base import MAX_NODES
from paddock.model.configuration import merged
from paddock.model.definition import bucket_id
from paddock.model.desired import DesiredNodes
from paddock.model.identity import RequestId, VirtualClusterId, new_operation_id
from paddock.model.limits import (
    count_bucket,
    is_avoided,
    is_throttled,
    other_bucket_with,
    placement_group_room,
)
from paddock.model.names import PLACEHOLDER, NameSet
from paddock.model.node import LaunchSpec, ShutdownPolicy
from paddock.model.operation import Action, NodeGroup, Operation, OperationState, deadline_of
from paddock.model.places import apart
from paddock.model.wording import listed, quoted
from paddock.ports.repository import Check, Put
from paddock.store.operations import record_operation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paddock.model.cluster import Cluster
    from paddock.model.definition import Bucket, NodeArray
    from paddock.model.ledger import Ledger
    from paddock.model.operation import UsedRequestId
    from paddock.model.virtual_cluster import VirtualCluster
    from paddock.ports.repository import Write


@dataclass(frozen=True, slots=True)
class Added:
    """The number of nodes of a set that were added, and why not all were."""

    count: int
    message: str = ""


class NodePlan:
    """The plan of a create: the ledger while sets are added, and their nodes.

    The nodes are launched for ``virtual_cluster``, or for none.
    """

    def __init__(
        self,
        cluster: Cluster,
        ledger: Ledger,
        quotas: Mapping[str, int],
        now: int,
        virtual_cluster: VirtualCluster | None = None,
    ) -> None:
        self._cluster = cluster
        self._quotas = quotas
        self._now = now
        self._virtual_cluster = virtual_cluster
        self._names = NameSet.from_document(ledger.names)
        # By bucket: room is only taken, so there is never more than there was at the last look.
        self._room_at_most: dict[str, int] = {}
        self._next_index = 1
        self._before = ledger
        self.ledger = ledger
        self._added: list[Added] = []
        self._groups: list[NodeGroup] = []
        self._offerings: dict[str, tuple[LaunchSpec, ...]] = {}

    @property
    def reasons(self) -> str:
        """Why not everything was added."""
        return "; ".join(dict.fromkeys(added.message for added in self._added if added.message))

    def operation(self, request_id: RequestId = RequestId("")) -> Operation:
        """The operation that makes the nodes. Without any it has ended: well if none were asked for."""
        total = self._next_index - 1
        ended = OperationState.FAILED if self.reasons else OperationState.SUCCEEDED
        return Operation(
            id=new_operation_id(self._now),
            cluster=self._cluster.name,
            cluster_uid=self._cluster.uid,
            action=Action.CREATE,
            state=OperationState.RUNNING if total else ended,
            start_time=self._now,
            deadline=deadline_of(Action.CREATE, total, self._now),
            finish_time=0 if total else self._now,
            total=total,
            request_id=request_id,
            groups=tuple(self._groups),
            offerings=self._offerings,
            error="" if total else self.reasons,
        )

    def writes(self, operation: Operation, earlier: UsedRequestId | None = None) -> list[Write]:
        """The writes, at most four, that count, name and record the nodes in one transaction."""
        unrecorded = (*self.ledger.unrecorded, *([operation.id] if operation.total else ()))
        names = self._names.to_document()
        after = replace(self.ledger, names=names, unrecorded=unrecorded)
        return [Check(self._cluster), Put(after, was=self._before), *record_operation(operation, earlier)]

    def add(self, desired: DesiredNodes) -> Added:
        """Add as many nodes of a set as there is room and there are names for."""
        array = self._cluster.definition.array(desired.node_array)
        if array is None:
            msg = f"nodearray must be one of: {listed(a.name for a in self._cluster.definition.nodearrays)}"
            raise InvalidRequest(f"{msg}; not {quoted(desired.node_array)}")
        if array.interruptible and desired.attributes.shutdown_policy is ShutdownPolicy.DEALLOCATE:
            msg = (
                f"ShutdownPolicy must be Terminate in node array {quoted(array.name)}, which is"
                " interruptible: EC2 cannot stop a spot instance"
            )
            raise InvalidRequest(msg)
        bucket, room, reason = self._choose(desired, array)
        wanted = min(desired.count, room)
        name_format = desired.name_format or f"{array.name}-{PLACEHOLDER}"
        names = list(islice(self._names.free(name_format, desired.name_offset), wanted))
        if len(names) < wanted:
            reason = f"the name {quoted(name_format)} is taken by another node"
        if names:
            self._take(desired, array, bucket, names)
        message = "" if len(names) == desired.count else f"{len(names)} of {desired.count} added: {reason}"
        self._added.append(Added(len(names), message))
        return self._added[-1]

    def add_of_type(self, node_type: str, count: int) -> None:
        """Add nodes of a type from all buckets that have it; buckets that were refused lately come last."""
        places = [
            (array, bucket)
            for array, bucket in self._cluster.definition.buckets()
            if bucket.template_id == node_type
        ]
        for array, bucket in sorted(places, key=lambda place: self._is_avoided(*place)):
            if count:
                desired = DesiredNodes(count=count, node_array=array.name, machine_type=bucket.machine_type)
                count -= self.add(desired).count

    def _choose(self, desired: DesiredNodes, array: NodeArray) -> tuple[Bucket, int, str]:
        """The first bucket that takes the whole set, or else the first that matches at all; and its room.

        Those that the cloud refused lately come last.
        """
        if desired.machine_type is None:
            candidates = list(array.buckets)
        else:
            named = array.bucket(desired.machine_type)
            if named is None:
                known = [bucket.machine_type for bucket in array.buckets]
                msg = f"machineType must be one of: {listed(known)}; not {quoted(desired.machine_type)}"
                raise InvalidRequest(msg)
            candidates = [named]
        # A placement group that exists has one machine type, and so only that one matches.
        matching = [bucket for bucket in candidates if not self._is_placed_elsewhere(desired, array, bucket)]
        if matching and not desired.attributes.start_automatically:
            # A node that is off uses up no limits.
            room = max(0, MAX_NODES - self.ledger.node_count)
            return matching[0], room, f"a cluster holds at most {MAX_NODES} nodes"
        ordered = sorted(matching or candidates, key=lambda bucket: self._is_avoided(array, bucket))
        first, *others = ordered
        choice = (first, *self._room(desired, array, first))
        if choice[1] >= desired.count:
            return choice
        further = (
            (bucket, *self._room(desired, array, bucket))
            for bucket in others
            if self._room_at_most.get(self._key(array, bucket), desired.count) >= desired.count
        )
        return next((other for other in further if other[1] >= desired.count), choice)

    def _key(self, array: NodeArray, bucket: Bucket) -> str:
        return bucket_id(self._cluster.name, array.name, bucket.machine_type)

    def _is_avoided(self, array: NodeArray, bucket: Bucket) -> bool:
        return is_avoided(self.ledger, array, self._key(array, bucket), self._now)

    def _room(self, desired: DesiredNodes, array: NodeArray, bucket: Bucket) -> tuple[int, str]:
        available = count_bucket(
            self._cluster, self.ledger, self._quotas, array, bucket, self._now
        ).available_count
        key = self._key(array, bucket)
        self._room_at_most[key] = available
        reason = f"limits and quotas leave room for {available} of {bucket.machine_type} in {array.name}"
        if is_throttled(self.ledger, array, key, self._now):
            reason = f"there was no capacity for {bucket.machine_type} in {array.name} a moment ago"
        if not desired.placement_group_id:
            return available, reason
        other = self._other_bucket_with(desired.placement_group_id, array, bucket)
        if other is not None:
            return 0, f"placement group {desired.placement_group_id} has machine type {other.machine_type}"
        placed = self.ledger.use(key).placement_groups.get(desired.placement_group_id, 0)
        room = placement_group_room(bucket, placed)
        if room < available:
            return room, f"placement group {desired.placement_group_id} has room for {room}"
        return available, reason

    def _is_placed_elsewhere(self, desired: DesiredNodes, array: NodeArray, bucket: Bucket) -> bool:
        group = desired.placement_group_id
        return bool(group) and self._other_bucket_with(group, array, bucket) is not None

    def _other_bucket_with(self, group: str, array: NodeArray, bucket: Bucket) -> Bucket | None:
        return other_bucket_with(self._cluster.name, self.ledger, array, bucket, group)

    def _take(self, desired: DesiredNodes, array: NodeArray, bucket: Bucket, names: list[str]) -> None:
        spec = _launch_spec(self._cluster, array, bucket)
        group, attributes = desired.placement_group_id, desired.attributes
        use = self.ledger.use(spec.bucket_id)
        off = not attributes.start_automatically
        use = use.changed(active=0 if off else len(names), nodes=len(names), placement_group=group)
        for name in names:
            self._names.add(name)
        self.ledger = self.ledger.with_use(spec.bucket_id, use).with_placed(array.name, group, len(names))
        # A machine type that was asked for is what is meant, and a placement group has one machine type.
        may_fall_back = desired.machine_type is None and not group and len(array.buckets) > 1
        if may_fall_back:
            self._offerings[array.name] = tuple(
                _launch_spec(self._cluster, array, each) for each in array.buckets
            )
        self._groups.append(
            NodeGroup(
                spec=spec,
                first=self._next_index,
                names=NameSet(names).to_document(),
                placement_group_id=group,
                virtual_cluster=self._virtual_cluster.id if self._virtual_cluster else VirtualClusterId(""),
                virtual_cluster_uid=self._virtual_cluster.uid if self._virtual_cluster else "",
                may_fall_back=may_fall_back,
                keep_alive=attributes.keep_alive,
                fixed=attributes.fixed,
                off=off,
                shutdown_policy=attributes.shutdown_policy,
                attributes=attributes.others,
                configuration=merged(array.configuration, attributes.configuration),
            )
        )
        self._next_index += len(names)


def _launch_spec(cluster: Cluster, array: NodeArray, bucket: Bucket) -> LaunchSpec:
    return LaunchSpec(
        node_array=array.name,
        bucket_id=bucket_id(cluster.name, array.name, bucket.machine_type),
        machine_type=bucket.machine_type,
        instance_type=bucket.instance_type,
        template_id=bucket.template_id,
        vcpu_count=bucket.cores,
        memory=bucket.memory or 0.0,
        interruptible=array.interruptible,
        tag_instances=array.tag_instances,
        launch_template_id=array.launch_template.launch_template_id,
        launch_template_version=array.launch_template.version,
        price_per_hour=bucket.price_per_hour,
        subnets=apart(array.subnet_ids, cluster.zones),
    )
