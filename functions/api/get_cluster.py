"""GET /clusters/{cluster}: one cluster with its definition."""

from __future__ import annotations

from paddock import bootstrap
from paddock.http.endpoint import endpoint
from paddock.http.errors import CLUSTERS
from paddock.http.reply import Reply, etag
from paddock.http.request import Request
from paddock.http.views.cluster import cluster_view


@endpoint(CLUSTERS)
def handler(request: Request) -> Reply:
    """Return the cluster."""
    cluster = bootstrap.get_cluster(request.cluster_name())
    return Reply(200, cluster_view(cluster), etag(cluster.revision))
