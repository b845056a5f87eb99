"""DELETE /clusters/{cluster}: remove a cluster that has no nodes."""

from __future__ import annotations

from paddock import bootstrap
from paddock.http.endpoint import endpoint
from paddock.http.errors import CLUSTERS
from paddock.http.reply import Reply
from paddock.http.request import Request


@endpoint(CLUSTERS)
def handler(request: Request) -> Reply:
    """Remove the cluster, on condition of its revision where one is given."""
    name = request.cluster_name()
    bootstrap.delete_cluster(name, request.deleted_revision())
    return Reply(200, {"name": name, "deleted": True})
