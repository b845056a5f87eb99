"""GET /clusters: all clusters with their definitions."""

from __future__ import annotations

from paddock import bootstrap
from paddock.http.endpoint import endpoint
from paddock.http.errors import CLUSTERS
from paddock.http.reply import Reply
from paddock.http.request import Request
from paddock.http.views.cluster import CLUSTERS_LISTED, cluster_view


@endpoint(CLUSTERS)
def handler(request: Request) -> Reply:
    """Return the clusters by name, in pages if one reply cannot hold them all."""
    found = bootstrap.list_clusters(request.query("nextToken") or "")
    return Reply(200, {"clusters": [cluster_view(cluster) for cluster in found]}, listing=CLUSTERS_LISTED)
