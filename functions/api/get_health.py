"""GET /healthz: whether the API answers, for those who watch it and have no credentials."""

from __future__ import annotations

from paddock.http.endpoint import endpoint
from paddock.http.errors import CLUSTERS
from paddock.http.reply import Reply
from paddock.http.request import Request


@endpoint(CLUSTERS)
def handler(request: Request) -> Reply:  # noqa: ARG001
    """Say so; it asks nobody else, since anybody may call it as often as they like."""
    return Reply(200, {"status": "ok"})
