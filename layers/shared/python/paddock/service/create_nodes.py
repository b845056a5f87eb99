"""Creating nodes: one small transaction decides and records, the workflow does the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.service.contention import until_won
from paddock.service.lookup import known_quotas, require_ledger
from paddock.service.node_plan import NodePlan
from paddock.service.recording import record_nodes, require_new_request
from paddock.service.starting import REQUEST_NS, left_to_the_workflow, start

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from paddock.model.cluster import Cluster
    from paddock.model.ledger import Ledger
    from paddock.model.operation import Operation
    from paddock.model.requests import NodeCreationRequest, NodeSet
    from paddock.ports.clock import Clock
    from paddock.ports.repository import Repository
    from paddock.ports.workflows import Workflows
    from paddock.service.node_plan import Added


def create_nodes(
    repository: Repository,
    workflows: Workflows,
    clock: Clock,
    cluster_name: str,
    request: NodeCreationRequest,
) -> tuple[Operation, list[Added]]:
    """Add nodes set by set, each as far as limits and names allow; answers what was added, in order.

    A request id that was used before raises ``DuplicateRequest`` and changes nothing. Also raises
    ``NotFound`` for the cluster and ``InvalidRequest`` for a node array or bucket that it does not have.
    """
    return create(repository, workflows, clock, cluster_name, request.request_id, lambda *_: request.sets)


def create(
    repository: Repository,
    workflows: Workflows,
    clock: Clock,
    cluster_name: str,
    request_id: str | None,
    decide: Callable[[Cluster, Ledger, Mapping[str, int], int], Sequence[NodeSet]],
) -> tuple[Operation, list[Added]]:
    """Like ``create_nodes``, for sets that ``decide`` derives from the cluster as it is.

    It is asked again whenever that has changed before the decision was recorded.
    """

    def attempt() -> tuple[Operation, list[Added]]:
        cluster, earlier = require_new_request(repository, cluster_name, request_id)
        ledger = require_ledger(repository, cluster_name)
        now = clock.now()
        quotas = known_quotas(repository)
        plan = NodePlan(cluster, ledger, quotas, now)
        added = [plan.add(line) for line in decide(cluster, ledger, quotas, now)]
        operation = plan.operation(request_id or "")
        repository.commit(*plan.writes(operation, earlier))
        return operation, added

    operation, added = until_won(clock, attempt)
    begin_create(repository, workflows, clock, operation)
    return operation, added


def begin_create(repository: Repository, workflows: Workflows, clock: Clock, operation: Operation) -> None:
    """Write the nodes of a recorded create, as many as there is time for, and hand it to the workflow."""
    if operation.is_running:
        until = clock.now() + REQUEST_NS
        with left_to_the_workflow(operation):
            record_nodes(repository, operation, lambda: clock.now() < until)
        start(workflows, operation)
