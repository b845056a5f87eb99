"""Quotas: the account's quotas are read now and then, so that no request has to read them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from paddock.model.quotas import Quotas
from paddock.model.time import SECOND_NS
from paddock.ports.quotas import QuotasUnavailableError
from paddock.ports.repository import Put

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paddock.ports.quotas import AccountQuotas
    from paddock.store.store import Store

logger = logging.getLogger(__name__)

# Quotas change by support request, a few times a year.
QUOTAS_AGE_NS = 3600 * SECOND_NS


def needs_refresh(known: Quotas | None, now: int) -> bool:
    """Whether the account's quotas should be asked for again."""
    return known is None or now >= known.asked_at + QUOTAS_AGE_NS


def refresh_quotas(store: Store, account: AccountQuotas) -> bool:
    """Read the quotas when those on record are old; if they cannot be read, those on record stay.

    The attempt is recorded in either case, so that a deployment without the permission does not report that
    each minute. Returns whether the quotas could be read, or need not be.
    """
    known, now = store.read.quotas(), store.now()
    if not needs_refresh(known, now):
        return True
    cores: Mapping[str, int] = known.cores if known else {}
    could_read = True
    try:
        cores = account.cores()
    except QuotasUnavailableError as error:
        could_read = False
        logger.warning("quotas not told, those known before stay", extra={"reason": str(error)})
    store.commit(Put(Quotas(asked_at=now, cores=dict(cores)), was=known))
    return could_read
