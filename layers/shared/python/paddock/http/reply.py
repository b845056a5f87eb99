"""Replies to clients, in the form that API Gateway takes; no list is longer than Lambda may return."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass, field
from typing import Any

# Lambda refuses an answer above 6 MB: the whole of it as JSON, with the body as a string in it.
MAX_ANSWER_BYTES = 5_500_000
# A list longer than this as JSON is cut before it is compressed, so that a function's memory holds it.
MAX_COMPRESSED_LIST_BYTES = 40_000_000
_MIN_COMPRESSED_BYTES = 1_024
# The fewer bytes of higher levels are not worth their time.
_GZIP_LEVEL = 5
# A cut aims a little below the limit, since entries are not all of the same size.
_AIM = 0.95


@dataclass(frozen=True, slots=True)
class Listing:
    """The list in a body that may be cut short; ``nextToken`` beside it then says so.

    ``within`` is the field of the body that holds the list's object, or nothing for the body itself. The next
    page goes on after the last entry returned, by its ``key``.
    """

    name: str
    key: str
    within: str = ""

    def entries(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """The list in this body."""
        found: list[dict[str, Any]] = (body[self.within] if self.within else body)[self.name]
        return found

    def cut(self, body: dict[str, Any], count: int) -> dict[str, Any]:
        """The body with the first ``count`` entries of its list, at least one, and where to go on."""
        entries = self.entries(body)[: max(1, count)]
        around = body[self.within] if self.within else body
        shorter = {**around, self.name: entries, "nextToken": entries[-1][self.key]}
        return {**body, self.within: shorter} if self.within else shorter

    def cut_to_bytes(self, body: dict[str, Any], most: int) -> dict[str, Any]:
        """The body with the entries that have at most so many bytes as JSON."""
        size = 0
        for count, entry in enumerate(self.entries(body)):
            size += len(_json(entry))
            if size > most:
                return self.cut(body, count)
        return body


@dataclass(frozen=True, slots=True)
class Reply:
    """A status code, a JSON body, headers beyond ``Content-Type``, and the list that may be cut to fit."""

    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)
    listing: Listing | None = None

    def to_gateway(self, *, compress: bool = False) -> dict[str, Any]:
        """The answer as API Gateway's Lambda proxy integration takes it; compressed where that is allowed.

        A list that would make it too large is cut to as much as fits.
        """
        if self.listing is None:
            return self._encoded(self.body, compress=compress)
        most = MAX_COMPRESSED_LIST_BYTES if compress else MAX_ANSWER_BYTES
        body = self.listing.cut_to_bytes(self.body, most)
        while True:
            answer = self._encoded(body, compress=compress)
            size, count = _size_of(answer), len(self.listing.entries(body))
            if size <= MAX_ANSWER_BYTES or count <= 1:
                return answer
            body = self.listing.cut(body, min(count - 1, int(count * _AIM * MAX_ANSWER_BYTES / size)))

    def _encoded(self, body: Any, *, compress: bool) -> dict[str, Any]:
        text = _json(body)
        is_compressed = compress and len(text) >= _MIN_COMPRESSED_BYTES
        if is_compressed:
            text = base64.b64encode(gzip.compress(text.encode(), _GZIP_LEVEL, mtime=0)).decode()
        return {
            "statusCode": self.status,
            "headers": {
                "Content-Type": "application/json",
                "Cache-Control": "no-store",
                "Vary": "Accept-Encoding",
                **({"Content-Encoding": "gzip"} if is_compressed else {}),
                **self.headers,
            },
            "body": text,
            "isBase64Encoded": is_compressed,
        }


def etag(revision: int) -> dict[str, str]:
    """The header that carries a revision to clients whose numbers are too small for it."""
    return {"ETag": f'"{revision}"'}


def _json(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"))


def _size_of(answer: dict[str, Any]) -> int:
    """The bytes that Lambda counts; quotation marks in the body count twice."""
    return len(json.dumps(answer))
