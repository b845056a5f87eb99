"""Quotas: what the account may run is asked for now and then, so that no request has to."""

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
    """Ask for the quotas when those on record are old; where they are not told, what was known stays.

    Having asked is recorded in either case: who may not read them need not be told so each minute. Answers
    whether the quotas could be read, or need not be.
    """
    known, now = store.read.quotas(), store.now()
    if not needs_refresh(known, now):
        return True
    cores: Mapping[str, int] = known.cores if known else {}
    told = True
    try:
        cores = account.cores()
    except QuotasUnavailableError as error:
        told = False
        logger.warning("quotas not told, those known before stay", extra={"reason": str(error)})
    store.commit(Put(Quotas(asked_at=now, cores=dict(cores)), was=known))
    return told
