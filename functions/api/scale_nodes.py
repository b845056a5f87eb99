"""POST /clusters/{cluster}/scale/{nodearray}: add nodes until there are as many as asked for."""

from __future__ import annotations

from paddock import bootstrap
from paddock.http.endpoint import endpoint
from paddock.http.errors import NODES
from paddock.http.reply import Reply
from paddock.http.request import Request
from paddock.http.views.node import creation_view
from paddock.requests.bodies import ScaleRequest


@endpoint(NODES)
def handler(request: Request) -> Reply:
    """Record the nodes that are missing and start the operation that launches them."""
    in_query = {
        "requestId": request.query("requestId"),
        "totalCoreCount": request.count("totalCoreCount"),
        "totalNodeCount": request.count("totalNodeCount"),
    }
    desired = request.body(ScaleRequest, in_query)
    operation, added = bootstrap.scale_node_array(request.cluster_name(), request.path("nodearray"), desired)
    return Reply(202, creation_view(operation, added), request.location_of(operation.id))
