"""GET /clusters/{cluster}/nodes: the nodes, all or those of one operation."""

from __future__ import annotations

from paddock import bootstrap
from paddock.http.endpoint import endpoint
from paddock.http.errors import CLUSTERS
from paddock.http.reply import Reply
from paddock.http.request import Request
from paddock.http.views.node import node_list_view


@endpoint(CLUSTERS)
def handler(request: Request) -> Reply:
    """Answer the nodes, narrowed by ``operation`` or ``request_id``."""
    cluster = request.path("cluster")
    nodes, operation = bootstrap.list_nodes(cluster, request.query("operation"), request.query("request_id"))
    return Reply(200, node_list_view(nodes, operation))
