"""POST /virtual_clusters: create or update a virtual cluster."""

from __future__ import annotations

from paddock import bootstrap
from paddock.http.endpoint import endpoint
from paddock.http.errors import VIRTUAL_CLUSTERS
from paddock.http.reply import Reply, etag
from paddock.http.request import Request
from paddock.http.views.virtual_cluster import envelope, written_view
from paddock.requests.bodies import VirtualClusterWrite


@endpoint(VIRTUAL_CLUSTERS)
def handler(request: Request) -> Reply:
    """Assign nodes on condition of the revision; 202 while some of them are still being launched."""
    body = request.body(VirtualClusterWrite)
    written = bootstrap.write_virtual_cluster(body, request.revision(body.revision), request.user)
    reply = envelope("Virtual cluster created or updated.", written_view(written))
    if not written.is_unsatisfied:
        return Reply(200, reply, etag(written.revision))
    location = request.location_of(written.operation_id) if written.operation_id else {}
    return Reply(202, reply, {**etag(written.revision), **location})
