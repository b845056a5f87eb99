"""POST /cloud/actions/retry/{cluster}: start every node again that failed and has no instance."""

from __future__ import annotations

from paddock import bootstrap
from paddock.http.endpoint import endpoint
from paddock.http.errors import NODES
from paddock.http.reply import Reply
from paddock.http.request import Request


@endpoint(NODES)
def handler(request: Request) -> Reply:
    """Start the operation that launches them; whatever the body is, it is ignored."""
    operation = bootstrap.retry_failed(request.cluster_name())
    return Reply(200, {"operationId": operation.id}, request.location_of(operation.id))
