"""EC2's token buckets, a partition's limits, and large requests: nothing fails, and little is throttled.

The limits are a hundredth of AWS's defaults, and so are the requests: 100 nodes meet what 10,000 do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock.model.node import NodeStatus
from paddock.model.operation import DEADLINE_NS, Action, Operation, OperationState, deadline_of
from paddock.model.pace import DEFAULT_RATES, Bucket, Pace, Rate
from paddock.model.time import SECOND_NS
from paddock.ports.repository import Put, WriteConflictError
from paddock.workflow.outcome import Next
from paddock.workflow.pacing import seconds_until, take
from tests.bench.scale import Account
from tests.fakes.clock import START
from tests.fakes.world import World
from tests.template.test_state_machine import EVENTS_OF_AN_EXECUTION

if TYPE_CHECKING:
    from paddock.ports.repository import Write
    from tests.bench.scale import Run

MINUTE = 60
PART = 0.01
NODES = 100
# Of 10,000 nodes 1,000 come at once, and two a second after that.
PACED_SECONDS = 9_000 / 2
LAUNCH = DEFAULT_RATES[Bucket.LAUNCH]


@pytest.fixture
def account() -> Account:
    return Account(PART)


def nothing_failed(run: Run) -> bool:
    assert [(one.state, one.error) for one in run.operations] == [(OperationState.SUCCEEDED, "")] * len(
        run.operations
    )
    assert run.failures == []
    return not run.ec2_throttled


# Large requests.


def test_ten_thousand_nodes_come_without_an_error(account: Account) -> None:
    run = account.ask(lambda world: world.create(NODES))
    assert nothing_failed(run)
    assert {node.status for node in account.world.nodes()} == {NodeStatus.READY}
    assert PACED_SECONDS <= run.seconds <= 1.1 * PACED_SECONDS
    assert max(run.events.values()) < EVENTS_OF_AN_EXECUTION / 5
    # A throttled write waits, and is not asked for much more often than it is done.
    assert sum(run.store_throttled.values()) < 2 * run.store_calls["TransactWriteItems"]
    assert len(account.world.alive()) == NODES


def test_ten_thousand_nodes_end_without_an_error(account: Account) -> None:
    account.ask(lambda world: world.create(NODES))
    ids = [node.id for node in account.world.nodes()]
    run = account.ask(lambda world: world.terminate(ids=ids))
    assert nothing_failed(run)
    assert account.world.nodes() == []
    assert account.world.existing() == set()
    assert 9_000 / 20 <= run.seconds <= 9_000 / 20 + 10 * MINUTE
    # Each is asked for once; that is as many calls as there are portions of 500, and two for the first 1,000.
    assert run.ec2_calls["TerminateInstances"] <= 20


def test_a_virtual_cluster_of_ten_thousand_gets_all_of_them(account: Account) -> None:
    run = account.ask(lambda world: world.want("vc", x4c8g=NODES))
    assert nothing_failed(run)
    held = account.world.held("vc")
    assert (len(held.node_instances), held.pending) == (NODES, {})


@pytest.mark.parametrize("action", [Action.DEALLOCATE, Action.REIMAGE])
def test_ten_thousand_nodes_are_stopped_started_and_reimaged_without_an_error(
    account: Account, action: Action
) -> None:
    account.ask(lambda world: world.create(NODES))
    ids = [node.id for node in account.world.nodes()]
    account.clock.advance(MINUTE * MINUTE)
    assert nothing_failed(account.ask(lambda world: world.manage(action, ids=ids)))
    if action is Action.DEALLOCATE:
        run = account.ask(lambda world: world.manage(Action.START, ids=ids))
        assert nothing_failed(run)
        assert PACED_SECONDS <= run.seconds <= 1.2 * PACED_SECONDS
    assert {node.status for node in account.world.nodes()} == {NodeStatus.READY}
    assert len(account.world.alive()) == NODES


def test_many_requests_at_once_take_turns_and_none_of_them_fails(account: Account) -> None:
    """Each has half an hour by itself; together they take 75 minutes."""
    run = account.ask(*([lambda world: world.create(NODES // 10)] * 10))
    assert nothing_failed(run)
    assert len(run.operations) == 10
    assert len(account.world.alive()) == NODES
    assert PACED_SECONDS <= run.seconds <= 1.1 * PACED_SECONDS


def test_an_account_that_others_use_too_only_costs_time(account: Account) -> None:
    """They take half of what comes back, and all that there is at first."""
    account.world.rates = {bucket: Rate(10, rate.per_second) for bucket, rate in account.world.rates.items()}
    slower = {bucket.value: (10, rate.per_second / 2) for bucket, rate in account.world.rates.items()}
    account.world.ec2.rates(slower)
    run = account.ask(lambda world: world.create(NODES // 2))
    assert not nothing_failed(run)
    assert {node.status for node in account.world.nodes()} == {NodeStatus.READY}
    # A throttled launch is not asked for again at once, nor once for each of its nodes.
    assert sum(run.ec2_throttled.values()) <= run.ec2_calls["CreateFleet"]
    assert run.ec2_calls["CreateFleet"] <= 2 * NODES


def test_an_account_in_which_nothing_is_launched_any_more_ends_the_operation_in_time() -> None:
    account = Account(PART)
    account.world.ec2.rates({bucket.value: (0, 0) for bucket in Bucket})
    run = account.ask(lambda world: world.create(5))
    [operation] = run.operations
    assert operation.state is OperationState.FAILED
    assert run.seconds < (DEADLINE_NS / SECOND_NS) + 5 * MINUTE
    assert {node.uses_limits for node in account.world.nodes()} == {False}


def test_what_is_placed_together_is_launched_in_one_call() -> None:
    account = Account(PART)
    account.ask(lambda world: world.create(8))
    run = account.ask(lambda world: world.create(8, placementGroupId="ring"))
    assert nothing_failed(run)
    assert run.ec2_calls["CreateFleet"] == 1
    assert run.seconds >= 6 / account.world.rates[Bucket.LAUNCH].per_second - 5


# Deadlines.


@pytest.mark.parametrize(
    ("action", "count", "minutes"),
    [
        (Action.CREATE, 1, 30),
        (Action.CREATE, 1_000, 30),
        (Action.CREATE, 10_000, 30 + 75),
        (Action.START, 10_000, 30 + 75),
        (Action.REIMAGE, 10_000, 30 + 75 + 7.5),
        (Action.TERMINATE, 10_000, 30 + 7.5),
        (Action.REMOVE, 10_000, 30 + 7.5),
        (Action.SHUTDOWN, 10_000, 30 + 7.5),
        (Action.DEALLOCATE, 10_000, 30 + 7.5),
        (Action.RESTART, 10_000, 30),
    ],
)
def test_the_deadline_grows_with_the_request(action: Action, count: int, minutes: float) -> None:
    assert deadline_of(action, count, START) == START + minutes * MINUTE * SECOND_NS


def test_each_action_has_a_deadline() -> None:
    assert all(deadline_of(action, 1, 0) for action in Action)


def test_a_batch_that_waits_for_its_turn_moves_the_deadline_and_a_throttled_one_does_not() -> None:
    world = World()
    world.rates = {**DEFAULT_RATES, Bucket.LAUNCH: Rate(10, 0.01)}
    operation, _ = world.create(12)
    assert world.step("launch", operation.id)[0] is Next.LAUNCH
    world.step("launch", operation.id)
    waiting = world.operation(operation.id)
    assert waiting.batch is not None
    assert waiting.deadline == waiting.batch.not_before + DEADLINE_NS + 100 * SECOND_NS
    world.clock.advance(100)
    world.ec2.capacity(0, code="RequestLimitExceeded")
    world.step("launch", operation.id)
    world.step("launch", operation.id)
    throttled = world.operation(operation.id)
    assert throttled.throttled
    assert throttled.batch is not None
    assert throttled.batch.not_before > world.clock.now()
    assert throttled.deadline == waiting.deadline


# The record of the buckets.


def test_an_idle_account_has_a_thousand_at_once_and_two_a_second_after_that() -> None:
    pace = Pace()
    assert pace.room(Bucket.LAUNCH, LAUNCH, START) == 1_000
    pace = pace.taken(Bucket.LAUNCH, LAUNCH, 1_000, START)
    assert pace.room(Bucket.LAUNCH, LAUNCH, START) == 0
    assert pace.may_at(Bucket.LAUNCH, LAUNCH, 100, START) == START + 50 * SECOND_NS
    assert pace.room(Bucket.LAUNCH, LAUNCH, START + 50 * SECOND_NS) == 100
    assert pace.room(Bucket.LAUNCH, LAUNCH, START + 49 * SECOND_NS) == 98
    assert pace.room(Bucket.LAUNCH, LAUNCH, START + 500 * SECOND_NS) == 1_000
    assert pace.room(Bucket.TERMINATE, DEFAULT_RATES[Bucket.TERMINATE], START) == 1_000


def test_turns_follow_each_other() -> None:
    pace, turns = Pace().taken(Bucket.LAUNCH, LAUNCH, 1_000, START), []
    for _ in range(3):
        turns.append((pace.may_at(Bucket.LAUNCH, LAUNCH, 100, START) - START) // SECOND_NS)
        pace = pace.taken(Bucket.LAUNCH, LAUNCH, 100, START)
    assert turns == [50, 100, 150]


def test_a_bucket_that_ec2_calls_empty_is_empty_and_turns_that_were_given_stay() -> None:
    empty = Pace().emptied(Bucket.LAUNCH, LAUNCH, START)
    assert empty.room(Bucket.LAUNCH, LAUNCH, START) == 0
    owing = empty.taken(Bucket.LAUNCH, LAUNCH, 100, START)
    assert owing.emptied(Bucket.LAUNCH, LAUNCH, START) == owing


def test_what_was_not_launched_is_given_back() -> None:
    taken = Pace().taken(Bucket.LAUNCH, LAUNCH, 600, START)
    assert taken.taken(Bucket.LAUNCH, LAUNCH, -500, START).room(Bucket.LAUNCH, LAUNCH, START) == 900


@pytest.mark.parametrize(("bucket", "portion"), [(Bucket.LAUNCH, 100), (Bucket.TERMINATE, 500)])
def test_a_call_is_made_for_a_portion_or_for_all(bucket: Bucket, portion: int) -> None:
    world, rate = World(), DEFAULT_RATES[bucket]
    assert rate.portion == portion
    assert take(world.store, DEFAULT_RATES, bucket, 1_200).count == 1_000
    refused = take(world.store, DEFAULT_RATES, bucket, 1_200)
    assert (refused.count, refused.wait_seconds) == (0, portion / rate.per_second)
    world.clock.advance(refused.wait_seconds)
    assert take(world.store, DEFAULT_RATES, bucket, portion).count == portion
    world.clock.advance(1)
    assert take(world.store, DEFAULT_RATES, bucket, 1).count == 1


@pytest.mark.parametrize(
    ("ahead_ns", "seconds"), [(-1, 0), (0, 0), (1, 1), (SECOND_NS, 1), (SECOND_NS + 1, 2)]
)
def test_waits_are_whole_seconds_and_never_too_short(ahead_ns: int, seconds: int) -> None:
    assert seconds_until(START + ahead_ns, START) == seconds


def test_a_batch_is_not_launched_before_its_turn_also_when_the_task_runs_again() -> None:
    world = World()
    world.rates = {**DEFAULT_RATES, Bucket.LAUNCH: Rate(10, 1)}
    operation, _ = world.create(15)
    world.step("launch", operation.id)
    for _ in range(3):
        assert world.step("launch", operation.id)[0] is Next.WAIT
    assert len(world.alive()) == 10
    world.clock.advance(5)
    world.step("launch", operation.id)
    assert len(world.alive()) == 15


def test_two_runs_of_a_task_open_one_batch() -> None:
    """Whoever loses the race for the operation does not take from the bucket."""
    world = World()
    operation, _ = world.create(3)
    before = world.operation(operation.id)
    world.step("launch", operation.id)
    pace = world.repository.pace()
    assert pace is not None
    assert pace.full_at[Bucket.LAUNCH] <= world.clock.now() + 2 * SECOND_NS
    assert replace(world.operation(operation.id), revision=0) != replace(before, revision=0)


# What a poll looks at while a create comes up in turns.

PAST_THE_BURST = 1_300


def in_turns(world: World) -> Operation:
    """A create of which a part has come up, and the rest waits for its turns; it noted how far it is."""
    operation, _ = world.create(PAST_THE_BURST)
    task, polls = "launch", 0
    while not (current := world.operation(operation.id)).resolved_to:
        assert current.launched_to < PAST_THE_BURST
        following, seconds = world.step(task, operation.id, polls)
        world.clock.advance(seconds)
        task, polls = (following.value, polls) if following is not Next.WAIT else ("poll", polls + 1)
    return current


def test_what_came_up_is_not_looked_at_again() -> None:
    world = World()
    operation = in_turns(world)
    assert 0 < operation.resolved_to <= operation.launched_to < PAST_THE_BURST
    assert {node.status for node in world.nodes()[: operation.resolved_to]} == {NodeStatus.READY}
    ended = world.drive(operation, "poll")
    assert (ended.state, ended.succeeded) == (OperationState.SUCCEEDED, PAST_THE_BURST)


def test_a_node_that_takes_long_is_looked_at_until_it_has_come_up() -> None:
    world = World()
    operation, _ = world.create(PAST_THE_BURST)
    world.step("launch", operation.id)
    slow = world.nodes()[120]
    world.ec2._state.instances[slow.instance_id].running_at += 600
    ended = world.drive(operation, "launch")
    assert ended.state is OperationState.SUCCEEDED
    [node] = world.repository.nodes_by_id(slow.cluster, [slow.id])
    assert node.status is NodeStatus.READY
    assert ended.resolved_to < 121


def test_a_booting_node_that_another_operation_could_not_stop_is_looked_at_again() -> None:
    world = World()
    world.rates = {**DEFAULT_RATES, Bucket.LAUNCH: Rate(100, 0.02)}
    operation, _ = world.create(120)
    world.step("launch", operation.id)
    world.step("launch", operation.id)
    slow = world.nodes()[0]
    world.ec2._state.instances[slow.instance_id].running_at += 1_900
    world.ec2.fail_next("StopInstances", "InternalError", times=10_000)
    stopping, _ = world.manage(Action.DEALLOCATE, ids=[slow.id])
    world.clock.advance(10)
    world.step("poll", operation.id)
    world.drive(stopping)
    assert world.drive(operation, "poll").state is OperationState.SUCCEEDED
    assert {node.status for node in world.nodes()} == {NodeStatus.READY}


def test_a_create_waits_for_a_node_that_another_operation_brings_up_again() -> None:
    world = World()
    operation = in_turns(world)
    again, _ = world.manage(Action.REIMAGE, ids=[world.nodes()[0].id])
    task, polls = "poll", 0
    for _ in range(40):
        following, seconds = world.step(task, operation.id, polls)
        world.clock.advance(seconds)
        task, polls = (following.value, polls) if following is not Next.WAIT else ("poll", polls + 1)
    assert world.operation(operation.id).launched_to == PAST_THE_BURST
    assert world.operation(operation.id).is_running
    assert world.drive(again).state is OperationState.SUCCEEDED
    ended = world.drive(operation, "poll")
    assert (ended.state, ended.failed) == (OperationState.SUCCEEDED, 0)


def test_a_poll_that_somebody_else_overtakes_notes_nothing() -> None:
    world = World()
    operation = in_turns(world)
    commit = world.repository.commit

    def overtaken(*writes: Write) -> None:
        if any(isinstance(write, Put) and isinstance(write.record, Operation) for write in writes):
            raise WriteConflictError(writes)
        commit(*writes)

    world.step("launch", operation.id)
    world.clock.advance(50)
    world.repository.commit = overtaken  # type: ignore[method-assign]
    before = world.operation(operation.id)
    world.step("poll", operation.id)
    assert world.operation(operation.id) == before
    world.repository.commit = commit  # type: ignore[method-assign]
    assert world.drive(operation, "poll").state is OperationState.SUCCEEDED
