"""POST /clusters/{cluster}/nodes/shutdown: end or stop the selected nodes, by their ShutdownPolicy."""

from __future__ import annotations

from paddock import bootstrap
from paddock.http.endpoint import endpoint
from paddock.http.errors import NODES
from paddock.http.reply import Reply
from paddock.http.request import Request
from paddock.http.views.node import management_view
from paddock.model.operation import Action
from paddock.requests.bodies import NodeManagementRequest


@endpoint(NODES)
def handler(request: Request) -> Reply:
    """Mark the nodes and start the operation that ends or stops their instances."""
    body = request.body(NodeManagementRequest)
    operation, results = bootstrap.act_on_nodes(Action.SHUTDOWN, request.cluster_name(), body)
    return Reply(202, management_view(operation, results), request.location_of(operation.id))
