"""Each function may do what its handler does, and nothing else."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import pytest

from paddock.adapters.ec2 import NAME_TAG, NODE_TAG
from tests.emulator.template import load_template
from tests.template.iam import listed, resource_types, written

DOCUMENT = load_template()
PARAMETERS = DOCUMENT["Parameters"]
RESOURCES = DOCUMENT["Resources"]
TABLE = {"Fn::GetAtt": ["Table", "Arn"]}

# AWS knows no narrower resource for these: they concern the whole account's instances or log deliveries.
UNLIMITABLE = {
    "ec2:DescribeInstances",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeSubnets",
    "logs:CreateLogDelivery",
    "logs:DeleteLogDelivery",
    "logs:DescribeLogGroups",
    "logs:DescribeResourcePolicies",
    "logs:GetLogDelivery",
    "logs:ListLogDeliveries",
    "logs:PutResourcePolicy",
    "logs:UpdateLogDelivery",
    "servicequotas:ListServiceQuotas",
}
# All that act on nodes do the same with them, each for another action, so they have the same policy.
NODE_ACTIONS = {
    name
    for name, resource in RESOURCES.items()
    for event in resource.get("Properties", {}).get("Events", {}).values()
    if event["Properties"].get("Path", "").startswith("/clusters/{cluster}/nodes/")
} - {"CreateNodes"}
# What each function does with the table: a wider policy is then a decision, and not a slip. That these are
# enough is shown by the integration tests, since the emulator holds functions to their policies.
TABLE_ACTIONS = {
    "BasicAuthorizer": "",
    "GetSelf": "GetItem BatchGetItem Query",
    "ListClusters": "Query",
    "PutCluster": "GetItem PutItem ConditionCheckItem",
    "GetCluster": "GetItem",
    "DeleteCluster": "GetItem DeleteItem",
    "GetClusterStatus": "GetItem Query",
    "ListNodes": "GetItem BatchGetItem Query",
    "CreateNodes": "GetItem PutItem ConditionCheckItem",
    "GetClusterUsage": "GetItem Query",
    "ScaleNodes": "GetItem PutItem ConditionCheckItem",
    **dict.fromkeys(NODE_ACTIONS, "GetItem BatchGetItem Query PutItem ConditionCheckItem"),
    "RetryFailedNodes": "GetItem BatchGetItem Query PutItem ConditionCheckItem",
    "ListOperations": "GetItem BatchGetItem Query",
    "GetOperation": "GetItem BatchGetItem Query",
    "WriteVirtualCluster": "GetItem BatchGetItem Query PutItem ConditionCheckItem",
    "ListVirtualClusters": "Query",
    "GetVirtualCluster": "GetItem",
    "GetVirtualClusterHistory": "GetItem Query",
    "DeleteVirtualCluster": "GetItem BatchGetItem Query PutItem ConditionCheckItem",
    "Unmatched": "",
    "GetHealth": "",
    "GetOpenApi": "",
    "Launch": "GetItem BatchGetItem Query PutItem ConditionCheckItem",
    "Terminate": "GetItem BatchGetItem PutItem ConditionCheckItem",
    "Poll": "GetItem BatchGetItem Query PutItem DeleteItem ConditionCheckItem",
    "Finish": "GetItem BatchGetItem Query PutItem DeleteItem ConditionCheckItem",
    "Reconcile": "GetItem Query PutItem",
    "ReconcileWorkItem": "GetItem BatchGetItem Query PutItem DeleteItem ConditionCheckItem",
    "InstanceEvents": "GetItem BatchGetItem Query PutItem DeleteItem ConditionCheckItem",
}
# They reach nothing: one refuses, one is open to everybody, and one answers a file.
WITHOUT_A_POLICY = {"GetHealth", "GetOpenApi", "Unmatched"}
READS = {"dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query"}
# Who may do what concerns more than the table.
EFFECTS = {
    "ec2:CreateFleet": {"Launch"},
    "ec2:CreatePlacementGroup": {"Launch"},
    "ec2:CreateTags": {"Launch", "Poll", "ReconcileWorkItem"},
    "ec2:DeletePlacementGroup": {"Finish", "ReconcileWorkItem"},
    "ec2:RunInstances": {"Launch"},
    "ec2:TerminateInstances": {"Finish", "ReconcileWorkItem", "Terminate"},
    "ec2:DescribeInstances": {
        "Finish",
        "GetSelf",
        "InstanceEvents",
        "Launch",
        "Poll",
        "Reconcile",
        "ReconcileWorkItem",
        "Terminate",
    },
    "ec2:DescribeInstanceTypes": {"PutCluster"},
    "ec2:DescribeSubnets": {"PutCluster"},
    "ec2:RebootInstances": {"Launch"},
    "ec2:StartInstances": {"Launch"},
    "ec2:StopInstances": {"ReconcileWorkItem", "Terminate"},
    "iam:PassRole": {"Launch"},
    "kms:CreateGrant": {"Launch"},
    "kms:Decrypt": {"Launch"},
    "kms:DescribeKey": {"Launch"},
    "kms:GenerateDataKeyWithoutPlaintext": {"Launch"},
    "kms:ReEncryptFrom": {"Launch"},
    "kms:ReEncryptTo": {"Launch"},
    "lambda:InvokeFunction": {"NodeOperation"},
    "secretsmanager:GetSecretValue": {"BasicAuthorizer"},
    "servicequotas:ListServiceQuotas": {"Reconcile"},
    "sqs:SendMessage": {"Reconcile"},
    "ssm:GetParameters": {"Launch"},
    "states:DescribeExecution": {"ReconcileWorkItem"},
    "states:StartExecution": {
        *NODE_ACTIONS,
        "CreateNodes",
        "DeleteVirtualCluster",
        "Finish",
        "InstanceEvents",
        "ReconcileWorkItem",
        "RetryFailedNodes",
        "ScaleNodes",
        "WriteVirtualCluster",
    },
}


def statements(name: str) -> list[dict[str, Any]]:
    """Return the statements of a function or state machine, the conditional ones included."""
    policies = RESOURCES[name]["Properties"].get("Policies", [])
    for policy in policies:
        assert policy.keys() == {"Statement"}, f"{name} must have statements of its own, not {policy}"
    every = (statement for policy in policies for statement in policy["Statement"])
    return [statement["Fn::If"][1] if "Fn::If" in statement else statement for statement in every]


def actions(name: str) -> set[str]:
    """Return all actions that the resource may take."""
    return {action for statement in statements(name) for action in listed(statement["Action"])}


FUNCTIONS = sorted(n for n, r in RESOURCES.items() if r["Type"] == "AWS::Serverless::Function")
SUBJECTS = [*FUNCTIONS, "NodeOperation"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_a_policy_of_its_own(name: str) -> None:
    properties = RESOURCES[name]["Properties"]
    assert "Role" not in properties
    assert bool(properties.get("Policies")) == (name not in WITHOUT_A_POLICY)


@pytest.mark.parametrize("name", SUBJECTS)
def test_actions_and_resources_are_named(name: str) -> None:
    for statement in statements(name):
        named = listed(statement["Action"])
        assert statement["Effect"] == "Allow"
        assert not [action for action in named if "*" in action]
        assert len(named) == len(set(named))
        if "*" in listed(statement["Resource"]):
            assert set(named) <= UNLIMITABLE


@pytest.mark.parametrize("name", SUBJECTS)
def test_data_access_is_to_this_table_alone(name: str) -> None:
    for statement in statements(name):
        if any(action.startswith("dynamodb:") for action in listed(statement["Action"])):
            for resource in listed(statement["Resource"]):
                assert resource in (TABLE, {"Fn::Sub": "${Table.Arn}/index/running"})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_reading_routes_cannot_write(name: str) -> None:
    events = RESOURCES[name]["Properties"].get("Events", {}).values()
    if any(event["Properties"].get("Method") == "GET" for event in events):
        # It asks EC2 who launched the instance that asks.
        more = {"ec2:DescribeInstances"} if name == "GetSelf" else set()
        assert actions(name) <= READS | more


@pytest.mark.proves("a slow EC2: no request about nodes waits for it")
@pytest.mark.parametrize("action", EFFECTS)
def test_effects_are_for_those_that_need_them(action: str) -> None:
    assert {name for name in SUBJECTS if action in actions(name)} == EFFECTS[action]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_table_actions_are_those_that_the_function_uses(name: str) -> None:
    granted = {action for action in actions(name) if action.startswith("dynamodb:")}
    assert granted == {f"dynamodb:{action}" for action in TABLE_ACTIONS[name].split()}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nothing_else_is_allowed(name: str) -> None:
    assert {action for action in actions(name) if not action.startswith("dynamodb:")} <= set(EFFECTS)


OURS = {"StringEquals": {"aws:ResourceTag/paddock:deployment": {"Ref": "Table"}}}


@pytest.mark.parametrize(
    ("action", "condition"),
    [
        ("ec2:RebootInstances", OURS),
        ("ec2:StartInstances", OURS),
        ("ec2:StopInstances", OURS),
        ("ec2:TerminateInstances", OURS),
        ("ec2:DeletePlacementGroup", OURS),
    ],
)
def test_only_what_this_service_made_can_be_changed(action: str, condition: dict[str, Any]) -> None:
    for name in EFFECTS[action]:
        for statement in statements(name):
            if action in listed(statement["Action"]):
                assert statement["Condition"] == condition


def test_a_launch_sets_tags_at_creation_only() -> None:
    """Of instances, their volumes and interfaces, fleets, and placement groups."""
    (statement,) = (s for s in statements("Launch") if "ec2:CreateTags" in listed(s["Action"]))
    assert statement["Condition"] == {
        "StringEquals": {"ec2:CreateAction": ["CreateFleet", "RunInstances", "CreatePlacementGroup"]}
    }
    [arn] = written(statement["Resource"], RESOURCES, {})
    taggable = resource_types("ec2:CreateTags")
    for kind in ("instance", "volume", "network-interface", "fleet", "placement-group"):
        assert fnmatchcase(taggable[kind], arn)


@pytest.mark.parametrize("name", ["Poll", "ReconcileWorkItem"])
def test_an_instance_that_exists_gets_the_tags_of_its_node_and_no_others(name: str) -> None:
    """With more, a function could give what is another's the tag by which it may end it."""
    (statement,) = (s for s in statements(name) if "ec2:CreateTags" in listed(s["Action"]))
    assert statement["Condition"] == {
        **OURS,
        "ForAllValues:StringEquals": {"aws:TagKeys": [NAME_TAG, NODE_TAG]},
    }
    [arn] = written(statement["Resource"], RESOURCES, {})
    taggable = resource_types("ec2:CreateTags")
    assert {kind for kind, one in taggable.items() if fnmatchcase(one, arn)} == {"instance"}


