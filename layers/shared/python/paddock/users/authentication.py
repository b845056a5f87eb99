"""Checking Basic credentials."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from typing import TYPE_CHECKING

from paddock.model.time import SECOND_NS

if TYPE_CHECKING:
    from paddock.ports.clock import Clock
    from paddock.ports.credentials import Credentials

# After a rotation the old password is accepted, and the new one refused, for no longer than these. API
# Gateway keeps its answers for as long again: an old password is good for a minute at most.
MAX_AGE_NS = 30 * SECOND_NS
_MIN_AGE_NS = 5 * SECOND_NS


class Authenticator:
    """Compares what a client presents with what is kept, in a time that tells nothing about either.

    Both sides go through a hash with a key of this process, so the password itself does not stay in memory.
    It is quick: nobody guesses a generated password, and a slow hash would be a way to use up all functions.
    """

    def __init__(self, credentials: Credentials, clock: Clock) -> None:
        self._credentials = credentials
        self._clock = clock
        self._key = os.urandom(32)
        self._digest = b""
        self._read_at = 0

    def user(self, authorization: str) -> str | None:
        """The user's name if the ``Authorization`` header is right, else ``None``."""
        presented = _decode(authorization)
        if presented is None:
            return None
        digest = self._hash(presented)
        for max_age in (MAX_AGE_NS, _MIN_AGE_NS):
            self._refresh(max_age)
            if hmac.compare_digest(digest, self._digest):
                return presented.partition(":")[0]
        return None

    def _refresh(self, max_age: int) -> None:
        if not self._digest or self._clock.now() - self._read_at > max_age:
            username, password = self._credentials.read()
            self._digest = self._hash(f"{username}:{password}")
            self._read_at = self._clock.now()

    def _hash(self, text: str) -> bytes:
        return hashlib.blake2b(text.encode(), key=self._key).digest()


def _decode(authorization: str) -> str | None:
    """``user:password`` from a Basic header, or nothing if it is not one."""
    scheme, _, encoded = authorization.strip().partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        decoded = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
    return decoded if ":" in decoded else None
