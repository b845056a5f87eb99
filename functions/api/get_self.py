"""GET /self: which node the asking instance is."""

from __future__ import annotations

from paddock import bootstrap
from paddock.http.endpoint import endpoint
from paddock.http.errors import CLUSTERS
from paddock.http.reply import Reply
from paddock.http.request import Request
from paddock.http.views.node import self_view


@endpoint(CLUSTERS)
def handler(request: Request) -> Reply:
    """Return the node of the instance whose role signed the request, and its peers."""
    return Reply(200, self_view(*bootstrap.get_self(request.instance_id())))
