"""SAM's translation, which is what gets deployed, keeps CloudFormation's and IAM's rules."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from cfnlint.api import lint
from cfnlint.config import ManualArgs

from tests.emulator.template import ROOT
from tests.template.iam import REFERENCE, problems
from tests.template.translated import translated

if TYPE_CHECKING:
    from collections.abc import Iterator

TEMPLATE = translated()
# Rules of cfn-lint that this template breaks, each with its reason.
EXCEPTIONS = {
    "I3011": "only the table is to outlive its stack; CloudFormation deletes by default what has no policy",
    "I3042": "SAM writes the partition of the Region that it deploys to; see the test of partitions",
}
# What a deployer could give for each parameter that a policy names.
PARAMETERS = {
    "ImageParameterArns": "arn:aws:ssm:us-east-1::parameter/aws/service/ami-amazon-linux-latest/*",
    "InstanceRoleArn": "arn:aws:iam::111122223333:role/x",
    "InstanceRoleArns": "arn:aws:iam::111122223333:role/x",
    "VolumeKeyArns": "arn:aws:kms:us-east-1:444455556666:key/x",
}


def statements(value: Any) -> Iterator[dict[str, Any]]:
    """Find all statements, those on condition included."""
    if isinstance(value, dict):
        if "Effect" in value and "Action" in value:
            yield value
        for one in value.values():
            yield from statements(one)
    elif isinstance(value, list):
        for one in value:
            yield from statements(one)


STATEMENTS = [
    (name, statement)
    for name, resource in TEMPLATE["Resources"].items()
    if resource["Type"] in {"AWS::IAM::Role", "AWS::SQS::QueuePolicy"}
    for part in ("Policies", "PolicyDocument")
    for statement in statements(resource["Properties"].get(part))
]


def test_cloudformation_s_linter_finds_nothing_in_what_is_deployed() -> None:
    config = ManualArgs(include_checks=["I"], include_experimental=True, regions=["us-east-1"])
    found = lint(json.dumps(TEMPLATE), config=config)
    ids = {match.rule.id for match in found}
    assert [
        f"{match.rule.id} {match.message[:300]}" for match in found if match.rule.id not in EXCEPTIONS
    ] == []
    assert ids == EXCEPTIONS.keys(), "an exception that nothing needs goes"


def test_the_policies_of_all_functions_are_looked_at() -> None:
    assert len(STATEMENTS) > 60
    assert {name.removesuffix("Role") for name, _ in STATEMENTS} >= {"Launch", "Reconcile", "NodeOperation"}


@pytest.mark.parametrize(("name", "statement"), STATEMENTS)
def test_a_statement_grants_actions_that_exist_on_resources_that_they_have(
    name: str, statement: dict[str, Any]
) -> None:
    assert list(problems(statement, TEMPLATE["Resources"], PARAMETERS)) == [], name


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ({"Action": "service-quotas:ListServiceQuotas", "Resource": "*"}, "there is no service"),
        ({"Action": "sqs:SendMessages", "Resource": "*"}, "there is no such action"),
        ({"Action": "ec2:TerminateInstances", "Resource": "*"}, "it can be limited to"),
        ({"Action": "ec2:DescribeInstances", "Resource": "arn:aws:ec2:*:*:instance/*"}, "to no resource"),
        (
            {"Action": "ec2:StopInstances", "Resource": "arn:aws:ec2:*:*:volume/*"},
            "none of these is a resource",
        ),
        (
            {
                "Action": "ec2:StopInstances",
                "Resource": "arn:aws:ec2:*:*:instance/*",
                "Condition": {"StringEquals": {"ec2:CreateAction": "RunInstances"}},
            },
            "it knows no condition",
        ),
        (
            {"Action": "iam:PassRole", "Resource": ["arn:aws:iam::1:role/x", "arn:aws:sqs:us-east-1:1:x"]},
            "none of these actions is about it",
        ),
    ],
)
def test_the_linter_of_policies_sees_each_kind_of_slip(statement: dict[str, Any], problem: str) -> None:
    [found] = problems(statement, {}, {})
    assert problem in found


def test_the_reference_is_of_our_time() -> None:
    """One that is older than the youngest service here would not know its actions."""
    assert REFERENCE.data_updated_at().replace(tzinfo=UTC) >= datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("region", "partition"),
    [("us-east-1", "aws"), ("us-gov-west-1", "aws-us-gov"), ("cn-north-1", "aws-cn")],
)
def test_no_other_partition_is_written_out(region: str, partition: str) -> None:
    definition = (ROOT / "functions" / "workflow" / "node_operation.asl.json").read_text(encoding="utf-8")
    text = json.dumps(translated(region)) + definition
    # A parameter's pattern may say "any partition".
    assert set(re.findall(r"arn:(aws[a-z-]*):", text)) <= {partition}
