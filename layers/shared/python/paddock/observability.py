"""The logger, the metrics and the traces of all functions. Loggers of the package's modules are its children.

Metrics are lines of the log that CloudWatch reads (its embedded metric format), so they cost no call. What an
invocation counts is written once, at its end. A trace has a segment for each call to AWS, which tells how
long it took and how it failed.
"""

from __future__ import annotations

import os
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from aws_lambda_powertools import Logger, Tracer
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from paddock import invocation

if TYPE_CHECKING:
    from collections.abc import Callable

    from aws_lambda_powertools.utilities.typing import LambdaContext

Answer = TypeVar("Answer")


class Metric(StrEnum):
    """All metrics there are; a table in docs/operations.md says what they mean."""

    OPERATIONS_STARTED = "OperationsStarted"
    OPERATIONS_SUCCEEDED = "OperationsSucceeded"
    OPERATIONS_PARTIALLY_SUCCEEDED = "OperationsPartiallySucceeded"
    OPERATIONS_FAILED = "OperationsFailed"
    OPERATION_SECONDS = "OperationSeconds"
    OPERATIONS_RUNNING = "OperationsRunning"
    OPERATIONS_RESUMED = "OperationsResumed"
    OPERATIONS_EXPIRED = "OperationsExpired"
    OPERATIONS_STUCK = "OperationsStuck"
    RECONCILE_FAILURES = "ReconcileFailures"
    QUOTAS_UNREAD = "QuotasUnread"
    PLACEMENT_GROUPS_TIDIED = "PlacementGroupsTidied"
    VIRTUAL_CLUSTERS_RELAUNCHED = "VirtualClustersRelaunched"
    CLAIMS_RELEASED = "ClaimsReleased"
    NODES_LAUNCHED = "NodesLaunched"
    NODES_FAILED = "NodesFailed"
    NODES_LOST = "NodesLost"
    NODES_INTERRUPTED = "NodesInterrupted"
    NODES_IDLE = "NodesIdle"
    INSTANCES_NOTICED = "InstancesNoticed"
    LEDGERS_MENDED = "LedgersMended"
    INSTANCES_LEAKED = "InstancesLeaked"
    REVISION_CONFLICTS = "RevisionConflicts"
    RACES_LOST = "RacesLost"
    CREDENTIALS_REJECTED = "CredentialsRejected"
    AUTHORIZER_ERRORS = "AuthorizerErrors"


logger = Logger(service="paddock")
tracer = Tracer(service="paddock", patch_modules=["botocore"])
# By cluster; that of all of them together has no name.
_pending: dict[str, EphemeralMetrics] = {}


def about(**ids: str) -> None:
    """Say what an invocation is about, in all further lines of its log, and in its trace to find it by."""
    logger.append_keys(**ids)
    for key, value in ids.items():
        tracer.put_annotation(key, value)


def count(metric: Metric, number: float = 1, *, cluster: str = "") -> None:
    """Add to a metric of the whole deployment, and to the same by ``cluster`` where one is named."""
    unit = MetricUnit.Seconds if metric.endswith("Seconds") else MetricUnit.Count
    for scope in {"", cluster}:
        if scope not in _pending:
            namespace = os.environ.get("POWERTOOLS_METRICS_NAMESPACE", "Paddock")
            _pending[scope] = EphemeralMetrics(namespace=namespace, service="paddock")
            if scope:
                _pending[scope].add_dimension("cluster", scope)
        _pending[scope].add_metric(metric, unit, number)


def observed(
    handler: Callable[[dict[str, Any], LambdaContext], Answer],
) -> Callable[[dict[str, Any], LambdaContext], Answer]:
    """Make a Lambda handler that names the request in its log, and writes its metrics even if it fails."""

    @tracer.capture_lambda_handler(capture_response=False)
    @wraps(handler)
    def measured(event: dict[str, Any], context: LambdaContext) -> Answer:
        invocation.begin(context)
        try:
            return handler(event, context)
        finally:
            _flush()

    with_logs: Callable[[dict[str, Any], LambdaContext], Answer] = logger.inject_lambda_context(
        measured, clear_state=True
    )
    return with_logs


def _flush() -> None:
    while _pending:
        _, metrics = _pending.popitem()
        # It writes by itself whenever it has a hundred values.
        if metrics.metric_set:
            metrics.flush_metrics()
