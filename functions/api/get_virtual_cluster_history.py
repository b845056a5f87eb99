"""GET /virtual_clusters/{virtualCluster}/history: what was changed, when, and by whom."""

from __future__ import annotations

from paddock import bootstrap
from paddock.http.endpoint import endpoint
from paddock.http.errors import VIRTUAL_CLUSTERS
from paddock.http.reply import Reply
from paddock.http.request import Request
from paddock.http.views.virtual_cluster import envelope, history_view

MAX_RESULTS = 1_000
RESULTS = 100


@endpoint(VIRTUAL_CLUSTERS)
def handler(request: Request) -> Reply:
    """Return the changes, latest first, in pages."""
    identity, limit = request.virtual_cluster_id(), request.limit("maxResults", MAX_RESULTS) or RESULTS
    changes, next_token = bootstrap.virtual_cluster_history(
        identity, limit, request.revision_token("nextToken")
    )
    return Reply(
        200, envelope("Virtual cluster history fetched.", history_view(identity, changes, next_token))
    )
