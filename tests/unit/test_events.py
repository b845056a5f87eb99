"""The events in ``events/``, replayed through the real handlers over fakes, in the order of one story."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paddock.model.identity import new_operation_id
from paddock.nodes import plan as node_plan
from tests.fakes.api import handle, serve
from tests.fakes.world import CLUSTER, World

EVENTS = Path(__file__).parents[2] / "events"
TIME_PASSES = ("", "", 0)

STORY: tuple[tuple[str, str, int | str], ...] = (
    ("api", "put_cluster", 201),
    ("api", "list_clusters", 200),
    ("api", "get_cluster", 200),
    ("api", "create_nodes", 202),
    ("workflow", "launch", "wait"),
    ("workflow", "poll", "wait"),
    TIME_PASSES,
    ("workflow", "poll", "finish"),
    ("workflow", "finish", "done"),
    ("workflow", "terminate", "done"),
    ("api", "get_operation", 200),
    ("api", "list_operations", 200),
    ("api", "list_nodes", 200),
    ("api", "get_cluster_status", 200),
    ("api", "get_cluster_usage", 200),
    ("api", "write_virtual_cluster", 200),
    ("api", "get_virtual_cluster", 200),
    ("api", "get_virtual_cluster_history", 200),
    ("api", "list_virtual_clusters", 200),
    ("api", "delete_virtual_cluster", 200),
    ("api", "restart_nodes", 202),
    ("api", "deallocate_nodes", 202),
    ("api", "start_nodes", 202),
    ("api", "reimage_nodes", 202),
    ("api", "retry_failed_nodes", 200),
    ("api", "shutdown_nodes", 202),
    ("api", "remove_nodes", 202),
    ("api", "scale_nodes", 202),
    ("api", "terminate_nodes", 202),
    ("api", "delete_cluster", 409),
    ("api", "unmatched", 405),
    # No node of the story has the instance that asks.
    ("api", "get_self", 404),
    ("api", "get_health", 200),
    ("api", "get_openapi", 200),
)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    cluster, ledger = world.repository.cluster(CLUSTER), world.repository.ledger(CLUSTER)
    assert cluster is not None
    assert ledger is not None
    world.forget(cluster, ledger)
    serve(world, monkeypatch)
    # The first create is the one that the workflow's events are about.
    first = iter([event("workflow/launch")["operationId"]])
    monkeypatch.setattr(node_plan, "new_operation_id", lambda now: next(first, None) or new_operation_id(now))
    return world


def event(name: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return parsed


def replay(name: str, handler: str) -> Any:
    return handle(handler, event(name))


def test_every_event_gets_the_answer_that_it_is_an_example_of(world: World) -> None:
    for step in STORY:
        folder, name, expected = step
        if step == TIME_PASSES:
            world.clock.advance(60)
            continue
        answer = replay(f"{folder}/{name}", f"{folder}.{name}")
        assert answer.get("statusCode", answer.get("next")) == expected, (name, answer)


def test_every_event_file_is_replayed() -> None:
    replayed = {f"{folder}/{name}" for folder, name, _ in STORY if name} | {
        "authorizer",
        "instance_events",
        "reconcile",
        "reconcile_work_item",
    }
    assert {str(path.relative_to(EVENTS).with_suffix("")) for path in EVENTS.rglob("*.json")} == replayed


@pytest.mark.usefixtures("world")
def test_the_authorizer_lets_the_local_user_use_every_route_of_the_stage() -> None:
    policy = replay("authorizer", "authorizer.basic")
    assert policy["principalId"] == "admin"
    statement = policy["policyDocument"]["Statement"][0]
    assert statement["Effect"] == "Allow"
    assert statement["Resource"].endswith(":paddock/v1/*")


@pytest.mark.usefixtures("world")
def test_the_schedule_runs_the_reconciler() -> None:
    replay("api/put_cluster", "api.put_cluster")
    assert replay("reconcile", "schedule.reconcile") == {"work_items": 1}
    answer = replay("reconcile_work_item", "schedule.reconcile_work_item")
    assert (answer["seen"], answer["failed"]) == (0, 0)


@pytest.mark.usefixtures("world")
def test_events_of_instances_that_are_not_ours_change_nothing() -> None:
    answer = replay("instance_events", "schedule.instance_events")
    assert answer == {"batchItemFailures": []}
