"""DELETE /virtual_clusters/{virtualCluster}: give its nodes back, or end them."""

from __future__ import annotations

from paddock import bootstrap
from paddock.http.endpoint import endpoint
from paddock.http.errors import VIRTUAL_CLUSTERS
from paddock.http.reply import Reply
from paddock.http.request import Request
from paddock.http.views.virtual_cluster import envelope


@endpoint(VIRTUAL_CLUSTERS)
def handler(request: Request) -> Reply:
    """Remove the virtual cluster, on condition of its revision where one is given."""
    identity, terminate = request.virtual_cluster_id(), request.flag("terminate")
    deleted, operation = bootstrap.delete_virtual_cluster(
        identity, request.deleted_revision(), terminate=terminate, by=request.user
    )
    data = {"virtualClusterId": deleted.id, "revision": deleted.revision}
    if operation is not None:
        data["operationId"] = operation.id
    return Reply(200, envelope(f"Virtual cluster {deleted.id} removed.", data))
