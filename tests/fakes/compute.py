"""The real ``Compute`` adapter over the EC2 in memory, without a wire between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, ConnectionClosedError

from paddock.adapters.ec2 import Ec2Compute
from tests.fakes.ec2 import ANSWER_LOST, Ec2Error, status_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fakes.ec2 import FakeEc2, Params

DEPLOYMENT = "paddock-here"


class InProcessEc2:
    """Calls the EC2 in memory as boto3's client would call the real one."""

    def __init__(self, ec2: FakeEc2) -> None:
        self._ec2 = ec2

    def __getattr__(self, name: str) -> Callable[..., Params]:
        operation = "".join(part.title() for part in name.split("_"))

        def call(**asked: Any) -> Params:
            try:
                return self._ec2.call(operation, asked)
            except Ec2Error as error:
                if error.code == ANSWER_LOST:
                    raise ConnectionClosedError(endpoint_url="in-process") from error
                answer: Any = {
                    "Error": {"Code": error.code, "Message": error.message},
                    "ResponseMetadata": {"HTTPStatusCode": status_of(error.code)},
                }
                raise ClientError(answer, operation) from error

        return call

    def get_paginator(self, name: str) -> _Pages:
        return _Pages(getattr(self, name))


@dataclass(frozen=True)
class _Pages:
    call: Callable[..., Params]

    def paginate(self, PaginationConfig: dict[str, int] | None = None, **asked: Any) -> Iterator[Params]:  # noqa: N803 - boto3's name
        if PaginationConfig:
            asked["MaxResults"] = PaginationConfig["PageSize"]
        while True:
            answer = self.call(**asked)
            yield answer
            if "NextToken" not in answer:
                return
            asked["NextToken"] = answer["NextToken"]


class FakeCompute(Ec2Compute):
    """Answers as EC2 would; ``ec2`` is where tests make it fail."""

    def __init__(self, ec2: FakeEc2, deployment: str = DEPLOYMENT) -> None:
        client: Any = InProcessEc2(ec2)
        super().__init__(client, deployment)
        self.ec2 = ec2
