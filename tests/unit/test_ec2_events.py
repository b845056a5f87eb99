"""What the EC2 in memory tells of its instances, and who on the emulator's bus hears of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.emulator.event_bus import matches
from tests.emulator.template import load_template
from tests.fakes.ec2 import NOTICE_SECONDS, STATE_CHANGE, WARNING
from tests.fakes.world import World, nodearray

RULES = ("InstancesEnded", "InstancesInterrupted")


def told(world: World) -> list[tuple[str, str]]:
    """What is told now, without the instance."""
    events = world.ec2.take_events()
    return [(one["detail-type"], one["detail"].get("state", "")) for one in events]


def heard(events: list[dict[str, Any]]) -> list[list[str]]:
    """The instances of these events that each of the template's rules lets pass."""
    patterns = [load_template()["Resources"][rule]["Properties"]["EventPattern"] for rule in RULES]
    envelopes = [{"source": "aws.ec2", **event} for event in events]
    return [
        [event["detail"]["instance-id"] for event in envelopes if matches(pattern, event)]
        for pattern in patterns
    ]


def test_each_state_is_told_once_however_it_came_about() -> None:
    world = World()
    world.ec2.configure(boot_seconds=10, terminate_seconds=10)
    operation, _ = world.create(1)
    world.step("launch", operation.id)
    assert told(world) == [(STATE_CHANGE, "pending")]
    world.clock.advance(10)
    assert told(world) == [(STATE_CHANGE, "running")]
    assert told(world) == []
    [instance] = world.alive()
    for call, states in (
        ("StopInstances", ["stopping", "stopped"]),
        ("StartInstances", ["pending", "running"]),
        ("TerminateInstances", ["shutting-down", "terminated"]),
    ):
        world.ec2.call(call, {"InstanceIds": [instance]})
        for state in states:
            assert told(world) == [(STATE_CHANGE, state)]
            world.clock.advance(10)
    assert told(world) == []


def test_what_was_told_is_known_after_a_restart() -> None:
    world = World()
    world.ready(1)
    world.ec2.take_events()
    world.ec2.restore(world.ec2.snapshot())
    assert told(world) == []


def test_a_spot_instance_is_warned_and_ends_after_its_notice() -> None:
    world = World(nodearray("spot", interruptible=True))
    [node] = world.ready(1, array="spot")
    world.ec2.take_events()
    world.ec2.interrupt(node.instance_id)
    events = world.ec2.take_events()
    assert [one["detail-type"] for one in events] == [WARNING]
    assert heard(events) == [[], [node.instance_id]]
    world.clock.advance(NOTICE_SECONDS - 1)
    assert told(world) == []
    world.clock.advance(1)
    events = world.ec2.take_events()
    assert heard(events) == [[node.instance_id], []]
    world.clock.advance(10)
    assert told(world) == [(STATE_CHANGE, "terminated")]
    [instance] = world.compute.describe([node.instance_id]).values()
    assert "Spot instance termination" in instance.state_reason


def test_a_warned_instance_may_be_ended_before_its_notice_is_over() -> None:
    world = World(nodearray("spot", interruptible=True))
    [node] = world.ready(1, array="spot")
    world.ec2.interrupt(node.instance_id)
    world.ec2.call("TerminateInstances", {"InstanceIds": [node.instance_id]})
    world.clock.advance(10)
    [instance] = world.compute.describe([node.instance_id]).values()
    assert instance.state == "terminated"


def test_only_spot_is_interrupted() -> None:
    world = World()
    [node] = world.ready(1)
    with pytest.raises(ValueError, match="only spot"):
        world.ec2.interrupt(node.instance_id)


def test_a_pattern_that_says_more_than_lists_of_values_is_refused() -> None:
    with pytest.raises(TypeError, match="not modelled"):
        matches({"source": [{"prefix": "aws."}]}, {"source": "aws.ec2"})


def test_rules_hear_what_ends_and_not_what_boots() -> None:
    world = World()
    [node] = world.ready(1)
    assert heard(world.ec2.take_events()) == [[], []]
    world.ec2.end(node.instance_id)
    assert heard(world.ec2.take_events()) == [[node.instance_id], []]
