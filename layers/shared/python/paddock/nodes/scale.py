"""Scaling a node array: add what is missing to a total."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.errors import NotFound
from paddock.model.desired import DesiredNodes
from paddock.model.limits import count_bucket, use_of
from paddock.model.wording import quoted
from paddock.nodes.create import create

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paddock.model.cluster import Cluster
    from paddock.model.definition import Bucket, NodeArray
    from paddock.model.identity import ClusterName
    from paddock.model.ledger import Ledger
    from paddock.model.operation import Operation
    from paddock.nodes.plan import Added
    from paddock.ports.workflows import Workflows
    from paddock.requests.bodies import ScaleRequest
    from paddock.store.store import Store


def scale_nodes(
    store: Store,
    workflows: Workflows,
    cluster_name: ClusterName,
    array_name: str,
    request: ScaleRequest,
) -> tuple[Operation, list[Added]]:
    """Add nodes until a node array has as many, or as many cores, as asked for; never take any away.

    Returns one set, as ``create_nodes`` does. Missing nodes are counted in the attempt that also records the
    new nodes, so that requests at the same time do not exceed the total together. Raises ``NotFound`` for the
    cluster or node array, and ``DuplicateRequest``.
    """

    def decide(cluster: Cluster, ledger: Ledger, quotas: Mapping[str, int], now: int) -> list[DesiredNodes]:
        array = cluster.definition.array(array_name)
        if array is None:
            name = quoted(array_name[:80])
            msg = f"No node array found with the name {name} in cluster {quoted(cluster_name)}"
            raise NotFound(msg)
        use = use_of(cluster_name, ledger, (array,))
        if request.total_core_count is None:
            missing = max(0, (request.total_node_count or 0) - use.nodes)
            counts = dict.fromkeys(array.buckets, missing)
        else:
            missing = max(0, request.total_core_count - use.cores)
            counts = {bucket: -(-missing // bucket.cores) for bucket in array.buckets}
        rooms = {
            bucket: count_bucket(cluster, ledger, quotas, array, bucket, now) for bucket in array.buckets
        }
        return [_desired_of(array, counts, {bucket: room.available_count for bucket, room in rooms.items()})]

    return create(store, workflows, cluster_name, request.request_id, decide)


def _desired_of(array: NodeArray, counts: Mapping[Bucket, int], rooms: Mapping[Bucket, int]) -> DesiredNodes:
    """The missing nodes, all of one bucket: the first with room for all of them, or else with any room.

    If no bucket has enough room, the first with any room takes what fits. A repeated request continues with
    the next bucket.
    """
    takes_all = [bucket for bucket in array.buckets if rooms[bucket] >= counts[bucket]]
    if takes_all and len(set(counts.values())) == 1:
        # Whichever bucket it will be, it is that many; so none has to be named.
        return DesiredNodes(count=counts[takes_all[0]], node_array=array.name)
    with_room = (bucket for bucket in array.buckets if rooms[bucket])
    chosen = takes_all[0] if takes_all else next(with_room, array.buckets[0])
    return DesiredNodes(count=counts[chosen], node_array=array.name, machine_type=chosen.machine_type)
