"""The reconciler's work items in an SQS queue, each a JSON document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from paddock.model.wording import counted, listed
from paddock.ports.work_queue import WorkItem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef

MESSAGES_PER_CALL = 10

_WORK_ITEM = TypeAdapter(WorkItem)


class SqsWorkQueue:
    """``WorkQueue`` over one queue."""

    def __init__(self, client: SQSClient, queue_url: str) -> None:
        self._client = client
        self._queue_url = queue_url

    def send(self, items: Sequence[WorkItem]) -> None:
        """Send ten a call; see the port. Raises ``RuntimeError`` for what the queue did not take."""
        refused: list[str] = []
        for start in range(0, len(items), MESSAGES_PER_CALL):
            entries: list[SendMessageBatchRequestEntryTypeDef] = [
                {"Id": str(place), "MessageBody": _WORK_ITEM.dump_json(item, exclude_defaults=True).decode()}
                for place, item in enumerate(items[start : start + MESSAGES_PER_CALL])
            ]
            answer = self._client.send_message_batch(QueueUrl=self._queue_url, Entries=entries)
            refused += [failure["Code"] for failure in answer.get("Failed", ())]
        if refused:
            lost = counted(len(refused), "work item was", "work items were")
            raise RuntimeError(f"{lost} not taken: {listed(sorted(set(refused)))}")


def parse_work_item(body: str) -> WorkItem:
    """The work item that a message holds."""
    return _WORK_ITEM.validate_json(body)
