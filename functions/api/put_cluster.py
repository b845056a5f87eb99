"""PUT /clusters/{cluster}: create a cluster, or replace its definition."""

from __future__ import annotations

from paddock import bootstrap
from paddock.http.endpoint import endpoint
from paddock.http.errors import CLUSTERS
from paddock.http.reply import Reply, etag
from paddock.http.request import Request
from paddock.http.views.cluster import cluster_view
from paddock.requests.bodies import ClusterWrite


@endpoint(CLUSTERS)
def handler(request: Request) -> Reply:
    """Write the definition on condition of its revision; 201 for a new cluster."""
    body = request.body(ClusterWrite)
    cluster, is_new = bootstrap.put_cluster(request.cluster_name(), body, request.revision(body.revision))
    return Reply(201 if is_new else 200, cluster_view(cluster), etag(cluster.revision))
