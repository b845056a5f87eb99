"""Observe: record changes of the instances of nodes that no operation works on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.model.node_lifecycle import is_ending, is_terminating
from paddock.model.node_observation import noticed
from paddock.model.operation import DEADLINE_NS
from paddock.store.lookup import running_among
from paddock.store.release import never_launched, write_verdicts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from paddock.model.identity import ClusterName, InstanceId, OperationId
    from paddock.model.instance import Instance
    from paddock.model.node import Node
    from paddock.ports.repository import Reads
    from paddock.store.store import Store


def ended_launching_operations(read: Reads, nodes: Sequence[Node], now: int) -> set[OperationId]:
    """The launching operations that have ended before these nodes reached their goal.

    Only of nodes that no operation took hold of for half an hour: few operations end before that.
    """
    late = {
        node.launching_operation_id
        for node in nodes
        if node.is_starting and now - node.managed_at >= DEADLINE_NS
    }
    return late.difference(running_among(read, late))


def observe(
    store: Store,
    cluster: ClusterName,
    nodes: Sequence[Node],
    seen: Mapping[InstanceId, Instance],
    ended: Collection[OperationId],
) -> int:
    """Record the changes of watched nodes of a cluster; returns the number that changed their status.

    ``seen`` are the instances that the cloud showed before the nodes were read, ``ended`` the
    ``ended_launching_operations`` of these. A node that another writer changes meanwhile is left to the next
    look.
    """
    # An ending node without instance waits for its launching operation, which may still get it an instance.
    waiting = [node for node in nodes if is_ending(node) and is_terminating(node) and not node.instance_ids]
    passed = {node.id for node in never_launched(store.read, waiting)}

    def judge(node: Node) -> Node | None:
        if node.id in passed and is_ending(node) and is_terminating(node):
            return None
        return noticed(node, seen, ended, store.now())

    verdicts = write_verdicts(store, cluster, nodes, judge)
    return sum((after := verdicts[node.id]) is None or after.status is not node.status for node in nodes)
