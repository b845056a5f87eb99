"""GET /operations/{operation}: how far an operation is, or how it ended."""

from __future__ import annotations

from paddock import bootstrap
from paddock.http.endpoint import endpoint
from paddock.http.errors import CLUSTERS
from paddock.http.reply import Reply
from paddock.http.request import Request
from paddock.http.views.node import operation_view
from paddock.model.identity import OperationId


@endpoint(CLUSTERS)
def handler(request: Request) -> Reply:
    """Return the operation."""
    return Reply(200, operation_view(*bootstrap.get_operation(OperationId(request.path("operation")))))
