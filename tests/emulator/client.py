"""A small HTTP client with Basic credentials. One connection for each request, so threads may share it."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class Reply:
    """What came back. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the body, which must be JSON."""
        return json.loads(self.body)


class Client:
    """Calls the API at ``base_url``."""

    def __init__(self, base_url: str, credentials: tuple[str, str] | None) -> None:
        parts = urlsplit(base_url)
        self._host = parts.netloc
        self._prefix = parts.path.rstrip("/")
        self._credentials = credentials

    def without_credentials(self) -> Client:
        """Return a client for the same address that sends no Authorization header."""
        return self.with_credentials(None)

    def with_credentials(self, credentials: tuple[str, str] | None) -> Client:
        """Return a client for the same address with other credentials."""
        return Client(f"http://{self._host}{self._prefix}", credentials)

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Send one request. Text and bytes go as they are and without a Content-Type, all else as JSON."""
        sent = {"Accept": "*/*"}
        if self._credentials is not None:
            token = base64.b64encode(":".join(self._credentials).encode()).decode()
            sent["Authorization"] = f"Basic {token}"
        content: bytes | None
        if body is None or isinstance(body, bytes):
            content = body
        elif isinstance(body, str):
            content = body.encode()
        else:
            content = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        connection = HTTPConnection(self._host, timeout=TIMEOUT_SECONDS)
        try:
            connection.request(method, self._prefix + path, content, {**sent, **(headers or {})})
            response = connection.getresponse()
            received = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, received, response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Reply:
        """GET ``path``; an underscore in a header's name stands for a hyphen."""
        return self.request("GET", path, headers=_named(headers))

    def post(self, path: str, body: Any = None, **headers: str) -> Reply:
        """POST ``body`` to ``path``."""
        return self.request("POST", path, body, _named(headers))

    def put(self, path: str, body: Any = None, **headers: str) -> Reply:
        """PUT ``body`` to ``path``."""
        return self.request("PUT", path, body, _named(headers))

    def delete(self, path: str, **headers: str) -> Reply:
        """DELETE ``path``."""
        return self.request("DELETE", path, headers=_named(headers))


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
