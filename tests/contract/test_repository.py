"""What the ``Repository`` port promises, of the fake and of the one in DynamoDB alike.

The latter runs over an emulator, over the DynamoDB in memory that counts calls, and over Amazon's DynamoDB
Local.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from paddock.adapters.dynamodb.repository import DynamoDbRepository
from paddock.errors import RecordTooLarge
from paddock.model.cluster import Cluster
from paddock.model.identity import (
    ClusterName,
    OperationId,
    RequestId,
    VirtualClusterId,
    new_operation_id,
    node_id,
)
from paddock.model.ledger import BucketUse, Ledger
from paddock.model.names import NameSet
from paddock.model.node import LaunchSpec, Node, NodeStatus, TargetState
from paddock.model.operation import Action, LaunchBatch, NodeGroup, Operation, OperationState, UsedRequestId
from paddock.model.pace import Bucket, Pace
from paddock.model.quotas import Quotas
from paddock.model.usage import UsageInterval
from paddock.model.virtual_cluster import AllocationMode, NodeInstance, VirtualCluster
from paddock.ports.repository import MAX_WRITES, Check, Delete, Put, WriteConflictError
from paddock.requests.bodies import ClusterWrite
from tests.emulator.tables import new_table
from tests.fakes.clock import START
from tests.fakes.dynamodb import FakeDynamoDb
from tests.fakes.repository import FakeRepository
from tests.fakes.world import bucket, nodearray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mypy_boto3_dynamodb import DynamoDBClient

    from paddock.ports.repository import Record, Repository, Write

DEMO = ClusterName("demo")
FREE_FORM: dict[str, Any] = {
    "text": 'Grüße, 世界 🐎 "quoted" \\ \u2028',
    "big": 2**70,
    "small": -(2**63),
    "float": 0.1,
    "tiny": 5e-324,
    "huge": 1.7976931348623157e308,
    "none": None,
    "deep": [{"": [True, False, []]}],
}


@pytest.fixture(params=["fake", "memory", "dynamodb", "oracle"])
def repository(request: pytest.FixtureRequest) -> Repository:
    if request.param == "fake":
        return FakeRepository()
    if request.param == "memory":
        client: Any = FakeDynamoDb()
        return DynamoDbRepository(client, "table")
    client = request.getfixturevalue(request.param)
    return DynamoDbRepository(client, new_table(client))


def spec(**changes: Any) -> LaunchSpec:
    usual = LaunchSpec(
        node_array="ondemand",
        bucket_id="bucket-1",
        machine_type="c7i-xlarge",
        instance_type="c7i.xlarge",
        template_id="4c8g",
        vcpu_count=4,
        memory=8.5,
        interruptible=False,
        launch_template_id="lt-0123456789abcdef0",
        launch_template_version="$Default",
        subnet_ids=("subnet-00000001", "subnet-00000002"),
    )
    return replace(usual, **changes)


def node(identity: str = "", cluster: ClusterName = DEMO, revision: int = 1, **changes: Any) -> Node:
    identity = identity or node_id(new_operation_id(START), 1)
    return Node(
        **{
            "id": identity,
            "cluster": cluster,
            "name": "ondemand-1",
            "revision": revision,
            "spec": spec(),
            "status": NodeStatus.ACQUIRING,
            **changes,
        }
    )


def nodes_of(operation: Operation, indexes: Iterable[int]) -> list[Node]:
    return [node(node_id(operation.id, index), operation.cluster) for index in indexes]


def operation(cluster: ClusterName = DEMO, **changes: Any) -> Operation:
    return Operation(
        **{
            "id": new_operation_id(START),
            "cluster": cluster,
            "action": Action.CREATE,
            "revision": 1,
            "state": OperationState.RUNNING,
            "start_time": 10,
            "deadline": 20,
            "total": 2,
            **changes,
        }
    )


def cluster(name: str = "demo", revision: int = 1) -> Cluster:
    array = nodearray("ondemand", bucket(memory=0.1), configuration=FREE_FORM)
    body = ClusterWrite.model_validate({"nodearrays": [array]})
    return Cluster(name=ClusterName(name), revision=revision, definition=body.definition())


def ledger(name: str = "demo", revision: int = 1, **changes: Any) -> Ledger:
    return Ledger(cluster=ClusterName(name), revision=revision, **changes)


def virtual_cluster(identity: str = "vc", revision: int = 1, **changes: Any) -> VirtualCluster:
    return VirtualCluster(
        id=VirtualClusterId(identity), cluster=ClusterName("demo"), revision=revision, **changes
    )


def used(request_id: str = "r", name: str = "demo") -> UsedRequestId:
    return UsedRequestId(
        request_id=RequestId(request_id),
        cluster=ClusterName(name),
        operation_id=new_operation_id(START),
        revision=1,
    )


def interval(end: int, number: int = 1, name: str = "demo", **changes: Any) -> UsageInterval:
    return UsageInterval(
        **{
            "cluster": name,
            "node_id": f"00000000-0000-4000-8000-{number:012}",
            "name": "ondemand-1",
            "node_array": "ondemand",
            "machine_type": "c7i-xlarge",
            "cores": 4,
            "price_per_hour": None,
            "interruptible": False,
            "start": 1,
            "end": end,
            "revision": 1,
            **changes,
        }
    )


def store(repository: Repository, *records: Record) -> None:
    for start in range(0, len(records), MAX_WRITES):
        repository.commit(*(Put(one, was=None) for one in records[start : start + MAX_WRITES]))


def changed(record: Any, **changes: Any) -> Any:
    return replace(record, revision=record.revision + 1, **changes)


# Round trips.

RECORDS: dict[str, tuple[Record, Callable[[Repository], Record | None]]] = {
    "cluster": (cluster("a b.c-d_E"), lambda stored: stored.cluster(ClusterName("a b.c-d_E"))),
    "ledger": (
        ledger(
            buckets={"bucket-1": BucketUse(active=2, nodes=3, placement_groups={"ring": 2})},
            names=NameSet(["x-1", "x-2", "plain"]).to_document(),
            placement_groups={"ondemand/ring": 3, "ondemand/left": 0},
            capacity_failures={"bucket-1": 1_735_000_000_123_456_789},
        ),
        lambda stored: stored.ledger(ClusterName("demo")),
    ),
    "node": (
        node(
            "00000000-0000-4000-8000-000000000001",
            revision=2**63 - 1,
            status=NodeStatus.TERMINATING,
            target_state=TargetState.TERMINATED,
            status_message=FREE_FORM["text"],
            uses_limits=False,
            placement_group_id="ring",
            request_id="~ r #1 ~",
            keep_alive=True,
            attributes=FREE_FORM,
            configuration=FREE_FORM,
            instance_id="i-0123456789abcdef0",
            hostname="ip-10-0-0-1",
            dns_name="ip-10-0-0-1.ec2.internal",
            private_ip="10.0.0.1",
            virtual_cluster="vc",
            launched_at=1_735_000_000_123_456_789,
            ready_at=2,
            unseen_since=3,
        ),
        lambda stored: next(iter(stored.nodes(ClusterName("demo"))), None),
    ),
    "operation": (
        operation(
            id="00000000-0000-4000-8000-000000000000",
            request_id="r",
            groups=(
                NodeGroup(
                    spec=spec(),
                    first=1,
                    names=NameSet(["x-1"]).to_document(),
                    may_fall_back=True,
                    keep_alive=True,
                    attributes=FREE_FORM,
                    configuration=FREE_FORM,
                ),
            ),
            offerings={"ondemand": (spec(), spec(bucket_id="bucket-2"))},
            node_ids=NameSet(["00000000-0000-4000-8000-000000000001"]).to_document(),
            batch=LaunchBatch(
                number=1,
                first=1,
                count=2,
                spec=spec(memory=0.1, price_per_hour=0.1),
                placement_group_id="ring",
            ),
            batches=1,
            errors={"a": FREE_FORM["text"]},
            error="because",
        ),
        lambda stored: stored.operation(OperationId("00000000-0000-4000-8000-000000000000")),
    ),
    "pace": (
        Pace(revision=2, full_at={Bucket.LAUNCH: START, Bucket.STOP: START + 1}),
        lambda stored: stored.pace(),
    ),
    "quotas": (
        Quotas(revision=2, asked_at=START, cores={"L-1216C47A": 1_152, "L-417A185B": 0}),
        lambda stored: stored.quotas(),
    ),
    "request": (used("~ r #1 ~"), lambda stored: stored.request(ClusterName("demo"), RequestId("~ r #1 ~"))),
    "usage interval": (
        interval(START + 2, name="a b.c-d_E", price_per_hour=0.1, interruptible=True, start=START),
        lambda stored: next(iter(stored.usage_intervals(ClusterName("a b.c-d_E"), 0)), None),
    ),
    "virtual cluster": (
        virtual_cluster(
            "V.c-1_",
            allocation_mode=AllocationMode.EXCLUSIVE,
            replica_sets={"4c8g": 2, "none": 0},
            node_instances={"n": NodeInstance(hostname="h", template_id="4c8g")},
            deleted=True,
            expires_at=2**62,
        ),
        lambda stored: stored.virtual_cluster(VirtualClusterId("V.c-1_")),
    ),
}


@pytest.mark.parametrize(("record", "read"), RECORDS.values(), ids=RECORDS)
def test_each_kind_of_record_is_read_as_it_was_written(
    repository: Repository, record: Record, read: Callable[[Repository], Record | None]
) -> None:
    assert read(repository) is None
    store(repository, record)
    found = read(repository)
    assert found == record
    # Equal is not enough: 1 == 1.0 == True.
    assert repr(found) == repr(record)


def test_what_is_not_there_is_not_found(repository: Repository) -> None:
    assert repository.cluster(ClusterName("demo")) is None
    assert repository.ledger(ClusterName("demo")) is None
    assert repository.operation(new_operation_id(START)) is None
    assert repository.quotas() is None
    assert repository.pace() is None
    assert repository.request(ClusterName("demo"), RequestId("r")) is None
    assert repository.virtual_cluster(VirtualClusterId("vc")) is None
    for found in (
        repository.clusters(),
        repository.cluster_names(),
        repository.nodes(ClusterName("demo")),
        repository.nodes_made_by(operation()),
        repository.nodes_by_id(ClusterName("demo"), [node().id]),
        repository.nodes_by_id(ClusterName("demo"), []),
        repository.requests(RequestId("r")),
        repository.running_operations(),
        repository.virtual_cluster_ids(),
        repository.usage_intervals(ClusterName("demo"), 0),
    ):
        assert list(found) == []
    assert repository.virtual_clusters() == ([], None)


# Writing on condition.


def test_a_record_is_put_only_where_there_is_none(repository: Repository) -> None:
    store(repository, ledger(revision=5))
    write = Put(ledger(revision=6), was=None)
    with pytest.raises(WriteConflictError) as conflict:
        repository.commit(write)
    assert conflict.value.writes == (write,)
    assert repository.ledger(ClusterName("demo")) == ledger(revision=5)


def test_a_record_is_replaced_where_it_is_what_the_write_was_based_on(repository: Repository) -> None:
    first = ledger()
    second = changed(first, names={"x": "1"})
    store(repository, first)
    repository.commit(Put(second, was=first))
    assert repository.ledger(ClusterName("demo")) == second


@pytest.mark.parametrize("revision", [4, 5])
def test_a_write_that_does_not_raise_the_revision_is_refused(repository: Repository, revision: int) -> None:
    """Else it would succeed, and so would the next write of somebody who had read the record before it."""
    before = ledger(revision=5)
    store(repository, before)
    with pytest.raises(ValueError, match="must raise the revision above 5"):
        repository.commit(Put(ledger(revision=revision, names={"x": "1"}), was=before))
    assert repository.ledger(ClusterName("demo")) == before


def test_a_new_record_must_have_a_revision(repository: Repository) -> None:
    with pytest.raises(ValueError, match="must raise the revision above 0"):
        repository.commit(Put(ledger(revision=0), was=None))
    assert repository.ledger(ClusterName("demo")) is None


@pytest.mark.parametrize("act", [Delete, Check, lambda was: Put(changed(was), was=was)])
def test_a_stale_write_is_refused_and_named(repository: Repository, act: Callable[[Record], Write]) -> None:
    first = ledger()
    second = changed(first)
    store(repository, first)
    repository.commit(Put(second, was=first))
    for stale in (act(first), act(ledger(ClusterName("never")))):
        with pytest.raises(WriteConflictError) as conflict:
            repository.commit(stale)
        assert conflict.value.writes == (stale,)
    assert repository.ledger(ClusterName("demo")) == second


def test_a_delete_removes_the_record_and_makes_room_for_a_new_one(repository: Repository) -> None:
    one = node()
    store(repository, one)
    repository.commit(Delete(one))
    assert repository.nodes(ClusterName("demo")) == []
    store(repository, one)
    assert repository.nodes(ClusterName("demo")) == [one]


def test_a_check_writes_nothing_and_lets_the_others_be_written(repository: Repository) -> None:
    store(repository, cluster())
    repository.commit(Check(cluster()), Put(ledger(), was=None))
    assert repository.cluster(ClusterName("demo")) == cluster()
    assert repository.ledger(ClusterName("demo")) == ledger()


def test_a_check_that_fails_holds_the_others_back(repository: Repository) -> None:
    store(repository, cluster(revision=2))
    with pytest.raises(WriteConflictError) as conflict:
        repository.commit(Check(cluster(revision=1)), Put(ledger(), was=None))
    assert conflict.value.writes == (Check(cluster(revision=1)),)
    assert repository.ledger(ClusterName("demo")) is None


def test_a_hundred_writes_are_done_together(repository: Repository) -> None:
    made = operation()
    before = nodes_of(made, range(1, 51))
    store(repository, *before)
    after = [changed(one, name="new") for one in before[:49]]
    fresh = nodes_of(made, range(51, 101))
    writes = [Put(new, was=old) for new, old in zip(after, before[:49], strict=True)]
    repository.commit(*writes, Delete(before[49]), *(Put(one, was=None) for one in fresh))
    assert repository.nodes(ClusterName("demo")) == [*after, *fresh]


def test_of_a_hundred_writes_one_that_is_stale_leaves_everything_untouched(repository: Repository) -> None:
    made = operation()
    before = nodes_of(made, range(1, 51))
    store(repository, *before)
    stale = Put(changed(changed(before[30])), was=changed(before[30]))
    writes = [Put(changed(one), was=one) for one in before[:30]]
    deletes = [Delete(one) for one in before[31:]]
    fresh = [Put(one, was=None) for one in nodes_of(made, range(51, 101))]
    with pytest.raises(WriteConflictError) as conflict:
        repository.commit(*writes, stale, *deletes, *fresh)
    assert conflict.value.writes == (stale,)
    assert repository.nodes(ClusterName("demo")) == before


def test_a_conflict_names_exactly_the_writes_that_lost(repository: Repository) -> None:
    made = operation()
    there = nodes_of(made, range(1, 5))
    store(repository, *there)
    good: list[Write] = [Put(changed(there[0]), was=there[0]), Delete(there[1]), Put(node(), was=None)]
    bad: list[Write] = [
        Put(changed(changed(there[2])), was=changed(there[2])),
        Put(there[3], was=None),
        Check(nodes_of(made, [9])[0]),
    ]
    with pytest.raises(WriteConflictError) as conflict:
        repository.commit(good[0], bad[0], good[1], bad[1], good[2], bad[2])
    assert conflict.value.writes == tuple(bad)
    repository.commit(*good)


def test_a_record_that_is_too_large_is_told_and_nothing_is_written(repository: Repository) -> None:
    # In bytes, not in characters.
    large = node(status_message="世" * 140_000)
    with pytest.raises(RecordTooLarge):
        repository.commit(Put(ledger(), was=None), Put(large, was=None))
    assert repository.ledger(ClusterName("demo")) is None
    assert repository.nodes(ClusterName("demo")) == []


def test_a_record_just_below_the_limit_is_written(repository: Repository) -> None:
    large = node(status_message="x" * 388_000)
    store(repository, large)
    assert repository.nodes(ClusterName("demo")) == [large]


# Reading.


def test_clusters_come_by_name(repository: Repository) -> None:
    names = ["b", "a", "demo 2", "demo", "Z", "demo2"]
    store(repository, *(cluster(name) for name in names), ledger(ClusterName("a")), virtual_cluster("a"))
    assert [one.name for one in repository.clusters()] == sorted(names)
    assert [one.name for one in repository.clusters("b")] == ["demo", "demo 2", "demo2"]
    assert [one.name for one in repository.clusters("c")] == ["demo", "demo 2", "demo2"]
    assert repository.cluster_names() == sorted(names)


def test_nodes_come_by_id_and_of_their_cluster_alone(repository: Repository) -> None:
    names = ["demo", "demo 2", "demo2", "dem", "demo#NODE"]
    made = {name: nodes_of(operation(ClusterName(name)), range(1, 4)) for name in names}
    store(repository, *(one for nodes in made.values() for one in reversed(nodes)))
    store(repository, *(ledger(name) for name in names))
    for name in names:
        assert repository.nodes(ClusterName(name)) == made[name]


def test_nodes_of_a_create_are_those_that_it_made(repository: Repository) -> None:
    first = operation(id="00000000-0000-4000-8000-000000000000")
    second = operation(id="00000000-0000-4000-8000-000000100000")
    elsewhere = replace(first, cluster=ClusterName("demo 2"))
    made = {one.cluster + one.id: nodes_of(one, range(1, 4)) for one in (first, second, elsewhere)}
    store(repository, *(one for nodes in made.values() for one in nodes))
    for one in (first, second, elsewhere):
        assert repository.nodes_made_by(one) == made[one.cluster + one.id]


def test_some_nodes_of_a_create_are_those_of_their_places(repository: Repository) -> None:
    """Whatever is missing there, and whatever others made stands beside them."""
    before = operation(id="00000000-0000-4000-8000-000000000000", total=12)
    made = operation(id="00000000-0000-4000-8000-000000100000", total=12)
    after = operation(id="00000000-0000-4000-8000-000000200000", total=12)
    nodes = nodes_of(made, [1, 2, 3, 5, 10, 11, 12])
    store(repository, *nodes_of(before, range(1, 13)), *nodes, *nodes_of(after, range(1, 13)))
    for first in range(14):
        for count in (0, 1, 2, 5, 12, 99_999):
            expected = [one for one in nodes if first < int(one.id[-5:]) <= first + count]
            assert repository.nodes_made_by(made, first, count) == expected
    assert repository.nodes_made_by(made, 3) == nodes[3:]


def test_thousands_of_nodes_are_read_whole_and_in_order(repository: Repository) -> None:
    made = operation()
    # More than two pages of 1 MB.
    nodes = [replace(one, status_message="x" * 1_500) for one in nodes_of(made, range(1, 1_201))]
    store(repository, *reversed(nodes))
    assert repository.nodes(ClusterName("demo")) == nodes
    assert repository.nodes_made_by(made) == nodes


@pytest.mark.parametrize("limit", [1, 2, 6, 7, 8, 100])
def test_pages_hold_each_node_of_the_cluster_exactly_once_and_in_order(
    repository: Repository, limit: int
) -> None:
    first = operation(id="00000000-0000-4000-8000-000000000000")
    second = operation(id="00000000-0000-4000-8000-000000100000")
    made = [*nodes_of(first, range(1, 5)), *nodes_of(second, range(1, 4))]
    elsewhere = nodes_of(replace(first, cluster=ClusterName("demo 2")), range(1, 10))
    store(repository, *reversed(made), *elsewhere, ledger(ClusterName("demo")), ledger("demo 2"))
    pages: list[Node] = []
    after = ""
    while found := repository.nodes(ClusterName("demo"), limit, after):
        assert len(found) == limit or len(pages) + len(found) == len(made)
        pages += found
        after = found[-1].id
    assert pages == made
    assert repository.nodes(ClusterName("demo"), None, made[2].id) == made[3:]
    assert repository.nodes(ClusterName("demo"), 1, "f" * 8 + made[0].id[8:]) == []


def test_pages_hold_nodes_that_stay_exactly_once_while_others_come_and_go(repository: Repository) -> None:
    made = operation(id="00000000-0000-4000-8000-000000000000")
    nodes = nodes_of(made, [1, 2, 4, 5, 7, 8])
    store(repository, *nodes)
    first = repository.nodes(ClusterName("demo"), 2)
    # What came before the place where reading goes on is missed, what comes after it is not.
    repository.commit(Delete(nodes[1]), Delete(nodes[3]), *(Put(new, None) for new in nodes_of(made, [3, 6])))
    rest = repository.nodes(ClusterName("demo"), 10, first[-1].id)
    indexes = [int(one.id[-1]) for one in [*first, *rest]]
    assert indexes == [1, 2, 3, 4, 6, 7, 8]


def test_large_pages_of_nodes_are_read_over_several_answers(repository: Repository) -> None:
    nodes = [replace(one, status_message="x" * 1_500) for one in nodes_of(operation(), range(1, 1_201))]
    store(repository, *nodes)
    assert repository.nodes(ClusterName("demo"), 1_100, nodes[49].id) == nodes[50:1_150]


@pytest.mark.parametrize("count", [1, 99, 100, 101, 250])
def test_any_number_of_nodes_is_found_by_id(repository: Repository, count: int) -> None:
    made = operation()
    nodes = nodes_of(made, range(1, 251))
    store(repository, *nodes)
    ids = [one.id for one in reversed(nodes[:count])]
    unknown = [node_id(made.id, 999), node_id(new_operation_id(START), 1)]
    assert repository.nodes_by_id(ClusterName("demo"), [*ids, *unknown, *ids]) == nodes[:count]
    assert list(repository.nodes_by_id(ClusterName("demo 2"), ids)) == []


def test_large_nodes_are_found_by_id_too(repository: Repository) -> None:
    made = operation()
    # Together more than the 16 MB of one answer.
    nodes = [replace(one, status_message="x" * 300_000) for one in nodes_of(made, range(1, 71))]
    for one in nodes:
        store(repository, one)
    assert repository.nodes_by_id(ClusterName("demo"), [one.id for one in nodes]) == nodes


class Stingy:
    """A client that answers three keys of a batch at a time, and in no order, as DynamoDB may."""

    def __init__(self, client: DynamoDBClient) -> None:
        self._client = client

    def batch_get_item(self, RequestItems: dict[str, Any]) -> dict[str, Any]:  # noqa: N803 - DynamoDB's name
        [(table, asked)] = RequestItems.items()
        first: Any = {table: {**asked, "Keys": asked["Keys"][:3]}}
        rest = {table: {**asked, "Keys": asked["Keys"][3:]}} if asked["Keys"][3:] else {}
        answer = self._client.batch_get_item(RequestItems=first)
        return {"Responses": {table: answer["Responses"][table][::-1]}, "UnprocessedKeys": rest}


def test_nodes_that_a_batch_left_out_are_asked_for_again_and_all_come_in_order(
    dynamodb: DynamoDBClient, table: str
) -> None:
    nodes = nodes_of(operation(), range(1, 9))
    store(DynamoDbRepository(dynamodb, table), *nodes)
    stingy: Any = Stingy(dynamodb)
    found = DynamoDbRepository(stingy, table).nodes_by_id(ClusterName("demo"), [one.id for one in nodes])
    assert found == nodes


def test_a_request_id_is_known_by_cluster_and_in_all_of_them(repository: Repository) -> None:
    mine, other, longer = used("r", "demo"), used("r", "demo 2"), used("r2", "demo")
    store(repository, mine, other, longer)
    assert repository.request(ClusterName("demo"), RequestId("r")) == mine
    assert repository.request(ClusterName("demo 2"), RequestId("r")) == other
    assert repository.requests(RequestId("r")) == [mine, other]
    assert repository.requests(RequestId("r2")) == [longer]


def test_running_operations_follow_the_state(repository: Repository) -> None:
    made = [operation(), operation(ClusterName("demo 2"), action=Action.TERMINATE), operation()]
    ended = operation(state=OperationState.FAILED)
    store(repository, *made, ended)
    assert sorted(repository.running_operations()) == sorted(one.id for one in made)
    repository.commit(
        Put(changed(made[0], state=OperationState.SUCCEEDED), was=made[0]),
        Put(changed(made[1], attempt=2), was=made[1]),
        Delete(made[2]),
    )
    assert list(repository.running_operations()) == [made[1].id]


def test_usage_intervals_come_by_their_ends_and_of_their_cluster_alone(repository: Repository) -> None:
    ends = [9, 10, 99, 100, START, START + 1, 10**19]
    made = [interval(end, number) for end in ends for number in (1, 2)]
    elsewhere = interval(50, name="demo 2")
    store(repository, *reversed(made), elsewhere, ledger(), node())
    assert repository.usage_intervals(ClusterName("demo"), 0) == made
    assert repository.usage_intervals(ClusterName("demo 2"), 0) == [elsewhere]


@pytest.mark.parametrize("moment", [99, 100, 101, START])
def test_usage_intervals_are_those_that_ended_later(repository: Repository, moment: int) -> None:
    made = [interval(end, number) for end in (99, 100, 101, START + 1) for number in (1, 2)]
    store(repository, *made)
    found = repository.usage_intervals(ClusterName("demo"), moment)
    assert found == [one for one in made if one.end > moment]


def test_thousands_of_usage_intervals_are_read_whole(repository: Repository) -> None:
    # More than a page of 1 MB.
    made = [interval(START + number, number, machine_type="x" * 1_000) for number in range(1_200)]
    store(repository, *made)
    assert repository.usage_intervals(ClusterName("demo"), START + 99) == made[100:]


def test_a_deleted_virtual_cluster_is_remembered_but_not_listed(repository: Repository) -> None:
    gone = virtual_cluster("b", deleted=True, expires_at=2**62)
    store(repository, virtual_cluster("a"), gone, virtual_cluster("c"))
    assert repository.virtual_cluster(VirtualClusterId("b")) == gone
    found, after = repository.virtual_clusters()
    assert [one.id for one in found] == ["a", "c"]
    assert after is None
    assert repository.virtual_cluster_ids() == ["a", "c"]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 100, None])
def test_pages_hold_each_virtual_cluster_exactly_once_and_in_order(
    repository: Repository, limit: int | None
) -> None:
    ids = ["A", "a", "a-b", "a.b", "a0", "ab", "b", "b2"]
    tombstones = ["0", "a-a", "z"]
    store(repository, *(virtual_cluster(one) for one in ids))
    store(repository, *(virtual_cluster(one, deleted=True) for one in tombstones))
    pages, after = [], ""
    while True:
        found, following = repository.virtual_clusters(limit, after)
        assert limit is None or len(found) <= limit
        pages += [one.id for one in found]
        if following is None:
            break
        assert found
        after = following
    assert pages == sorted(ids)


def test_a_page_goes_on_after_an_id_that_is_gone_meanwhile(repository: Repository) -> None:
    store(repository, *(virtual_cluster(one) for one in "abc"))
    [first], after = repository.virtual_clusters(1)
    repository.commit(Delete(first))
    assert after is not None
    assert [one.id for one in repository.virtual_clusters(None, after)[0]] == ["b", "c"]


# Many at once.


def test_conditional_increments_by_many_threads_end_exact(repository: Repository) -> None:
    store(repository, ledger())
    start = threading.Barrier(16)

    def increment(_: int) -> None:
        start.wait()
        for _each in range(5):
            done = False
            while not done:
                done = _move(repository, {"demo": 1})

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(increment, range(16)))
    uses_limits = repository.ledger(ClusterName("demo"))
    assert uses_limits is not None
    assert uses_limits.use("bucket").nodes == 16 * 5
    assert uses_limits.revision == 1 + 16 * 5


def test_moves_between_two_records_keep_their_sum(repository: Repository) -> None:
    names = ("demo", "demo 2")
    use = {"bucket": BucketUse(nodes=100)}
    store(repository, *(ledger(name, buckets=use) for name in names))
    start = threading.Barrier(2)

    def move(there: int) -> int:
        start.wait()
        changes = {names[0]: there, names[1]: -there}
        return sum(_move(repository, changes) for _ in range(60))

    with ThreadPoolExecutor(2) as pool:
        forth, back = pool.map(move, (1, -1))
    left, right = (repository.ledger(ClusterName(name)) for name in names)
    assert left is not None
    assert right is not None
    assert left.use("bucket").nodes == 100 + forth - back
    assert right.use("bucket").nodes == 100 - forth + back
    assert left.revision == right.revision == 1 + forth + back
    assert forth + back > 0


def test_of_many_that_create_the_same_record_one_wins(repository: Repository) -> None:
    start = threading.Barrier(8)

    def create(_: int) -> bool:
        one = used("r")
        start.wait()
        try:
            repository.commit(Put(one, was=None), Put(node(), was=None))
        except WriteConflictError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(create, range(8))) == 1
    assert len(repository.nodes(ClusterName("demo"))) == 1


def _move(repository: Repository, changes: dict[str, int]) -> bool:
    """Read the ledgers, and write them changed in one transaction; tells whether nobody was faster."""
    writes = []
    for name, nodes in changes.items():
        was = repository.ledger(ClusterName(name))
        assert was is not None
        use = was.use("bucket").changed(nodes=nodes)
        writes.append(Put(replace(was.with_use("bucket", use), revision=was.revision + 1), was=was))
    try:
        repository.commit(*writes)
    except WriteConflictError:
        return False
    return True
