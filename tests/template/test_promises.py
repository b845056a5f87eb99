"""What the template promises about data, logs, errors, and its parameters."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from paddock import bootstrap
from paddock.model.time import SECOND_NS
from paddock.users.authentication import MAX_AGE_NS
from paddock.virtual_clusters.claims import CLAIM_GRACE_NS
from tests.emulator.template import ROOT, TEMPLATE, load_template

DOCUMENT = load_template()
RESOURCES = DOCUMENT["Resources"]
GLOBALS = DOCUMENT["Globals"]["Function"]
TABLE = RESOURCES["Table"]
GATEWAY_RESPONSES = RESOURCES["Api"]["Properties"]["GatewayResponses"]


def test_data_survive_mistakes() -> None:
    properties = TABLE["Properties"]
    assert TABLE["DeletionPolicy"] == TABLE["UpdateReplacePolicy"] == "Retain"
    assert properties["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert properties["DeletionProtectionEnabled"] == {"Ref": "TableDeletionProtection"}
    assert DOCUMENT["Parameters"]["TableDeletionProtection"]["Default"] == "true"
    assert properties["SSESpecification"] == {"SSEEnabled": True}


def test_the_table_is_paid_by_use_and_forgets_what_has_expired() -> None:
    properties = TABLE["Properties"]
    assert properties["BillingMode"] == "PAY_PER_REQUEST"
    assert properties["TimeToLiveSpecification"] == {"AttributeName": "expiresAt", "Enabled": True}


def test_no_function_that_claims_nodes_outlives_its_claims() -> None:
    claiming = ("WriteVirtualCluster", "Finish", "Poll", "ReconcileWorkItem", "InstanceEvents")
    timeouts = [
        RESOURCES[name]["Properties"].get("Timeout", GLOBALS["Timeout"]) * SECOND_NS for name in claiming
    ]
    assert max(timeouts) <= CLAIM_GRACE_NS / 2


def test_a_cloud_that_hangs_is_told_before_any_function_is_cut_off() -> None:
    calling = [
        (name, one["Properties"])
        for name, one in RESOURCES.items()
        if one["Type"] == "AWS::Serverless::Function"
        and "ec2:" in json.dumps(one["Properties"].get("Policies"))
    ]
    assert len(calling) >= 8
    for name, properties in calling:
        config: Any = bootstrap._LARGE_CALLS if name in ("Launch", "Terminate") else bootstrap._EC2_CALLS
        attempts = config.retries["total_max_attempts"]
        # Between attempts botocore waits for up to 1, 2, 4, … seconds.
        longest = config.read_timeout * attempts + sum(2**number for number in range(attempts - 1))
        assert longest < properties.get("Timeout", GLOBALS["Timeout"])


def test_the_index_is_sparse_and_holds_keys_alone() -> None:
    (index,) = TABLE["Properties"]["GlobalSecondaryIndexes"]
    assert [key["AttributeName"] for key in index["KeySchema"]] == ["running", "pk"]
    assert index["Projection"] == {"ProjectionType": "KEYS_ONLY"}


def test_all_logs_have_a_retention() -> None:
    groups = [r["Properties"] for r in RESOURCES.values() if r["Type"] == "AWS::Logs::LogGroup"]
    assert groups
    assert all(group["RetentionInDays"] == {"Ref": "LogRetentionDays"} for group in groups)
    assert GLOBALS["LoggingConfig"] == {"LogGroup": {"Ref": "FunctionLogs"}}


def test_everything_is_traced() -> None:
    assert GLOBALS["Tracing"] == "Active"
    assert RESOURCES["Api"]["Properties"]["TracingEnabled"] is True
    assert RESOURCES["NodeOperation"]["Properties"]["Tracing"] == {"Enabled": True}


def test_the_workflow_logs_no_data() -> None:
    logging = RESOURCES["NodeOperation"]["Properties"]["Logging"]
    assert logging["Level"] in {"ALL", "ERROR"}
    assert logging["IncludeExecutionData"] is False


def test_an_unauthorized_client_is_asked_for_basic_credentials() -> None:
    response = GATEWAY_RESPONSES["UNAUTHORIZED"]
    assert response["StatusCode"] == 401
    assert response["ResponseParameters"]["Headers"]["WWW-Authenticate"].startswith("'Basic realm=")


def test_a_client_that_finds_no_function_is_told_to_come_back() -> None:
    """A throttled Lambda is a failed integration to the gateway, which would answer 500 or 504."""
    response = GATEWAY_RESPONSES["INTEGRATION_FAILURE"]
    assert response["StatusCode"] == 503
    assert response["ResponseParameters"]["Headers"]["Retry-After"] == "'5'"
    assert GATEWAY_RESPONSES["THROTTLED"]["ResponseParameters"]["Headers"]["Retry-After"] == "'5'"


def test_the_largest_body_is_told_as_it_is_in_base64() -> None:
    assert '"the request must be smaller than 4.5 MB"' in json.dumps(
        GATEWAY_RESPONSES["REQUEST_TOO_LARGE"]
    ).replace("\\", "")


@pytest.mark.parametrize("kind", ["AUTHORIZER_CONFIGURATION_ERROR", "AUTHORIZER_FAILURE"])
def test_a_client_whose_credentials_cannot_be_checked_is_told_to_come_back(kind: str) -> None:
    """An authorizer that fails is the one or the other, and by default both are a 500."""
    response = GATEWAY_RESPONSES[kind]
    assert response["StatusCode"] == 503
    assert response["ResponseParameters"]["Headers"]["Retry-After"] == "'5'"


@pytest.mark.proves("every route: 413, 429, 504")
@pytest.mark.parametrize("kind", GATEWAY_RESPONSES)
def test_the_gateway_answers_in_the_shape_of_both_surfaces(kind: str) -> None:
    text = GATEWAY_RESPONSES[kind]["ResponseTemplates"]["application/json"]
    body = json.loads(text.replace("$context.error.messageString", '"message"'))
    assert body.keys() == {"Message", "Detail", "result", "msg", "data"}
    assert body["result"] is False
    assert re.fullmatch("[A-Z][A-Za-z]+", body["data"]["code"])


def test_who_asks_self_without_a_signature_is_told_of_it() -> None:
    """API Gateway answers so to unknown paths and to unsigned requests alike, so its text names both."""
    message = GATEWAY_RESPONSES["MISSING_AUTHENTICATION_TOKEN"]["ResponseTemplates"]["application/json"]
    assert "no such route" in message
    assert "GET /self, which must be signed" in message
    assert "signed" not in GATEWAY_RESPONSES["RESOURCE_NOT_FOUND"]["ResponseTemplates"]["application/json"]


def test_both_families_of_errors_have_a_default() -> None:
    assert GATEWAY_RESPONSES.keys() >= {"DEFAULT_4XX", "DEFAULT_5XX", "ACCESS_DENIED", "THROTTLED"}


def test_a_deployment_needs_no_parameter() -> None:
    for name, parameter in DOCUMENT["Parameters"].items():
        assert "Default" in parameter, name
        assert parameter["Description"], name


def test_the_runtime_is_named_once() -> None:
    """Everything that must know it reads it from the template."""
    named = re.findall(r"python3\.\d+", TEMPLATE.read_text(encoding="utf-8"))
    assert named == [GLOBALS["Runtime"]]
    for path in (ROOT / "Makefile", ROOT / "layers" / "dependencies" / "Makefile"):
        assert not re.search(r"3\.1[2-9]", path.read_text(encoding="utf-8")), path
    for resource in RESOURCES.values():
        assert "Runtime" not in resource["Properties"]


def test_reconciliation_can_be_switched_off_and_does_not_overlap() -> None:
    properties = RESOURCES["Reconcile"]["Properties"]
    (event,) = properties["Events"].values()
    assert event["Type"] == "ScheduleV2"
    assert event["Properties"]["ScheduleExpression"] == "rate(1 minute)"
    assert event["Properties"]["State"] == {"Ref": "Reconciliation"}
    # Two stacks in one account must not be given the same schedule.
    assert event["Properties"]["Name"] == {"Fn::Sub": "${AWS::StackName}-reconcile"}
    assert properties["Timeout"] < 60


CONSUMERS = {"ReconcileWorkItem": "ReconcileWorkQueue", "InstanceEvents": "InstanceEventsQueue"}


@pytest.mark.parametrize("name", CONSUMERS)
def test_a_queue_outlasts_its_function_and_keeps_what_failed(name: str) -> None:
    properties, queue = RESOURCES[name]["Properties"], RESOURCES[CONSUMERS[name]]["Properties"]
    (event,) = properties["Events"].values()
    assert event["Properties"]["Queue"] == {"Fn::GetAtt": [CONSUMERS[name], "Arn"]}
    # Lambda asks for six times as long: it goes on trying while functions are short.
    assert queue["VisibilityTimeout"] >= 6 * properties["Timeout"]
    assert (
        queue["MessageRetentionPeriod"]
        > queue["VisibilityTimeout"] * queue["RedrivePolicy"]["maxReceiveCount"]
    )
    assert queue["RedrivePolicy"]["deadLetterTargetArn"] == {"Fn::GetAtt": ["DeadLetters", "Arn"]}
    assert queue["SqsManagedSseEnabled"] is True


def test_a_slow_cluster_holds_up_no_other_and_all_together_no_function_of_the_api() -> None:
    properties = RESOURCES["ReconcileWorkItem"]["Properties"]
    (event,) = properties["Events"].values()
    assert event["Properties"]["BatchSize"] == 1
    assert event["Properties"]["ScalingConfig"] == {"MaximumConcurrency": {"Ref": "ReconcilerConcurrency"}}
    assert DOCUMENT["Parameters"]["ReconcilerConcurrency"]["MaxValue"] <= 50
    # Cut off before the next run sends the same part.
    assert properties["Timeout"] < 60


def test_the_queues_leave_a_new_account_functions_for_the_api() -> None:
    """It has ten at one time."""
    concurrent = 0
    for name in CONSUMERS:
        (event,) = RESOURCES[name]["Properties"]["Events"].values()
        parameter = DOCUMENT["Parameters"][event["Properties"]["ScalingConfig"]["MaximumConcurrency"]["Ref"]]
        assert parameter["MinValue"] == 2, "Lambda takes no less"
        concurrent += parameter["Default"]
    assert concurrent < 10


def test_a_run_that_finds_no_function_gives_way_to_the_next() -> None:
    """Lambda would go on trying for six hours, beside a new run each minute."""
    properties = RESOURCES["Reconcile"]["Properties"]
    (event,) = properties["Events"].values()
    assert properties["EventInvokeConfig"]["MaximumEventAgeInSeconds"] == 60
    assert properties["EventInvokeConfig"]["MaximumRetryAttempts"] == 0
    assert event["Properties"]["RetryPolicy"] == {"MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60}


def test_the_whole_stage_is_throttled_by_parameters() -> None:
    settings = RESOURCES["Api"]["Properties"]["MethodSettings"]
    assert {
        "ResourcePath": "/*",
        "HttpMethod": "*",
        "ThrottlingRateLimit": {"Ref": "ApiRateLimit"},
        "ThrottlingBurstLimit": {"Ref": "ApiBurstLimit"},
    } in settings


def test_an_old_password_is_good_for_a_minute_at_most() -> None:
    """The gateway keeps an answer of a function that keeps the secret."""
    authorizer = RESOURCES["Api"]["Properties"]["Auth"]["Authorizers"]["Basic"]
    assert authorizer["Identity"]["ReauthorizeEvery"] + MAX_AGE_NS / SECOND_NS <= 60


def test_other_addresses_are_denied_only_where_ranges_are_named() -> None:
    everybody, others = RESOURCES["Api"]["Properties"]["Auth"]["ResourcePolicy"]["CustomStatements"]
    # What this allows needs no permission of the caller: nothing but the open route may be in it.
    assert (everybody["Effect"], everybody["Principal"]) == ("Allow", "*")
    assert everybody["Resource"] == "execute-api:/*/GET/healthz"
    condition, denied, _ = others["Fn::If"]
    assert condition == "LimitsAddresses"
    assert denied["Effect"] == "Deny"
    assert denied["Condition"] == {"NotIpAddress": {"aws:SourceIp": {"Ref": "AllowedAddressRanges"}}}
    # A deployment keeps the policy that it was made with.
    assert RESOURCES["Api"]["Properties"]["AlwaysDeploy"] is True


def test_a_firewall_is_attached_where_one_is_named() -> None:
    assert RESOURCES["WebAcl"]["Condition"] == "HasWebAcl"
    assert RESOURCES["WebAcl"]["Properties"]["WebACLArn"] == {"Ref": "WebAclArn"}


def test_access_logs_have_the_source_and_no_credentials() -> None:
    condition, logged, _ = RESOURCES["Api"]["Properties"]["AccessLogSetting"]["Fn::If"]
    assert condition == RESOURCES["AccessLog"]["Condition"] == "LogsAccess"
    # Variables stand in quotes, so that the line is JSON.
    fields = json.loads(logged["Format"])
    assert fields["sourceIp"] == "$context.identity.sourceIp"
    assert set(fields.values()) <= {
        "$context.requestId",
        "$context.requestTime",
        "$context.identity.sourceIp",
        "$context.authorizer.principalId",
        "$context.httpMethod",
        "$context.path",
        "$context.status",
        "$context.error.responseType",
        "$context.responseLatency",
    }


def test_what_reads_many_nodes_has_a_whole_processor() -> None:
    """Ten thousand take seconds of one, and Lambda gives one whole with 1,769 MB."""
    of_clusters = {"ListClusters"}
    assert GLOBALS["MemorySize"] == 1769
    for name, resource in RESOURCES.items():
        if resource["Type"] == "AWS::Serverless::Function" and name not in of_clusters:
            policies = json.dumps(resource["Properties"].get("Policies"))
            if "dynamodb:Query" in policies or "dynamodb:BatchGetItem" in policies:
                assert "MemorySize" not in resource["Properties"], name


RULES = [name for name, resource in RESOURCES.items() if resource["Type"] == "AWS::Events::Rule"]


@pytest.mark.parametrize("name", RULES)
def test_events_reach_their_queue_or_the_dead_letters(name: str) -> None:
    (target,) = RESOURCES[name]["Properties"]["Targets"]
    assert target["Arn"] == {"Fn::GetAtt": ["InstanceEventsQueue", "Arn"]}
    assert target["DeadLetterConfig"] == {"Arn": {"Fn::GetAtt": ["DeadLetters", "Arn"]}}
    (statement,) = RESOURCES["InstanceEventsPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert statement["Principal"] == {"Service": "events.amazonaws.com"}
    assert {"Fn::GetAtt": [name, "Arn"]} in statement["Condition"]["ArnEquals"]["aws:SourceArn"]


def test_the_rules_are_about_ends_and_interruptions_alone() -> None:
    """A launch of 10,000 must not cost 20,000 events that nobody needs."""
    patterns = [RESOURCES[name]["Properties"]["EventPattern"] for name in RULES]
    assert {json.dumps(pattern["detail"]) for pattern in patterns} == {
        '{"state": ["stopped", "shutting-down", "terminated"]}',
        '{"instance-action": ["terminate"]}',
    }


def test_outputs_say_where_things_are() -> None:
    assert DOCUMENT["Outputs"].keys() >= {"ApiUrl", "CredentialsSecretArn", "TableName", "StateMachineArn"}
