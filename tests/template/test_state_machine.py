"""The workflow's definition is valid, and no passing fault ends an execution."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from statelint.config import Config
from statelint.linter import Linter

from paddock.model.base import MAX_NODES
from paddock.model.operation import Action, deadline_of
from paddock.model.time import SECOND_NS
from paddock.reconcile.expiration import WORKFLOW_GRACE_NS
from tests.emulator.template import ROOT, load_template

PATH = ROOT / "functions" / "workflow" / "node_operation.asl.json"
DEFINITION: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
STATES: dict[str, dict[str, Any]] = DEFINITION["States"]
TASKS = {name: state for name, state in STATES.items() if state["Type"] == "Task"}
INVOKE = "arn:aws:states:::lambda:invoke"
MACHINE = load_template()["Resources"]["NodeOperation"]["Properties"]
EVENTS_OF_AN_EXECUTION = 25_000
# Choice 2, Wait 2, Choice 2, and a Task that fails four times and is caught: 2 + 4 x 3, then Pass 2.
EVENTS_OF_A_ROUND = 24


def test_the_definition_is_valid() -> None:
    """The linter does not know that a Wait's Seconds may be an expression; it is shown a number."""
    definition = json.loads(PATH.read_text(encoding="utf-8").replace("${InvokeArn}", INVOKE))
    assert definition["States"]["Wait"]["Seconds"] == "{% $states.input.waitSeconds %}"
    definition["States"]["Wait"]["Seconds"] = 1
    assert Linter.validate(definition, Config(evaluate_jsonata=True)) == []


def test_the_template_fills_in_all_placeholders() -> None:
    placeholders = set(re.findall(r"\$\{(\w+)\}", PATH.read_text(encoding="utf-8")))
    assert placeholders == MACHINE["DefinitionSubstitutions"].keys()
    assert MACHINE["DefinitionUri"] == str(PATH.relative_to(ROOT))
    assert MACHINE["Type"] == "STANDARD"


def test_functions_know_the_state_machine_by_its_name() -> None:
    name = MACHINE["Name"]["Fn::Sub"]
    variables = load_template()["Globals"]["Function"]["Environment"]["Variables"]
    assert variables["STATE_MACHINE_ARN"]["Fn::Sub"].endswith(f":stateMachine:{name}")


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_retried_then_caught_then_polled(name: str) -> None:
    task = TASKS[name]
    (retry,) = task["Retry"]
    assert retry["ErrorEquals"] == ["States.ALL"]
    assert 1 <= retry["MaxAttempts"] <= 5
    assert retry["BackoffRate"] > 1
    assert retry["JitterStrategy"] == "FULL"
    (catch,) = task["Catch"]
    assert catch["ErrorEquals"] == ["States.ALL"]
    assert STATES[catch["Next"]]["Output"]["next"] == "wait"
    assert STATES[catch["Next"]]["Next"] == "Route"


@pytest.mark.parametrize("name", TASKS)
def test_a_task_outlasts_its_function(name: str) -> None:
    """A function that the workflow gave up on may still have an effect while its retry runs."""
    timeout = load_template()["Resources"][name]["Properties"]["Timeout"]
    assert timeout < TASKS[name]["TimeoutSeconds"]


def test_an_execution_ends_by_itself_after_its_operation_should_have() -> None:
    longest = max(deadline_of(action, MAX_NODES, 0) for action in Action)
    seconds = (longest + WORKFLOW_GRACE_NS) / SECOND_NS
    assert seconds < DEFINITION["TimeoutSeconds"] <= 4 * seconds


def test_the_history_is_bounded() -> None:
    conditions = [choice["Condition"] for choice in STATES["Route"]["Choices"]]
    (limit,) = (int(n) for text in conditions for n in re.findall(r"polls > (\d+)", text))
    assert limit * EVENTS_OF_A_ROUND < EVENTS_OF_AN_EXECUTION


def test_each_outcome_of_a_task_has_a_way() -> None:
    conditions = " ".join(choice["Condition"] for choice in STATES["Route"]["Choices"])
    assert set(re.findall(r"next = '(\w+)'", conditions)) == {"launch", "terminate", "wait", "finish", "done"}
