"""GET /virtual_clusters: all virtual clusters with their nodes."""

from __future__ import annotations

from paddock import bootstrap
from paddock.http.endpoint import endpoint
from paddock.http.errors import VIRTUAL_CLUSTERS
from paddock.http.reply import Reply
from paddock.http.request import Request
from paddock.http.views.virtual_cluster import VIRTUAL_CLUSTERS_LISTED, envelope, virtual_clusters_view

MAX_RESULTS = 1_000


@endpoint(VIRTUAL_CLUSTERS)
def handler(request: Request) -> Reply:
    """Return the virtual clusters by id, in pages where ``maxResults`` asks for it."""
    limit, after = request.limit("maxResults", MAX_RESULTS), request.query("nextToken") or ""
    found, next_token = bootstrap.list_virtual_clusters(limit, after)
    view = envelope("All virtual clusters fetched.", virtual_clusters_view(found, next_token))
    return Reply(200, view, listing=VIRTUAL_CLUSTERS_LISTED)
