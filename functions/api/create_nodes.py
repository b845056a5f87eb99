"""POST /clusters/{cluster}/nodes/create: add nodes, set by set."""

from __future__ import annotations

from paddock import bootstrap
from paddock.http.endpoint import endpoint
from paddock.http.errors import NODES
from paddock.http.reply import Reply
from paddock.http.request import Request
from paddock.http.views.node import creation_view
from paddock.requests.bodies import NodeCreationRequest


@endpoint(NODES)
def handler(request: Request) -> Reply:
    """Record the nodes and start the operation that launches them."""
    operation, added = bootstrap.add_nodes(request.cluster_name(), request.body(NodeCreationRequest))
    return Reply(202, creation_view(operation, added), request.location_of(operation.id))
