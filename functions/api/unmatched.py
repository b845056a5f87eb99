"""Whatever no other function serves: a wrong method is told the right ones, an unknown path is a 404."""

from __future__ import annotations

from paddock.errors import MethodNotAllowed, NotFound
from paddock.http.endpoint import endpoint
from paddock.http.errors import ANYWHERE
from paddock.http.reply import Reply
from paddock.http.request import Request

# As in template.yaml; a test holds the two together.
METHODS = {
    "/healthz": ["GET"],
    "/self": ["GET"],
    "/clusters": ["GET"],
    "/clusters/{cluster}": ["DELETE", "GET", "PUT"],
    "/clusters/{cluster}/status": ["GET"],
    "/clusters/{cluster}/usage": ["GET"],
    "/clusters/{cluster}/nodes": ["GET"],
    "/clusters/{cluster}/nodes/create": ["POST"],
    "/clusters/{cluster}/nodes/deallocate": ["POST"],
    "/clusters/{cluster}/nodes/reimage": ["POST"],
    "/clusters/{cluster}/nodes/remove": ["POST"],
    "/clusters/{cluster}/nodes/restart": ["POST"],
    "/clusters/{cluster}/nodes/shutdown": ["POST"],
    "/clusters/{cluster}/nodes/start": ["POST"],
    "/clusters/{cluster}/nodes/terminate": ["POST"],
    "/cloud/actions/retry/{cluster}": ["POST"],
    "/clusters/{cluster}/scale/{nodearray}": ["POST"],
    "/operations": ["GET"],
    "/operations/{operation}": ["GET"],
    "/virtual_clusters": ["GET", "POST"],
    "/virtual_clusters/{virtualCluster}": ["DELETE", "GET"],
    "/virtual_clusters/{virtualCluster}/history": ["GET"],
}


@endpoint(ANYWHERE)
def handler(request: Request) -> Reply:
    """Refuse the request."""
    allowed = METHODS.get(request.resource)
    if allowed is None:
        raise NotFound(f"there is no route {request.method} {request.url_path}")
    message = f"the method must be {' or '.join(allowed)} for {request.resource}, not {request.method}"
    raise MethodNotAllowed(message, allow=allowed)
