"""The authorizer: Basic credentials, the same for all routes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paddock import bootstrap
from paddock.observability import Metric, count, logger, observed

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@observed
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:  # noqa: ARG001
    """Return a policy, or raise what API Gateway turns into a 401.

    The policy is for the whole stage: API Gateway keeps it for the next requests, whatever their routes.
    """
    headers = {key.lower(): value for key, value in (event.get("headers") or {}).items()}
    try:
        user = bootstrap.authenticated_user(headers.get("authorization", ""))
    except Exception:
        count(Metric.AUTHORIZER_ERRORS)
        raise
    logger.info("authenticated" if user else "rejected")
    if user is None:
        count(Metric.CREDENTIALS_REJECTED)
        msg = "Unauthorized"
        raise Exception(msg)  # noqa: TRY002 - API Gateway knows this text, and no type
    api, stage = event["methodArn"].split("/")[:2]
    statement = {"Action": "execute-api:Invoke", "Effect": "Allow", "Resource": f"{api}/{stage}/*"}
    return {"principalId": user, "policyDocument": {"Version": "2012-10-17", "Statement": [statement]}}
