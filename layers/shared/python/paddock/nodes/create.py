"""Creating nodes: one small transaction decides and records, the workflow does the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.model.identity import RequestId
from paddock.nodes.plan import NodePlan
from paddock.store.lookup import known_quotas, require_ledger
from paddock.store.operations import record_nodes, require_new_request
from paddock.store.starting import REQUEST_NS, left_to_the_workflow, start

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from paddock.model.cluster import Cluster
    from paddock.model.desired import DesiredNodes
    from paddock.model.identity import ClusterName
    from paddock.model.ledger import Ledger
    from paddock.model.operation import Operation
    from paddock.nodes.plan import Added
    from paddock.ports.workflows import Workflows
    from paddock.requests.bodies import NodeCreationRequest
    from paddock.store.store import Store


def create_nodes(
    store: Store,
    workflows: Workflows,
    cluster_name: ClusterName,
    request: NodeCreationRequest,
) -> tuple[Operation, list[Added]]:
    """Add nodes set by set, each as far as limits and names allow; returns what each set added, in order.

    A request id that was used before raises ``DuplicateRequest`` and changes nothing. Also raises
    ``NotFound`` for the cluster and ``InvalidRequest`` for a node array or bucket that it does not have.
    """
    sets = [line.desired() for line in request.sets]
    return create(store, workflows, cluster_name, request.request_id, lambda *_: sets)


def create(
    store: Store,
    workflows: Workflows,
    cluster_name: ClusterName,
    request_id: RequestId | None,
    decide: Callable[[Cluster, Ledger, Mapping[str, int], int], Sequence[DesiredNodes]],
) -> tuple[Operation, list[Added]]:
    """Like ``create_nodes``, for sets that ``decide`` derives from the cluster's current state.

    ``decide`` is called again whenever that state has changed before the decision was recorded.
    """

    def attempt() -> tuple[Operation, list[Added]]:
        cluster, earlier = require_new_request(store.read, cluster_name, request_id)
        ledger = require_ledger(store.read, cluster_name)
        now = store.now()
        quotas = known_quotas(store.read)
        plan = NodePlan(cluster, ledger, quotas, now)
        added = [plan.add(desired) for desired in decide(cluster, ledger, quotas, now)]
        operation = plan.operation(request_id or RequestId(""))
        written = store.commit(*plan.writes(operation, earlier))
        return written.stored(operation), added

    operation, added = store.retry_on_conflict(attempt)
    begin_create(store, workflows, operation)
    return operation, added


def begin_create(store: Store, workflows: Workflows, operation: Operation) -> None:
    """Write the nodes of a recorded create, as many as there is time for, and hand it to the workflow."""
    if operation.is_running:
        until = store.now() + REQUEST_NS
        with left_to_the_workflow(operation):
            record_nodes(store, operation, lambda: store.now() < until)
        start(workflows, operation)
