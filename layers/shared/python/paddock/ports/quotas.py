"""The account's quotas: how much it may run at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class QuotasUnavailableError(Exception):
    """The quotas may not be read, or not now."""


class AccountQuotas(Protocol):
    """The quotas of the account in the deployment's Region."""

    def cores(self) -> Mapping[str, int]:
        """VCPU by quota code, of ``QUOTA_CODES`` alone; an absent code is not known, and 0 is a quota.

        Returns all of them, or raises ``QuotasUnavailableError``.
        """
