"""Metrics of the service, counted from committed writes.

Every change of an operation or a node is a write, whichever function makes it; counted here, it counts once.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from paddock.model.node import Node, NodeStatus
from paddock.model.operation import Operation, OperationState
from paddock.model.time import SECOND_NS
from paddock.observability import Metric, count, logger
from paddock.ports.repository import Put

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from paddock.ports.repository import Write

_ENDS: Mapping[OperationState, Metric] = {
    OperationState.SUCCEEDED: Metric.OPERATIONS_SUCCEEDED,
    OperationState.PARTIALLY_SUCCEEDED: Metric.OPERATIONS_PARTIALLY_SUCCEEDED,
    OperationState.FAILED: Metric.OPERATIONS_FAILED,
}


def count_writes(writes: Sequence[Write]) -> None:
    """Count what these writes, which have been committed, have begun and ended."""
    nodes: Counter[tuple[Metric, str]] = Counter()
    for write in writes:
        if not isinstance(write, Put):
            continue
        if isinstance(write.record, Operation):
            _count_operation(write.record, write.was)
        elif isinstance(write.record, Node) and isinstance(write.was, Node):
            nodes.update((metric, write.record.cluster) for metric in _changes(write.record, write.was))
    for (metric, cluster), number in nodes.items():
        count(metric, number, cluster=cluster)


def _count_operation(after: Operation, was: object) -> None:
    if was is None:
        count(Metric.OPERATIONS_STARTED)
    elif isinstance(was, Operation) and was.is_running and not after.is_running:
        count(_ENDS[after.state], cluster=after.cluster)
        seconds = (after.finish_time - after.start_time) / SECOND_NS
        count(Metric.OPERATION_SECONDS, round(seconds, 3))


def _changes(after: Node, was: Node) -> Iterator[Metric]:
    """The metrics of what has become of a node."""
    if after.instance_id not in ("", was.instance_id):
        yield Metric.NODES_LAUNCHED
    if after.status is NodeStatus.FAILED and was.status is not NodeStatus.FAILED:
        metric = _failure(was)
        facts = {"node": after.id, "instance": after.instance_id, "reason": after.status_message}
        logger.warning("node failed", extra={"metric": metric, "cluster": after.cluster, **facts})
        yield metric


def _failure(was: Node) -> Metric:
    """A node that was Ready is lost, which is in spot's nature alone; any other has not come about."""
    if not was.is_ready:
        return Metric.NODES_FAILED
    return Metric.NODES_INTERRUPTED if was.spec.interruptible else Metric.NODES_LOST
