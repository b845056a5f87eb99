"""What drives operations to their end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from paddock.model.operation import Operation


class Workflows(Protocol):
    """Executions of the node operation workflow, named after the operation and its attempt."""

    def start(self, operation: Operation) -> None:
        """Start the execution; starting it twice is the same as once. Raises ``WorkflowsUnavailable``."""

    def is_live(self, operation: Operation) -> bool:
        """Whether the execution of this attempt exists and runs. Raises ``WorkflowsUnavailable``."""
