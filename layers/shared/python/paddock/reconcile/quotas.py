"""Quotas: what the account may run is asked for now and then, so that no request has to."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from paddock.model.identity import next_revision
from paddock.model.operation import SECOND_NS
from paddock.model.quotas import Quotas
from paddock.ports.quotas import QuotasUnavailableError
from paddock.ports.repository import Put

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paddock.ports.clock import Clock
    from paddock.ports.quotas import AccountQuotas
    from paddock.ports.repository import Repository

logger = logging.getLogger(__name__)

# Quotas change by support request, a few times a year.
QUOTAS_AGE_NS = 3600 * SECOND_NS


def needs_refresh(known: Quotas | None, now: int) -> bool:
    """Whether the account's quotas should be asked for again."""
    return known is None or now >= known.asked_at + QUOTAS_AGE_NS


def refresh_quotas(repository: Repository, account: AccountQuotas, clock: Clock) -> bool:
    """Ask for the quotas when those on record are old; where they are not told, what was known stays.

    Having asked is recorded in either case: who may not read them need not be told so each minute. Answers
    whether the quotas could be read, or need not be.
    """
    known, now = repository.quotas(), clock.now()
    if not needs_refresh(known, now):
        return True
    cores: Mapping[str, int] = known.cores if known else {}
    told = True
    try:
        cores = account.cores()
    except QuotasUnavailableError as error:
        told = False
        logger.warning("quotas not told, those known before stay", extra={"reason": str(error)})
    revision = next_revision(now, known.revision if known else 0)
    repository.commit(Put(Quotas(revision=revision, asked_at=now, cores=dict(cores)), was=known))
    return told
