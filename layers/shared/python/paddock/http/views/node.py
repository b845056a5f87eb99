"""Nodes and operations, in the shapes that autoscalers read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paddock.http.reply import Listing
from paddock.http.views.time import time_view
from paddock.model.node import NodeStatus
from paddock.model.node_lifecycle import has_machine
from paddock.model.operation import ENDING, LAUNCHING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.node import Node
    from paddock.model.operation import Operation
    from paddock.nodes.manage import NodeResult
    from paddock.nodes.plan import Added
    from paddock.nodes.read import NodePage


NODES_LISTED = Listing("nodes", key="NodeId")


def node_view(node: Node) -> dict[str, Any]:
    """A node, by the very names that a filter knows it by."""
    return node.attributes_as_named()


def self_view(node: Node, peers: Sequence[Node]) -> dict[str, Any]:
    """What a machine may know of its node, and how to reach the others of its placement group."""
    own = node_view(node)
    shown = (
        "Name",
        "NodeId",
        "Template",
        "MachineType",
        "PlacementGroupId",
        "VirtualCluster",
        "Configuration",
    )
    return {
        **{name: own[name] for name in shown},
        "ClusterName": node.cluster,
        "peers": [{"Name": peer.name, "PrivateIp": peer.private_ip} for peer in peers],
    }


def node_list_view(page: NodePage) -> dict[str, Any]:
    """``NodeList``, with ``nextToken`` where there is more of it."""
    view: dict[str, Any] = {"nodes": [node_view(node) for node in page.nodes]}
    if page.operation is not None:
        view["operation"] = operation_view(page.operation, page.operation_nodes)
    return {**view, "nextToken": page.next_token} if page.next_token is not None else view


def creation_view(operation: Operation, added: Sequence[Added]) -> dict[str, Any]:
    """``NodeCreationResult``: a message only where a set was not added whole."""
    sets = [
        {"added": node_set.count, **({"message": node_set.message} if node_set.message else {})}
        for node_set in added
    ]
    return {"operationId": operation.id, "sets": sets}


def management_view(operation: Operation, results: Sequence[NodeResult]) -> dict[str, Any]:
    """``NodeManagementResult``."""
    return {"operationId": operation.id, "nodes": [_result_view(result) for result in results]}


def operation_view(operation: Operation, nodes: Sequence[Node]) -> dict[str, Any]:
    """``OperationStatus``: the two documented fields, and what else there is to know."""
    return {
        "action": operation.action,
        "startTime": time_view(operation.start_time),
        "operationId": operation.id,
        "cluster": operation.cluster,
        "requestId": operation.request_id or None,
        "state": operation.state,
        "finishTime": time_view(operation.finish_time) if operation.finish_time else None,
        "progress": _progress(operation, nodes),
        "nodes": [{"id": node.id, "name": node.name, "status": node.status} for node in nodes],
        "error": operation.error or None,
    }


def _result_view(result: NodeResult) -> dict[str, Any]:
    view = {"name": result.node.name, "id": result.node.id}
    return {**view, "status": "Error", "error": result.error} if result.error else {**view, "status": "OK"}


def _progress(operation: Operation, nodes: Sequence[Node]) -> dict[str, int]:
    if not operation.is_running:
        succeeded, failed = operation.succeeded, operation.failed
    elif operation.action in LAUNCHING:
        succeeded = sum(node.status is NodeStatus.READY for node in nodes)
        failed = sum(node.status is NodeStatus.FAILED for node in nodes)
    else:
        left = sum(has_machine(node) for node in nodes) if operation.action in ENDING else len(nodes)
        succeeded, failed = operation.total - left, 0
    return {
        "total": operation.total,
        "succeeded": succeeded,
        "failed": failed,
        "running": operation.total - succeeded - failed,
    }
