"""Where the one pair of credentials is kept."""

from __future__ import annotations

from typing import Protocol


class Credentials(Protocol):
    """The credentials that clients must present."""

    def read(self) -> tuple[str, str]:
        """User name and password, as they are now."""
