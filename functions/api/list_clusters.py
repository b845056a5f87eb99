"""GET /clusters: all clusters with their definitions."""

from __future__ import annotations

from paddock import bootstrap
from paddock.http.endpoint import endpoint
from paddock.http.errors import CLUSTERS
from paddock.http.reply import Reply
from paddock.http.request import Request
from paddock.http.views.cluster import cluster_view


@endpoint(CLUSTERS)
def handler(request: Request) -> Reply:  # noqa: ARG001
    """Answer every cluster, by name."""
    return Reply(200, {"clusters": [cluster_view(cluster) for cluster in bootstrap.list_clusters()]})
