"""What no other function serves: an unknown path is a 404, and ``endpoint`` has refused each wrong method."""

from __future__ import annotations

from paddock.errors import NotFound
from paddock.http.endpoint import endpoint
from paddock.http.errors import ANYWHERE
from paddock.http.reply import Reply
from paddock.http.request import Request


@endpoint(ANYWHERE)
def handler(request: Request) -> Reply:
    """Refuse the request."""
    raise NotFound(f"there is no route {request.method} {request.url_path}")
