"""The workflow in memory: executions that tests drive, crash and lose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.errors import WorkflowsUnavailable

if TYPE_CHECKING:
    from paddock.model.identity import OperationId
    from paddock.model.operation import Operation


class FakeWorkflows:
    """Remembers which executions were started and which of them are live."""

    def __init__(self) -> None:
        self.live: dict[OperationId, Operation] = {}
        self.started: set[str] = set()
        self.unavailable = False

    def copy(self) -> FakeWorkflows:
        """Other workflows with the same executions."""
        other = FakeWorkflows()
        other.live, other.started, other.unavailable = {**self.live}, {*self.started}, self.unavailable
        return other

    def start(self, operation: Operation) -> None:
        if self.unavailable:
            msg = "not now"
            raise WorkflowsUnavailable(msg)
        name = f"{operation.id}-{operation.attempt}"
        if name not in self.started:
            self.started.add(name)
            self.live[operation.id] = operation

    def is_live(self, operation: Operation) -> bool:
        if self.unavailable:
            msg = "not now"
            raise WorkflowsUnavailable(msg)
        live = self.live.get(operation.id)
        return live is not None and live.attempt == operation.attempt
