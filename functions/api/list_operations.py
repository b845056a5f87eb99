"""GET /operations/?request_id=…: the operation that a request id started."""

from __future__ import annotations

from paddock import bootstrap
from paddock.errors import InvalidRequest
from paddock.http.endpoint import endpoint
from paddock.http.errors import CLUSTERS
from paddock.http.reply import Reply
from paddock.http.request import Request
from paddock.http.views.node import operation_view
from paddock.model.identity import RequestId


@endpoint(CLUSTERS)
def handler(request: Request) -> Reply:
    """Return an array of one element, or of none where the request id is not known."""
    request_id = request.query("request_id")
    if not request_id:
        msg = "the query must have a request_id"
        raise InvalidRequest(msg)
    found = bootstrap.find_operation(RequestId(request_id))
    return Reply(200, [operation_view(*found)] if found else [])
