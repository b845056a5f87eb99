"""What nodes used, from launch to end, as the use case tells it and as clients read it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from paddock.adapters.dynamodb.items import to_item
from paddock.adapters.dynamodb.keys import key_of
from paddock.clusters import usage as use_case
from paddock.clusters.usage import cluster_usage
from paddock.errors import InvalidRequest, NotFound
from paddock.http.request import Request
from paddock.http.views.usage import usage_view
from paddock.model.identity import ClusterName, NodeId
from paddock.model.time import DAY_NS, HOUR_NS, SECOND_NS
from paddock.model.usage import UsageInterval
from paddock.requests.timeframe import UsageQuery
from tests.fakes import invariants
from tests.fakes.clock import START
from tests.fakes.repository import FakeRepository
from tests.fakes.world import CLUSTER, REGION, World, bucket, nodearray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.node import Node

HOUR = 3600
# START is 2024-12-24T00:26:40Z, a Tuesday.
TODAY = {"timeframe": "custom", "from": "2024-12-24", "to": "2024-12-25"}


def priced(price: float | None = 2.0, **changes: Any) -> World:
    return World(nodearray("ondemand", bucket(pricePerHour=price)), **changes)


def ask(world: World, **query: str) -> dict[str, Any]:
    parsed = UsageQuery.model_validate(query or {"granularity": "total"})
    view = usage_view(cluster_usage(world.store, CLUSTER, parsed), REGION)
    copied: dict[str, Any] = json.loads(json.dumps(view))
    return copied


def total_hours(world: World, **query: str) -> float:
    return float(sum(one["total"]["hours"] for one in ask(world, **query)["usage"]))


def recorded(world: World) -> Sequence[UsageInterval]:
    return world.repository.usage_intervals(CLUSTER, 0)


def end(world: World, *nodes: Node) -> None:
    operation, _ = world.terminate(ids=[node.id for node in nodes])
    world.drive(operation)


# From the launch to the end.


def test_a_running_node_counts_from_its_launch_until_now() -> None:
    world = priced()
    [node] = world.ready(1)
    world.clock.advance(HOUR)
    used = (world.clock.now() - node.launched_at) / HOUR_NS
    assert total_hours(world) == pytest.approx(4 * used)
    assert recorded(world) == []


def test_a_node_that_ended_keeps_its_interval_and_counts_on_no_more() -> None:
    world = priced()
    [node] = world.ready(1)
    world.clock.advance(HOUR)
    end(world, node)
    [one] = recorded(world)
    assert (one.node_id, one.name, one.node_array) == (node.id, "ondemand-1", "ondemand")
    assert (one.machine_type, one.cores, one.price_per_hour) == ("c7i-xlarge", 4, 2.0)
    assert one.start == node.launched_at
    assert node.launched_at + HOUR * SECOND_NS < one.end <= world.clock.now()
    before = total_hours(world)
    assert before == pytest.approx(4 * (one.end - one.start) / HOUR_NS)
    world.clock.advance(HOUR)
    assert total_hours(world) == before


def test_a_terminating_node_counts_until_its_instance_is_gone() -> None:
    world = priced()
    world.ec2.configure(terminate_seconds=100)
    [node] = world.ready(1)
    operation, _ = world.terminate(ids=[node.id])
    world.step("terminate", operation.id)
    world.clock.advance(50)
    world.step("poll", operation.id)
    assert recorded(world) == []
    assert total_hours(world) > 4 * 50 / HOUR
    world.drive(operation)
    assert recorded(world)[0].end - node.launched_at >= 100 * SECOND_NS


def test_a_node_whose_instance_is_lost_counts_once_also_when_it_is_removed_later() -> None:
    world = priced()
    world.ec2.configure(boot_seconds=60)
    operation, _ = world.create(2)
    world.step("launch", operation.id)
    world.ec2.end(world.nodes()[0].instance_id, "Server.SpotInstanceTermination")
    world.drive(operation)
    failed = world.nodes()[0]
    assert [one.node_id for one in recorded(world)] == [failed.id]
    world.clock.advance(HOUR)
    end(world, failed)
    assert [one.node_id for one in recorded(world)] == [failed.id]
    assert [node.name for node in world.nodes()] == ["ondemand-2"]


def test_a_protected_instance_counts_although_its_node_is_failed() -> None:
    world = priced()
    [node] = world.ready(1)
    world.ec2.protect(node.instance_id)
    end(world, node)
    before = total_hours(world)
    world.clock.advance(HOUR)
    assert total_hours(world) == pytest.approx(before + 4, abs=0.01)
    assert recorded(world) == []


def test_what_was_never_launched_was_never_used() -> None:
    world = priced()
    world.ec2.capacity(0)
    nodes = world.ready(3)
    end(world, *nodes)
    assert recorded(world) == []
    assert total_hours(world) == 0


def test_hundreds_of_nodes_that_end_together_leave_an_interval_each() -> None:
    world = priced()
    nodes = world.ready(250)
    end(world, *nodes)
    assert sorted(one.node_id for one in recorded(world)) == sorted(node.id for node in nodes)
    assert world.nodes() == []
    assert invariants.at_rest(world) == []


def test_a_new_price_does_not_change_the_past_nor_what_runs() -> None:
    world = priced(2.0)
    old, ended = world.ready(2)
    end(world, ended)
    revision = world.repository.clusters()[0].revision
    world.put({"nodearrays": [nodearray("ondemand", bucket(pricePerHour=100.0))]}, revision)
    [new] = world.ready(1)
    details = ask(world)["usage"][0]["breakdown"][0]["details"]
    assert len(details) == 2
    assert {node.id: node.spec.price_per_hour for node in (old, new)} == {old.id: 2.0, new.id: 100.0}
    assert [one.price_per_hour for one in recorded(world)] == [2.0]


class _Slow(FakeRepository):
    """A node ends between the read of the nodes and that of the intervals."""

    world: World

    def nodes(self, cluster: ClusterName, limit: int | None = None, after: str = "") -> Sequence[Node]:
        nodes = super().nodes(cluster, limit, after)
        if self.world.repository is self:
            self.world.repository = FakeRepository()
            self.world.repository._records = self._records
            end(self.world, *nodes)
        return nodes


def test_a_node_that_ends_while_it_is_read_counts_once() -> None:
    world = priced()
    world.ready(1)
    slow = _Slow()
    slow._records, slow.world, world.repository = world.repository._records, world, slow
    [slot] = cluster_usage(world.store, CLUSTER, UsageQuery.model_validate({"granularity": "total"})).slots
    [one] = recorded(world)
    # Its end is a little later than the moment that the question was asked at.
    assert sum(slot.machines.values()) == one.end - one.start


# What is asked for.


def test_only_what_was_used_in_the_timeframe_counts() -> None:
    world = priced()
    [old] = world.ready(1)
    end(world, old)
    world.clock.advance(DAY_NS / SECOND_NS)
    world.ready(1)
    world.clock.advance(60)
    first, second = ask(world, timeframe="weekToDate", granularity="daily")["usage"][-2:]
    assert [one["node"] for one in first["breakdown"]] == ["ondemand", "ondemand-1"]
    assert first["breakdown"][1]["nodeId"] == old.id
    assert second["breakdown"][1]["nodeId"] != old.id
    assert total_hours(world, timeframe="lastMonth") == 0


def test_the_future_is_not_used_yet() -> None:
    world = priced()
    world.ready(1)
    world.clock.advance(60)
    far = {"timeframe": "custom", "from": "2024-12-24", "to": "2025-01-24"}
    assert total_hours(world, **far) == pytest.approx(total_hours(world), abs=0.001)
    assert [one["breakdown"] for one in ask(world, **far)["usage"][1:]] == [[]] * 30


def test_hours_and_days_of_an_interval_that_straddles_them_add_up() -> None:
    world = priced()
    world.ready(1)
    world.clock.advance(30 * HOUR)
    hourly = ask(world, **TODAY, granularity="hourly")["usage"]
    assert len(hourly) == 24
    assert [round(one["total"]["hours"], 2) for one in hourly[1:]] == [4] * 23
    [daily] = ask(world, **TODAY)["usage"]
    assert sum(one["total"]["hours"] for one in hourly) == pytest.approx(daily["total"]["hours"])
    assert (daily["start"], daily["end"]) == ("2024-12-24T00:00:00Z", "2024-12-25T00:00:00Z")


@pytest.mark.parametrize("cluster", ["other", "", "a#b"])
def test_a_cluster_that_does_not_exist_is_not_found(cluster: ClusterName) -> None:
    world = World()
    with pytest.raises(NotFound, match="No cluster found"):
        cluster_usage(world.store, cluster, UsageQuery())


@pytest.mark.parametrize(
    "parameters",
    [{"timeframe": "x"}, {"timeframe": "custom"}, {"granularity": "x"}, {"from": "x"}, {"to": "2025-01-01"}],
)
def test_a_query_that_breaks_a_rule_is_refused_with_a_short_reason(parameters: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest) as error:
        Request({"queryStringParameters": parameters}).parameters(UsageQuery)
    assert "body" not in error.value.message
    assert 0 < len(error.value.message) < 300


def test_a_query_may_hold_parameters_of_others_and_none_at_all() -> None:
    for parameters in (None, {}, {"expand": "details", "from_time": "x", "fromTime": "x"}):
        assert Request({"queryStringParameters": parameters}).parameters(UsageQuery) == UsageQuery()


# The shape.


def mixed() -> World:
    world = World(
        nodearray(
            "a", bucket("c7i-large", vcpuCount=2, pricePerHour=1), bucket("c7i-xlarge", pricePerHour=3)
        ),
        nodearray("b", bucket(pricePerHour=None), interruptible=True),
    )
    small, large = {"machineType": "c7i-large"}, {"machineType": "c7i-xlarge"}
    operation, _ = world.create_sets(
        {"count": 2, "nodearray": "a", "definition": small},
        {"count": 1, "nodearray": "a", "definition": large},
        {"count": 1, "nodearray": "b"},
    )
    world.drive(operation)
    world.clock.advance(HOUR)
    return world


def test_usage_has_the_documented_shape() -> None:
    [slot] = ask(mixed())["usage"]
    assert slot.keys() == {"start", "end", "total", "breakdown"}
    assert slot["total"]["category"] == "cluster"
    assert "node" not in slot["total"]
    a, b, *nodes = slot["breakdown"]
    assert [(one["category"], one["node"]) for one in (a, b)] == [("nodearray", "a"), ("nodearray", "b")]
    assert [(one["category"], one["node"], one["nodearray"]) for one in nodes] == [
        ("node", "a-1", "a"),
        ("node", "a-2", "a"),
        ("node", "a-3", "a"),
        ("node", "b-1", "b"),
    ]
    small, large = a["details"]
    assert {key: small[key] for key in ("vm_size", "core_count", "region", "priority")} == {
        "vm_size": "c7i-large",
        "core_count": 2,
        "region": REGION,
        "priority": "Regular",
    }
    assert (large["vm_size"], large["core_count"]) == ("c7i-xlarge", 4)
    assert b["details"][0]["priority"] == "Spot"


def test_hours_are_core_hours_and_each_level_adds_up() -> None:
    [slot] = ask(mixed())["usage"]
    a, b, *nodes = slot["breakdown"]
    assert slot["total"]["hours"] == pytest.approx(a["hours"] + b["hours"])
    assert slot["total"]["hours"] == pytest.approx(sum(node["hours"] for node in nodes))
    assert a["hours"] == pytest.approx(sum(one["hours"] for one in a["details"]))
    assert a["hours"] == pytest.approx(2 * 2 + 4, rel=0.02)
    assert b["hours"] == pytest.approx(4, rel=0.02)
    # A machine's hours are its core-hours by its cores.
    assert a["details"][0]["hours"] / a["details"][0]["core_count"] == pytest.approx(2, rel=0.02)


def test_cost_is_by_the_hour_of_a_machine_and_left_out_where_a_price_is_missing() -> None:
    [slot] = ask(mixed())["usage"]
    a, b, *nodes = slot["breakdown"]
    assert a["cost"] == pytest.approx(2 * 1 + 3, rel=0.02)
    assert [round(one["cost"]) for one in (*a["details"], *nodes[:3])] == [2, 3, 1, 1, 3]
    assert all("cost" not in one for one in (slot["total"], b, b["details"][0], nodes[3]))


def test_each_interval_is_there_also_where_nothing_was_used() -> None:
    view = ask(priced(), granularity="daily")
    assert len(view["usage"]) == 24
    for slot in view["usage"]:
        assert slot["total"] == {"category": "cluster", "hours": 0, "cost": 0}
        assert slot["breakdown"] == []
    assert view.keys() == {"usage"}


def test_nodes_that_are_too_many_for_a_reply_are_left_out_and_it_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = priced()
    world.ready(3)
    monkeypatch.setattr(use_case, "MAX_ENTRIES", 5)
    view = ask(world)
    assert [one["category"] for one in view["usage"][0]["breakdown"]] == ["nodearray"]
    assert "left out" in view["message"]
    monkeypatch.setattr(use_case, "MAX_ENTRIES", 2)
    with pytest.raises(InvalidRequest, match="shorter"):
        ask(world)


@pytest.mark.timeout(60)
def test_a_month_of_a_large_fleet_by_the_hour_fits_into_a_reply() -> None:
    world = World(*(nodearray(f"array-{n}", bucket(pricePerHour=1 / 3)) for n in range(10)))
    intervals = [
        UsageInterval(
            cluster=CLUSTER,
            node_id=NodeId(f"00000000-0000-7000-8000-{number:012}"),
            name=f"node-{number}",
            node_array=f"array-{number % 10}",
            machine_type="c7i-xlarge",
            cores=4,
            price_per_hour=1 / 3,
            interruptible=False,
            start=START - 40 * DAY_NS,
            end=START + number,
            revision=1,
        )
        for number in range(10_000)
    ]
    world.repository._records |= {key_of(one): one for one in intervals}
    query = UsageQuery.model_validate({"granularity": "hourly"})
    reply = usage_view(cluster_usage(world.store, CLUSTER, query), REGION)
    assert "message" in reply
    assert len(json.dumps(reply)) < 6_000_000
    assert reply["usage"][0]["total"]["hours"] == 40_000


def test_usage_is_forgotten_400_days_after_its_end() -> None:
    world = priced()
    end(world, *world.ready(1))
    [one] = recorded(world)
    assert to_item(one)["expiresAt"] == {"N": str((one.end + 400 * DAY_NS) // SECOND_NS)}
