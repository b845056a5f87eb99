"""What API Gateway does when an API is imported, and the emulator leaves out.

The emulator drops two extensions of OpenAPI: the methods that stand for any method, and the answers that the
gateway gives by itself. Both are read from the template and put in place by API calls.
"""

from __future__ import annotations

from typing import Any


def complete_api(
    gateway: Any, template: dict[str, Any], api_id: str, stage: str, function_arns: dict[str, str]
) -> None:
    """Add to the API what its import left out, and deploy it to ``stage``.

    ``gateway`` is a boto3 client, ``function_arns`` maps the template's logical ids to ARNs. May be repeated.
    """
    _put_any_methods(gateway, template, api_id, function_arns)
    _put_gateway_responses(gateway, template, api_id)
    gateway.create_deployment(restApiId=api_id, stageName=stage)


def _put_any_methods(
    gateway: Any, template: dict[str, Any], api_id: str, function_arns: dict[str, str]
) -> None:
    resource_ids = {r["path"]: r["id"] for r in gateway.get_resources(restApiId=api_id, limit=500)["items"]}
    authorizer_id = gateway.get_authorizers(restApiId=api_id)["items"][0]["id"]
    region = gateway.meta.region_name
    for logical_id, resource in template["Resources"].items():
        for event in resource.get("Properties", {}).get("Events", {}).values():
            if event["Type"] != "Api" or event["Properties"]["Method"] != "ANY":
                continue
            method = {
                "restApiId": api_id,
                "resourceId": resource_ids[event["Properties"]["Path"]],
                "httpMethod": "ANY",
            }
            invocations = f"functions/{function_arns[logical_id]}/invocations"
            gateway.put_method(**method, authorizationType="CUSTOM", authorizerId=authorizer_id)
            gateway.put_integration(
                **method,
                type="AWS_PROXY",
                integrationHttpMethod="POST",
                uri=f"arn:aws:apigateway:{region}:lambda:path/2015-03-31/{invocations}",
            )


def _put_gateway_responses(gateway: Any, template: dict[str, Any], api_id: str) -> None:
    responses = template["Resources"]["Api"]["Properties"]["GatewayResponses"]
    for kind, response in responses.items():
        status = {"statusCode": str(response["StatusCode"])} if "StatusCode" in response else {}
        headers = response.get("ResponseParameters", {}).get("Headers", {})
        gateway.put_gateway_response(
            restApiId=api_id,
            responseType=kind,
            responseParameters={f"gatewayresponse.header.{name}": text for name, text in headers.items()},
            responseTemplates=response["ResponseTemplates"],
            **status,
        )
