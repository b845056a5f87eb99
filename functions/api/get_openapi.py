"""GET /openapi.json: this API, as an OpenAPI 3.1 document."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

from paddock.http.endpoint import endpoint
from paddock.http.errors import CLUSTERS
from paddock.http.reply import Reply
from paddock.http.request import Request

_TEXT = Path(__file__).with_name("openapi.json").read_bytes()
_HEADERS = {
    "ETag": f'"{sha256(_TEXT).hexdigest()[:32]}"',
    # It changes with a deployment only.
    "Cache-Control": "private, max-age=300",
}


@endpoint(CLUSTERS)
def handler(request: Request) -> Reply:  # noqa: ARG001
    """Return the document that `make openapi` has written."""
    return Reply(200, json.loads(_TEXT), _HEADERS)