OTHER_SERVICES = {
    "elastic-inference": "is no longer offered",
    "group": "groups of capacity reservations are Resource Groups'",
    "license-configuration": "belongs to License Manager",
}


def allowed_at_launch(arn: str) -> bool:
    """Return whether a launch may touch this."""
    granted = [s for s in statements("Launch") if "ec2:RunInstances" in listed(s["Action"])]
    arns = [a for s in granted for one in listed(s["Resource"]) for a in written(one, RESOURCES, {})]
    return any(fnmatchcase(arn, one) for one in arns)


def test_a_launch_may_touch_all_that_ec2_asks_for() -> None:
    for kind, arn in resource_types("ec2:RunInstances").items():
        assert allowed_at_launch(arn) == (kind not in OTHER_SERVICES), kind


@pytest.mark.parametrize("kind", ["capacity-reservation", "security-group", "subnet"])
def test_a_launch_may_use_what_other_accounts_share(kind: str) -> None:
    arn = resource_types("ec2:RunInstances")[kind]
    assert allowed_at_launch(arn.replace("111122223333", "444455556666"))
    assert not allowed_at_launch(resource_types("ec2:RunInstances")["volume"].replace("1111", "4444"))


GIVEN = {
    "PassesInstanceRole": ("InstanceRoleArn", "String", {"iam:PassRole"}),
    "PassesInstanceRoles": ("InstanceRoleArns", "CommaDelimitedList", {"iam:PassRole"}),
    "ReadsImageParameters": ("ImageParameterArns", "CommaDelimitedList", {"ssm:GetParameters"}),
    "UsesVolumeKeys": (
        "VolumeKeyArns",
        "CommaDelimitedList",
        {a for a in EFFECTS if a.startswith("kms:")},
    ),
}
TO_INSTANCES = {"StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]}}


@pytest.mark.parametrize("condition", GIVEN)
def test_roles_keys_and_image_parameters_are_those_that_the_deployer_names(condition: str) -> None:
    parameter, kind, expected = GIVEN[condition]
    assert PARAMETERS[parameter]["Type"] == kind
    assert PARAMETERS[parameter]["Default"] == ""
    every = RESOURCES["Launch"]["Properties"]["Policies"][0]["Statement"]
    granted = [s["Fn::If"][1] for s in every if "Fn::If" in s and s["Fn::If"][0] == condition]
    assert {action for statement in granted for action in listed(statement["Action"])} == expected
    for statement in granted:
        assert statement["Resource"] == {"Ref": parameter}
        if statement["Action"] == "iam:PassRole":
            assert statement["Condition"] == TO_INSTANCES


def test_a_key_is_granted_to_ebs_alone() -> None:
    (statement,) = (s for s in statements("Launch") if "kms:CreateGrant" in listed(s["Action"]))
    assert statement["Action"] == "kms:CreateGrant"
    assert statement["Condition"] == {"Bool": {"kms:GrantIsForAWSResource": "true"}}


def test_what_cannot_be_limited_to_a_resource_cannot_be_limited_at_all() -> None:
    """The reason for each asterisk: AWS knows no resource of these actions."""
    assert [action for action in UNLIMITABLE if resource_types(action)] == []


def test_the_secret_is_told_to_the_authorizer_alone() -> None:
    for name in FUNCTIONS:
        variables = RESOURCES[name]["Properties"].get("Environment", {}).get("Variables", {})
        assert ("CREDENTIALS_SECRET_ARN" in variables) == (name == "BasicAuthorizer")
