"""The ``AccountQuotas`` port over the EC2 in memory, without boto3 or a wire between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.model.quotas import QUOTA_CODES
from paddock.ports.quotas import QuotasUnavailableError
from tests.fakes.ec2 import Ec2Error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fakes.ec2 import FakeEc2, Params


class FakeQuotas:
    """Answers as Service Quotas would behind the real adapter; ``ec2`` is where tests make it fail."""

    def __init__(self, ec2: FakeEc2) -> None:
        self.ec2 = ec2

    def cores(self) -> Mapping[str, int]:
        """See the port."""
        asked: Params = {"ServiceCode": "ec2"}
        found: dict[str, int] = {}
        while True:
            try:
                answer = self.ec2.call("ListServiceQuotas", asked)
            except Ec2Error as error:
                raise QuotasUnavailableError(str(error)) from error
            for one in answer["Quotas"]:
                if one["QuotaCode"] in QUOTA_CODES and "Value" in one:
                    found[one["QuotaCode"]] = int(one["Value"])
            if "NextToken" not in answer:
                return found
            asked["NextToken"] = answer["NextToken"]
