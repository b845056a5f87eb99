"""What a client is answered."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Reply:
    """A status code, a JSON body, and headers beyond ``Content-Type``."""

    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)

    def to_gateway(self) -> dict[str, Any]:
        """The answer as API Gateway's Lambda proxy integration takes it."""
        return {
            "statusCode": self.status,
            "headers": {"Content-Type": "application/json", "Cache-Control": "no-store", **self.headers},
            "body": json.dumps(self.body, separators=(",", ":")),
            "isBase64Encoded": False,
        }


def etag(revision: int) -> dict[str, str]:
    """The header that carries a revision to clients whose numbers are too small for it."""
    return {"ETag": f'"{revision}"'}
