"""GET /virtual_clusters/{virtualCluster}: one virtual cluster with its nodes."""

from __future__ import annotations

from paddock import bootstrap
from paddock.http.endpoint import endpoint
from paddock.http.errors import VIRTUAL_CLUSTERS
from paddock.http.reply import Reply, etag
from paddock.http.request import Request
from paddock.http.views.virtual_cluster import envelope, virtual_cluster_view


@endpoint(VIRTUAL_CLUSTERS)
def handler(request: Request) -> Reply:
    """Return the virtual cluster."""
    found = bootstrap.get_virtual_cluster(request.virtual_cluster_id())
    return Reply(200, envelope("Virtual cluster fetched.", virtual_cluster_view(found)), etag(found.revision))
