"""Where a run of the reconciler puts its work items, each of which is done by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from paddock.model.identity import ClusterName, OperationId, VirtualClusterId

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkItem:
    """One operation or virtual cluster (its id), or cluster (its name) that has to be looked at."""

    operation_id: OperationId = OperationId("")
    virtual_cluster: VirtualClusterId = VirtualClusterId("")
    cluster: ClusterName = ClusterName("")


class WorkQueue(Protocol):
    """A queue. What is sent is done at least once, in any order, some at a time."""

    def send(self, items: Sequence[WorkItem]) -> None:
        """Put these into the queue; any number of them. Where it fails, some may have been sent."""
