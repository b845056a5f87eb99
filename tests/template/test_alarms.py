"""Alarms and dashboard look at metrics that exist, and nothing that runs unwatched fails unheard."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from paddock.model.time import SECOND_NS
from paddock.observability import Metric
from paddock.reconcile.quotas import QUOTAS_AGE_NS
from tests.emulator.template import load_template

TEMPLATE = load_template()
RESOURCES = TEMPLATE["Resources"]
ALARMS = {
    name: resource["Properties"]
    for name, resource in RESOURCES.items()
    if resource["Type"] == "AWS::CloudWatch::Alarm"
}
DASHBOARD = RESOURCES["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
OWN = "Paddock/${AWS::StackName}"
OWN_DIMENSIONS = {"service": "paddock"}
# Of AWS's metrics, those that this template may look at, with the dimensions under which AWS publishes them.
AWS_METRICS: dict[str, tuple[set[str], set[str]]] = {
    "AWS/ApiGateway": ({"Count", "4XXError", "5XXError", "Latency"}, {"ApiName", "Stage"}),
    "AWS/DynamoDB": (
        {
            "ConsumedReadCapacityUnits",
            "ConsumedWriteCapacityUnits",
            "ReadThrottleEvents",
            "WriteThrottleEvents",
        },
        {"TableName"},
    ),
    "AWS/Lambda": ({"Errors", "Invocations"}, {"FunctionName"}),
    "AWS/SQS": ({"ApproximateAgeOfOldestMessage", "ApproximateNumberOfMessagesVisible"}, {"QueueName"}),
    "AWS/States": (
        {"ExecutionsStarted", "ExecutionsSucceeded", "ExecutionsFailed", "ExecutionsTimedOut"},
        {"StateMachineArn"},
    ),
}
# The limit is the account's, and so is the metric.
OF_THE_ACCOUNT = ("AWS/Lambda", "Throttles")


def check(namespace: str, metric: str, dimensions: dict[str, Any]) -> None:
    """Hold that somebody writes this metric under these dimensions."""
    if namespace == OWN:
        assert metric in set(Metric)
        assert dimensions == OWN_DIMENSIONS
    elif (namespace, metric) == OF_THE_ACCOUNT:
        assert dimensions == {}
    else:
        metrics, names = AWS_METRICS[namespace]
        assert metric in metrics
        assert dimensions.keys() == names


@pytest.mark.parametrize("name", ALARMS)
def test_an_alarm_looks_at_a_metric_that_somebody_writes(name: str) -> None:
    alarm = ALARMS[name]
    namespace = alarm["Namespace"]
    dimensions = {one["Name"]: one["Value"] for one in alarm.get("Dimensions", [])}
    check(namespace if isinstance(namespace, str) else namespace["Fn::Sub"], alarm["MetricName"], dimensions)


def test_functions_write_where_alarms_look() -> None:
    variables = TEMPLATE["Globals"]["Function"]["Environment"]["Variables"]
    assert variables["POWERTOOLS_METRICS_NAMESPACE"] == {"Fn::Sub": OWN}


@pytest.mark.parametrize("name", ALARMS)
def test_an_alarm_tells_the_topic_when_it_begins_and_ends(name: str) -> None:
    alarm = ALARMS[name]
    told = {"Fn::If": ["HasAlarmTopic", [{"Ref": "AlarmTopicArn"}], {"Ref": "AWS::NoValue"}]}
    assert alarm["AlarmActions"] == alarm["OKActions"] == told
    assert alarm["AlarmDescription"]


@pytest.mark.parametrize("name", ALARMS)
def test_no_data_is_good_news_but_of_the_reconciler(name: str) -> None:
    silent = {"Fn::If": ["Reconciles", "breaching", "notBreaching"]}
    assert ALARMS[name]["TreatMissingData"] == (silent if name == "ReconcilerSilentAlarm" else "notBreaching")


def test_functions_that_no_client_waits_for_do_not_fail_unheard() -> None:
    """Either their errors raise an alarm, or failed invocations go to a queue whose depth does."""
    watched = {
        dimension["Value"]["Ref"]
        for alarm in ALARMS.values()
        if alarm["MetricName"] == "Errors"
        for dimension in alarm["Dimensions"]
    }
    queues = {
        dimension["Value"]["Fn::GetAtt"][0]
        for alarm in ALARMS.values()
        if alarm["Namespace"] == "AWS/SQS"
        for dimension in alarm["Dimensions"]
    }
    for name, resource in RESOURCES.items():
        if resource["Type"] != "AWS::Serverless::Function":
            continue
        if resource["Properties"]["Handler"].startswith(("api.", "authorizer.")):
            continue
        destinations = resource["Properties"].get("EventInvokeConfig", {}).get("DestinationConfig", {})
        kept = {destinations.get("OnFailure", {}).get("Destination", {}).get("Fn::GetAtt", [None])[0]}
        for event in resource["Properties"].get("Events", {}).values():
            if event["Type"] == "SQS":
                source = RESOURCES[event["Properties"]["Queue"]["Fn::GetAtt"][0]]["Properties"]
                kept.add(source["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0])
        assert name in watched or kept & queues, f"{name} fails unheard"


def test_parts_that_nobody_takes_raise_an_alarm_before_they_are_dropped() -> None:
    """The schedule goes on putting them into the queue, so neither silence nor dead letters would tell."""
    queue = RESOURCES["ReconcileWorkQueue"]["Properties"]
    alarm = ALARMS["ReconcilerBehindAlarm"]
    assert alarm["Dimensions"] == [
        {"Name": "QueueName", "Value": {"Fn::GetAtt": ["ReconcileWorkQueue", "QueueName"]}}
    ]
    fails_within = queue["VisibilityTimeout"] * queue["RedrivePolicy"]["maxReceiveCount"]
    assert fails_within < alarm["Threshold"] < queue["MessageRetentionPeriod"]


def test_quotas_that_cannot_be_read_raise_an_alarm_that_lasts_until_the_next_reading() -> None:
    alarm = ALARMS["QuotasUnreadAlarm"]
    assert alarm["MetricName"] == Metric.QUOTAS_UNREAD
    assert (alarm["Threshold"], alarm["DatapointsToAlarm"]) == (1, 1)
    # A reading is due after an hour and takes place in the minute that follows.
    assert alarm["Period"] * (alarm["EvaluationPeriods"] - 1) * SECOND_NS >= QUOTAS_AGE_NS


def test_what_the_schedule_cannot_deliver_is_kept_too() -> None:
    properties = RESOURCES["Reconcile"]["Properties"]
    queue = {"Fn::GetAtt": ["DeadLetters", "Arn"]}
    assert properties["EventInvokeConfig"]["DestinationConfig"]["OnFailure"]["Destination"] == queue
    (event,) = properties["Events"].values()
    assert event["Properties"]["DeadLetterConfig"] == {"Arn": queue}


def test_the_dashboard_shows_metrics_that_exist_and_every_alarm() -> None:
    widgets = json.loads(DASHBOARD)["widgets"]
    shown = [row for widget in widgets for row in widget["properties"].get("metrics", [])]
    assert shown
    for row in shown:
        if "expression" in row[0]:
            # A search by cluster.
            [metric] = re.findall(r'MetricName="(\w+)"', row[0]["expression"])
            assert metric in set(Metric)
            # A namespace with anything but letters and digits is found in quotes only.
            assert f'{{"{OWN}",service,cluster}}' in row[0]["expression"]
            continue
        namespace, metric, *rest = [one for one in row if isinstance(one, str)]
        check(namespace, metric, dict(zip(rest[::2], rest[1::2], strict=True)))
    [alarms] = [widget["properties"]["alarms"] for widget in widgets if widget["type"] == "alarm"]
    assert sorted(alarms) == sorted(f"${{{name}.Arn}}" for name in ALARMS)


def test_every_metric_of_ours_is_shown() -> None:
    assert [metric for metric in Metric if f'"{metric}"' not in DASHBOARD] == []
