"""POST /clusters/{cluster}/nodes/reimage: replace the selected nodes' instances."""

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
    """Mark the nodes and start the operation that replaces their instances."""
    body = request.body(NodeManagementRequest)
    operation, results = bootstrap.act_on_nodes(Action.REIMAGE, request.cluster_name(), body)
    return Reply(202, management_view(operation, results), request.location_of(operation.id))
