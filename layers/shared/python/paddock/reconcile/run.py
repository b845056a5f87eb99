"""One run of the reconciler: each step looks at each running operation, and one failure stops no other.

Then each cluster is looked at for placement groups that nodes have left and no operation could delete; and
now and then the account's quotas are asked for.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddock.ports.repository import WriteConflictError
from paddock.reconcile.claims import release_stale_claims
from paddock.reconcile.expire import expire, is_stuck
from paddock.reconcile.idle import end_idle
from paddock.reconcile.quotas import refresh_quotas
from paddock.reconcile.resume import resume
from paddock.service.healing import heal
from paddock.service.placement_groups import delete_empty_groups

if TYPE_CHECKING:
    from paddock.ports.clock import Clock
    from paddock.ports.compute import Compute
    from paddock.ports.quotas import AccountQuotas
    from paddock.ports.repository import Repository
    from paddock.ports.workflows import Workflows

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Report:
    """What one run did, in numbers of operations; ``tidied`` in numbers of placement groups.

    ``stuck`` have run long past their deadline; this run may have ended them.
    """

    seen: int = 0
    resumed: int = 0
    expired: int = 0
    stuck: int = 0
    failed: int = 0
    tidied: int = 0
    healed: int = 0
    released: int = 0


def reconcile(
    repository: Repository, compute: Compute, workflows: Workflows, account: AccountQuotas, clock: Clock
) -> Report:
    """Bring every running operation back on its way. Two runs at once do no harm."""
    report = Report()
    for operation_id in repository.running_operations():
        report.seen += 1
        try:
            _reconcile_operation(repository, compute, workflows, clock, operation_id, report)
        except WriteConflictError:
            # Somebody else has moved it on; the next run sees where to.
            logger.info("operation changed meanwhile", extra={"operation_id": operation_id})
        except Exception:  # one broken record or unknown error code must not hold up all others, each minute
            report.failed += 1
            logger.exception("operation not reconciled", extra={"operation_id": operation_id})
    for name in repository.unmet_virtual_clusters():
        try:
            report.healed += heal(repository, workflows, clock, name) is not None
        except Exception:
            logger.exception("virtual cluster not healed", extra={"virtual_cluster": name})
    for cluster in repository.clusters():
        try:
            report.tidied += delete_empty_groups(repository, compute, clock, cluster.name)
            nodes = repository.nodes(cluster.name)
            report.released += release_stale_claims(repository, clock, nodes)
            end_idle(repository, workflows, clock, cluster, nodes)
        except Exception:
            logger.exception("cluster not tidied", extra={"cluster": cluster.name})
    try:
        refresh_quotas(repository, account, clock)
    except WriteConflictError:
        logger.info("quotas refreshed by another run meanwhile")
    except Exception:
        logger.exception("quotas not refreshed")
    return report


def _reconcile_operation(
    repository: Repository,
    compute: Compute,
    workflows: Workflows,
    clock: Clock,
    operation_id: str,
    report: Report,
) -> None:
    operation = repository.operation(operation_id)
    if operation is None:
        return
    if is_stuck(operation, clock.now()):
        report.stuck += 1
        logger.warning("operation stuck", extra={"operation_id": operation_id})
    if expire(repository, compute, workflows, clock, operation):
        report.expired += 1
    elif resume(repository, workflows, clock, operation):
        report.resumed += 1
