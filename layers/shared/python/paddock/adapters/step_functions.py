"""The workflow in Step Functions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from paddock.errors import WorkflowsUnavailable
from paddock.model.operation import ENDING, Action

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions import SFNClient

    from paddock.model.operation import Operation

# A reimage first ends what it replaces.
_BEGIN_WITH_TERMINATE = ENDING | {Action.REIMAGE}


class StepFunctionsWorkflows:
    """``Workflows`` over one state machine."""

    def __init__(self, client: SFNClient, state_machine_arn: str) -> None:
        self._client = client
        self._arn = state_machine_arn

    def start(self, operation: Operation) -> None:
        """See ``Workflows.start``."""
        state = {
            "operationId": operation.id,
            "next": "terminate" if operation.action in _BEGIN_WITH_TERMINATE else "launch",
            "polls": 0,
            "waitSeconds": 0,
        }
        try:
            self._client.start_execution(
                stateMachineArn=self._arn, name=_execution_name(operation), input=json.dumps(state)
            )
        except self._client.exceptions.ExecutionAlreadyExists:
            return
        except (ClientError, BotoCoreError) as error:
            raise WorkflowsUnavailable(str(error)) from error

    def is_live(self, operation: Operation) -> bool:
        """See ``Workflows.is_live``."""
        arn = f"{self._arn.replace(':stateMachine:', ':execution:')}:{_execution_name(operation)}"
        try:
            return self._client.describe_execution(executionArn=arn)["status"] == "RUNNING"
        except self._client.exceptions.ExecutionDoesNotExist:
            return False
        except (ClientError, BotoCoreError) as error:
            raise WorkflowsUnavailable(str(error)) from error


def _execution_name(operation: Operation) -> str:
    """A name is never used again within 90 days, so each attempt has its own."""
    return f"{operation.id}-{operation.attempt}"
