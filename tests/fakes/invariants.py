"""What must be true of a world, whatever was asked of it, in whatever order, and whatever crashed.

``always`` holds at every moment between two calls. ``at_rest`` holds once no operation runs any more. Both
answer with what is violated, in words; nothing is fine.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from paddock.model.definition import bucket_id
from paddock.model.identity import ClusterName, OperationId
from paddock.model.ledger import BucketUse, placement_group_key
from paddock.model.names import NameSet
from paddock.model.node import NodeStatus
from paddock.model.operation import Action, Operation, OperationState
from paddock.model.quotas import quota_code
from paddock.model.usage import interval_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from paddock.model.cluster import Cluster
    from paddock.model.node import Node
    from tests.fakes.world import World


def always(world: World, *, limits: bool = True) -> list[str]:
    """Violations at any moment. ``limits`` is for worlds whose limits were never lowered below their use."""
    return _always(_Seen(world), limits=limits)


def _always(seen: _Seen, *, limits: bool) -> list[str]:
    world = seen.world
    found = [*_members(seen), *_launches(seen), *_recordings(seen)]
    for cluster in seen.clusters:
        nodes = seen.nodes_of[cluster.name]
        found += _unique("node name", (node.name for node in nodes))
        found += _usage(world, cluster.name, nodes)
        if limits:
            found += _limits(cluster, nodes)
            found += _quotas(world, cluster, nodes)
    return found


def at_rest(world: World, *, limits: bool = True) -> list[str]:
    """Violations of a world in which nothing is under way."""
    seen = _Seen(world)
    found = _always(seen, limits=limits)
    for cluster in seen.clusters:
        found += _ledger(world, cluster, seen.nodes_of[cluster.name])
    return [*found, *_claims(seen), *_operations(seen), *_instances(seen)]


class _Seen:
    """The records of a world, each read once."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.clusters = world.repository.clusters()
        self.nodes_of = {one.name: world.repository.nodes(one.name) for one in self.clusters}
        self.nodes = [node for nodes in self.nodes_of.values() for node in nodes]
        self.operations = operations(world)
        self.virtual_clusters, _ = world.repository.virtual_clusters()


def operations(world: World) -> list[Operation]:
    """Every operation on record."""
    return [one for one in world.repository._records.values() if isinstance(one, Operation)]


def launched(world: World) -> Counter[OperationId]:
    """How many instances were ever launched for each operation, but for those that vanished."""
    return Counter({OperationId(tag): count for tag, count in world.ec2.tagged("paddock:operation").items()})


def _members(seen: _Seen) -> Iterator[str]:
    """A node is in at most one virtual cluster, knows it, and is Ready; none has more than it asked for."""
    found = seen.virtual_clusters
    nodes = {node.id: node for node in seen.nodes}
    yield from _unique(
        "node in a virtual cluster", (identity for one in found for identity in one.held_ids())
    )
    for one in found:
        types = Counter(instance.template_id for instance in one.node_instances.values())
        if types - Counter(one.replica_sets):
            yield f"virtual cluster {one.id} asked for {one.replica_sets} and has {dict(types)}"
        for identity in one.node_instances:
            if identity not in nodes:
                yield f"virtual cluster {one.id} has node {identity}, which does not exist"
            elif not one.is_claimant_of(nodes[identity]):
                yield f"virtual cluster {one.id} has node {identity}, which does not know"
            elif not nodes[identity].is_ready:
                yield f"virtual cluster {one.id} has node {identity}, which is {nodes[identity].status}"


def _claims(seen: _Seen) -> Iterator[str]:
    """Every claim is confirmed, and nothing is waited for."""
    found = seen.virtual_clusters
    held = {identity for one in found for identity in one.node_instances}
    for node in seen.nodes:
        if node.virtual_cluster and node.id not in held:
            yield f"node {node.id} says it is in {node.virtual_cluster}, which does not know"
    for one in found:
        if one.pending:
            yield f"virtual cluster {one.id} still waits for {one.pending_ids()}"
        if one.condition.status is one.is_unsatisfied:
            yield f"virtual cluster {one.id} is {one.condition.reason} with {one.unassigned()} unassigned"


def _launches(seen: _Seen) -> Iterator[str]:
    """No operation ever launches more than it asked for, and no instance belongs to two nodes."""
    totals = {one.id: one.total for one in seen.operations}
    for operation_id, count in launched(seen.world).items():
        if count > totals.get(operation_id, 0):
            yield f"operation {operation_id} launched {count} of {totals.get(operation_id, 0)} instances"
    yield from _unique("instance id", (node.instance_id for node in seen.nodes if node.instance_id))


def _recordings(seen: _Seen) -> Iterator[str]:
    """What a create launches may be removed again, and so all of its nodes must be on record for good."""
    for one in seen.operations:
        has_begun = one.batches > 0 or one.launched_to > 0
        if one.action is Action.CREATE and has_begun and not one.recorded:
            yield f"create {one.id} launches before all of its nodes are on record"


def _usage(world: World, cluster: ClusterName, nodes: Sequence[Node]) -> Iterator[str]:
    """No node's use of a machine is on record twice, nor while it goes on."""
    running = [one for node in nodes if (one := interval_until(node, node.launched_at))]
    ended = world.repository.usage_intervals(cluster, 0)
    yield from _unique("usage interval", (f"{one.node_id} from {one.start}" for one in [*running, *ended]))


