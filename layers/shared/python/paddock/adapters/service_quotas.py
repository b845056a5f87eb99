"""The account's quotas, from Service Quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from paddock.model.quotas import QUOTA_CODES
from paddock.ports.quotas import QuotasUnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mypy_boto3_service_quotas import ServiceQuotasClient

QUOTAS_PER_PAGE = 100


class ServiceQuotas:
    """``AccountQuotas`` from the values that Service Quotas says are applied to EC2."""

    def __init__(self, client: ServiceQuotasClient) -> None:
        self._client = client

    def cores(self) -> Mapping[str, int]:
        """See ``AccountQuotas.cores``."""
        pages = self._client.get_paginator("list_service_quotas").paginate(
            ServiceCode="ec2", PaginationConfig={"PageSize": QUOTAS_PER_PAGE}
        )
        try:
            # A quota that Service Quotas could not find out has a reason instead of a value.
            return {
                quota["QuotaCode"]: int(quota["Value"])
                for page in pages
                for quota in page["Quotas"]
                if quota["QuotaCode"] in QUOTA_CODES and "Value" in quota
            }
        except (ClientError, BotoCoreError) as error:
            raise QuotasUnavailableError(str(error)) from error
