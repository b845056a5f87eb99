"""GET /clusters/{cluster}/status: what each bucket holds, and can still take."""

from __future__ import annotations

from paddock import bootstrap
from paddock.http.endpoint import endpoint
from paddock.http.errors import CLUSTERS
from paddock.http.reply import Reply
from paddock.http.request import Request
from paddock.http.views.cluster import status_view
from paddock.http.views.node import NODES_LISTED


@endpoint(CLUSTERS)
def handler(request: Request) -> Reply:
    """Return the status, with the nodes where ``nodes=true`` asks for them."""
    with_nodes = request.flag("nodes")
    status = bootstrap.get_cluster_status(request.cluster_name(), with_nodes=with_nodes)
    view = status_view(status, bootstrap.settings().region)
    return Reply(200, view, listing=NODES_LISTED if with_nodes else None)