def _limits(cluster: Cluster, nodes: Sequence[Node]) -> Iterator[str]:
    """Counted anew from the nodes, and from nothing else."""
    definition = cluster.definition
    active = Counter(node.bucket_id for node in nodes if node.uses_limits)
    total = total_cores = 0
    for array in definition.nodearrays:
        in_array = array_cores = 0
        for bucket in array.buckets:
            count = active[bucket_id(cluster.name, array.name, bucket.machine_type)]
            in_array, array_cores = in_array + count, array_cores + count * bucket.cores
            yield from _over(f"{bucket.machine_type} maxCount", count, bucket.max_count)
            yield from _over(f"{bucket.machine_type} quota", count * bucket.cores, bucket.quota_core_count)
        yield from _over(f"{array.name} maxCount", in_array, array.max_count)
        yield from _over(f"{array.name} maxCoreCount", array_cores, array.max_core_count)
        total, total_cores = total + in_array, total_cores + array_cores
    yield from _over("cluster maxCount", total, definition.max_count)
    yield from _over("cluster maxCoreCount", total_cores, definition.max_core_count)


def _quotas(world: World, cluster: Cluster, nodes: Sequence[Node]) -> Iterator[str]:
    """What has no number of its own stays within the account's; the others may go beyond."""
    record = world.repository.quotas()
    active = Counter(node.bucket_id for node in nodes if node.uses_limits)
    used: Counter[str | None] = Counter()
    for array, bucket in cluster.definition.buckets():
        if bucket.quota_core_count is None:
            count = active[bucket_id(cluster.name, array.name, bucket.machine_type)]
            code = quota_code(bucket.instance_type, spot=array.interruptible)
            used[code] += count * bucket.cores
    for code, quota in record.cores.items() if record else ():
        yield from _over(f"quota {code}", used[code], quota)


def _over(what: str, used: int, limit: int | None) -> Iterator[str]:
    if limit is not None and used > limit:
        yield f"{what} is {limit}, {used} are used"


def _ledger(world: World, cluster: Cluster, nodes: Sequence[Node]) -> Iterator[str]:
    """The ledger says what the nodes say."""
    ledger = world.repository.ledger(cluster.name)
    if ledger is None:
        yield f"cluster {cluster.name} has no ledger"
        return
    uses: dict[str, BucketUse] = {}
    for node in nodes:
        use = uses.get(node.bucket_id, BucketUse())
        uses[node.bucket_id] = use.changed(
            active=int(node.uses_limits), nodes=1, placement_group=node.placement_group_id
        )
    if ledger.buckets != uses:
        yield f"the ledger counts {ledger.buckets}, the nodes are {uses}"
    groups = Counter(
        placement_group_key(node.spec.node_array, node.placement_group_id)
        for node in nodes
        if node.placement_group_id
    )
    if ledger.placement_groups != groups:
        yield f"the ledger has the placement groups {ledger.placement_groups}, the nodes {dict(groups)}"
    there = [name for name in world.ec2.groups() if name.startswith(f"paddock/{cluster.name}/")]
    for lost in sorted(set(there) - {f"paddock/{cluster.name}/{key}" for key in groups}):
        yield f"placement group {lost} is left over"
    names = sorted(NameSet.from_document(ledger.names))
    if names != sorted(node.name for node in nodes):
        yield f"the ledger has the names {names}, the nodes {sorted(node.name for node in nodes)}"


def _operations(seen: _Seen) -> Iterator[str]:
    """Every operation has ended, and says the truth about how."""
    nodes = {node.id: node for node in seen.nodes}
    for one in seen.operations:
        if one.is_running or not one.finish_time:
            yield f"operation {one.id} ({one.action}) still runs"
            continue
        if one.succeeded + one.failed != one.total:
            yield f"operation {one.id} counts {one.succeeded} + {one.failed} of {one.total}"
        if one.failed and not one.error:
            yield f"operation {one.id} gives no reason"
        if (one.state is OperationState.SUCCEEDED) != (one.total > 0 and not one.failed) and one.total:
            yield f"operation {one.id} is {one.state} with {one.failed} of {one.total} failed"
        if one.action is Action.CREATE:
            # What another operation has taken hold of since is no longer this one's to tell.
            mine = [nodes[node.id] for node in one.planned_nodes() if node.id in nodes]
            never = sum(
                node.is_wanted and not node.ready_at for node in mine if node.managing_operation_id == one.id
            )
            if never > one.failed:
                yield f"create {one.id} counts {one.failed} as failed, {never} were never Ready"
        else:
            left = sum(identity in nodes and not nodes[identity].fixed for identity in one.ids())
            if left > one.failed and one.action in (Action.TERMINATE, Action.REMOVE):
                yield f"termination {one.id} counts {one.failed} as failed, {left} still exist"


def _instances(seen: _Seen) -> Iterator[str]:
    """Whatever costs money is a node's, and counts; and no node waits for what will not come."""
    world, nodes = seen.world, seen.nodes
    for lost in sorted(world.existing() - {one for node in nodes for one in node.instance_ids}):
        yield f"instance {lost} exists and belongs to no node"
    for lost in sorted(world.alive() & {node.instance_id for node in nodes if not node.uses_limits}):
        yield f"instance {lost} is alive and does not count"
    waiting = (NodeStatus.ACQUIRING, NodeStatus.PREPARING, NodeStatus.TERMINATING)
    for node in nodes:
        if node.status in waiting:
            yield f"node {node.id} is {node.status} and no operation runs"
        if node.uses_limits and not node.instance_ids:
            yield f"node {node.id} is {node.status}, uses up limits, and has no instance"


def _unique(what: str, values: Iterable[str]) -> Iterator[str]:
    yield from (f"{what} {value!r} is there {n} times" for value, n in Counter(values).items() if n > 1)
