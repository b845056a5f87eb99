"""The reconciler's parts in an SQS queue, each a JSON document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from paddock.model.wording import counted, listed
from paddock.ports.parts import Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef

MESSAGES_PER_CALL = 10

_PART = TypeAdapter(Part)


class SqsParts:
    """``Parts`` over one queue."""

    def __init__(self, client: SQSClient, queue_url: str) -> None:
        self._client = client
        self._queue_url = queue_url

    def send(self, parts: Sequence[Part]) -> None:
        """Send ten a call; see the port. Raises ``RuntimeError`` for what the queue did not take."""
        refused: list[str] = []
        for start in range(0, len(parts), MESSAGES_PER_CALL):
            entries: list[SendMessageBatchRequestEntryTypeDef] = [
                {"Id": str(place), "MessageBody": _PART.dump_json(part, exclude_defaults=True).decode()}
                for place, part in enumerate(parts[start : start + MESSAGES_PER_CALL])
            ]
            answer = self._client.send_message_batch(QueueUrl=self._queue_url, Entries=entries)
            refused += [failure["Code"] for failure in answer.get("Failed", ())]
        if refused:
            raise RuntimeError(
                f"{counted(len(refused), 'part was', 'parts were')} not taken: {listed(sorted(set(refused)))}"
            )


def parse_part(body: str) -> Part:
    """The part that a message holds."""
    return _PART.validate_json(body)
