"""GET /clusters/{cluster}/nodes: the nodes, all or those of one operation."""

from __future__ import annotations

from paddock import bootstrap
from paddock.http.endpoint import endpoint
from paddock.http.errors import CLUSTERS
from paddock.http.reply import Reply
from paddock.http.request import Request
from paddock.http.views.node import NODES_LISTED, node_list_view
from paddock.model.base import MAX_NODES
from paddock.model.identity import OperationId, RequestId


@endpoint(CLUSTERS)
def handler(request: Request) -> Reply:
    """Return the nodes, of one operation where it is named, in pages where ``maxResults`` asks for it."""
    # Some host factories call it operation_id; given all nodes, they would end the nodes of other requests.
    operation = request.query("operation")
    if operation is None:
        operation = request.query("operation_id")
    request_id = request.query("request_id")
    page = bootstrap.list_nodes(
        request.cluster_name(),
        None if operation is None else OperationId(operation),
        None if request_id is None else RequestId(request_id),
        request.limit("maxResults", MAX_NODES),
        request.query("nextToken") or "",
    )
    return Reply(200, node_list_view(page), listing=NODES_LISTED)
