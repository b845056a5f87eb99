"""The methods of each path. What a path does not take is refused before any handler hears of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.errors import MethodNotAllowed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from paddock.http.request import Request

# As in template.yaml; a test holds the two together.
METHODS: Mapping[str, Sequence[str]] = {
    "/healthz": ["GET"],
    "/openapi.json": ["GET"],
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


def check_method(request: Request) -> None:
    """Raise ``MethodNotAllowed`` where the request's path is one of ours and does not take its method."""
    allowed = METHODS.get(request.resource)
    if allowed is not None and request.method not in allowed:
        message = f"the method must be {' or '.join(allowed)} for {request.resource}, not {request.method}"
        raise MethodNotAllowed(message, allow=allowed)
