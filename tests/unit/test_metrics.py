"""What the real handlers write as metrics, over a DynamoDB, an EC2 and a workflow in memory."""

from __future__ import annotations

import importlib
import json
from collections import defaultdict
from dataclasses import asdict, dataclass, fields, replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from paddock import bootstrap
from paddock.errors import Busy
from paddock.model.identity import VirtualClusterId
from paddock.model.node_lifecycle import claimed_for, failed
from paddock.model.operation import DEADLINE_NS
from paddock.model.time import SECOND_NS
from paddock.observability import Metric, count, logger, observed
from paddock.ports.repository import Put, WriteConflictError
from paddock.reconcile.expiration import STUCK_AFTER_NS
from paddock.reconcile.run import Report
from paddock.tasks import task
from schedule.reconcile_work_item import METRICS
from tests.fakes.api import Context
from tests.fakes.dynamodb import FakeDynamoDb
from tests.fakes.work_queue import FakeWorkQueue
from tests.fakes.world import CLUSTER, REGION, World, nodearray
from tests.unit.test_events import event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aws_lambda_powertools.utilities.typing import LambdaContext

    from paddock.model.identity import OperationId
    from paddock.workflow.outcome import Outcome

ROOT = Path(__file__).parents[2]
STUCK_SECONDS = (DEADLINE_NS + STUCK_AFTER_NS) / SECOND_NS
NAMESPACE = "Paddock/test"
ALL = {"service": "paddock"}
OF_THE_CLUSTER = {"service": "paddock", "cluster": CLUSTER}
# A metric by cluster has its price for each cluster: it is for what an operator asks of one cluster.
BY_CLUSTER = {
    Metric.OPERATIONS_SUCCEEDED,
    Metric.OPERATIONS_PARTIALLY_SUCCEEDED,
    Metric.OPERATIONS_FAILED,
    Metric.NODES_LAUNCHED,
    Metric.NODES_FAILED,
    Metric.NODES_LOST,
    Metric.NODES_INTERRUPTED,
}


@dataclass
class Watched:
    """A world whose handlers run for real, and what they print."""

    world: World
    capture: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def call(self, handler: str, given: dict[str, Any]) -> Any:
        return importlib.import_module(handler).handler(given, Context())

    def task(self, name: str, operation_id: OperationId) -> None:
        self.call(f"workflow.{name}", {"operationId": operation_id, "polls": 0})

    def create(self, count: int = 1, array: str = "ondemand") -> OperationId:
        given = event("api/create_nodes")
        given |= {"body": json.dumps({"sets": [{"count": count, "nodearray": array}]})}
        operation_id: OperationId = json.loads(self.call("api.create_nodes", given)["body"])["operationId"]
        return operation_id

    def ready(self, count: int = 1, array: str = "ondemand") -> OperationId:
        operation_id = self.create(count, array)
        self.task("launch", operation_id)
        self.world.clock.advance(60)
        for name in ("poll", "finish"):
            self.task(name, operation_id)
        return operation_id

    def reconcile(self) -> None:
        """One whole run, with its parts one after another."""
        queue = FakeWorkQueue()
        self.monkeypatch.setattr(bootstrap, "work_queue", lambda: queue)
        self.call("schedule.reconcile", event("reconcile"))
        for item in queue.take():
            self.call("schedule.reconcile_work_item", {"Records": [{"body": json.dumps(asdict(item))}]})

    def emitted(self) -> dict[str, list[tuple[dict[str, str], str, float]]]:
        """By metric: the dimensions, the unit, and the sum of each line's values."""
        found = defaultdict(list)
        for line in self.capture.readouterr().out.splitlines():
            document = json.loads(line)
            for directive in document.get("_aws", {}).get("CloudWatchMetrics", []):
                assert directive["Namespace"] == NAMESPACE
                [names] = directive["Dimensions"]
                for metric in directive["Metrics"]:
                    name = metric["Name"]
                    dimensions = {one: document[one] for one in names}
                    found[name].append((dimensions, metric["Unit"], sum(document[name])))
        return found


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Watched]:
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", NAMESPACE)
    monkeypatch.setenv("TABLE_NAME", "table")
    monkeypatch.setenv("AWS_REGION", REGION)
    store: Any = FakeDynamoDb()
    # The client comes from a fake, and the repository is the one that the functions have.
    monkeypatch.setattr("boto3.client", lambda *_, **__: store)
    for cached in (bootstrap.repository, bootstrap.settings):
        cached.cache_clear()
    world = World()
    monkeypatch.setattr(bootstrap, "clock", lambda: world.clock)
    for name in ("compute", "patient_compute"):
        monkeypatch.setattr(bootstrap, name, lambda: world.compute)
    monkeypatch.setattr(bootstrap, "workflows", lambda: world.workflows)
    monkeypatch.setattr(bootstrap, "account_quotas", lambda: world.quotas)
    real: Any = bootstrap.repository()
    world.repository = real
    world.put({"nodearrays": [nodearray(), nodearray("spot", interruptible=True)]})
    yield Watched(world, capsys, monkeypatch)
    for cached in (bootstrap.repository, bootstrap.settings):
        cached.cache_clear()


def succeed(watched: Watched) -> None:
    watched.ready(1)


def launch_three(watched: Watched) -> None:
    watched.ready(3)


def be_short(capacity: int) -> Callable[[Watched], None]:
    def run(watched: Watched) -> None:
        watched.world.ec2.capacity(capacity)
        watched.ready(2)

    return run


def lose(array: str) -> Callable[[Watched], None]:
    def run(watched: Watched) -> None:
        watched.ready(2, array)
        node, _ = watched.world.nodes()
        gone = failed(node, "its instance ended")
        notice = observed(lambda *_: watched.world.store.commit(Put(gone, was=node)))
        notice({}, cast("LambdaContext", Context()))

    return run


def leave_without_execution(after_seconds: float) -> Callable[[Watched], None]:
    def run(watched: Watched) -> None:
        watched.world.workflows.unavailable = True
        watched.create()
        watched.world.workflows.unavailable = False
        watched.world.clock.advance(after_seconds)
        watched.reconcile()

    return run


def fail_to_reconcile(watched: Watched) -> None:
    watched.create()
    watched.world.clock.advance(60)
    watched.world.workflows.unavailable = True
    watched.reconcile()


def leave_a_placement_group(watched: Watched) -> None:
    operation, _ = watched.world.create(1, placementGroupId="ring")
    watched.world.drive(operation)
    watched.world.ec2.fail_next("DeletePlacementGroup", "RequestLimitExceeded")
    operation, _ = watched.world.terminate(names=["ondemand-1"])
    watched.world.drive(operation)
    watched.reconcile()


def launch_again_for_a_virtual_cluster(watched: Watched) -> None:
    world = watched.world
    world.ec2.capacity(0)
    world.drive(world.operation(world.want("vc", x4c8g=1).operation_id))
    world.clock.advance(60)
    watched.reconcile()


def leave_a_claim(watched: Watched) -> None:
    watched.ready(1)
    [node] = watched.world.nodes()
    watched.world.store.commit(
        Put(claimed_for(node, VirtualClusterId("gone"), "gone", watched.world.clock.now()), was=node)
    )
    watched.world.clock.advance(120)
    watched.reconcile()


def stop_by_hand(watched: Watched) -> None:
    watched.ready(1)
    watched.world.ec2.call("StopInstances", {"InstanceIds": sorted(watched.world.alive())})
    watched.world.clock.advance(120)
    watched.reconcile()


def leave_idle(watched: Watched) -> None:
    stored = watched.world.repository.cluster(CLUSTER)
    assert stored is not None
    watched.world.put({"nodearrays": [nodearray()], "idleTimeoutSeconds": 60}, stored.revision)
    watched.ready(2)
    watched.world.claim("a", x4c8g=2)
    watched.world.release("a")
    watched.world.clock.advance(60)
    watched.reconcile()


def lose_count(watched: Watched) -> None:
    watched.ready(1)
    ledger = watched.world.repository.ledger(CLUSTER)
    assert ledger is not None
    wrong = replace(ledger, buckets={})
    watched.world.store.commit(Put(wrong, was=ledger))
    watched.world.clock.advance(180)
    watched.reconcile()


def launch_what_comes_into_sight_too_late(watched: Watched) -> None:
    watched.world.ec2.configure(describe_lag_seconds=400)
    operation_id = watched.create(2)
    watched.task("launch", operation_id)
    watched.task("poll", operation_id)
    watched.world.clock.advance(350)
    watched.task("poll", operation_id)
    watched.world.clock.advance(100)
    watched.task("finish", operation_id)


def put_with_a_wrong_revision(watched: Watched) -> None:
    given = event("api/put_cluster")
    assert watched.call("api.put_cluster", {**given, "body": REWRITTEN})["statusCode"] == 409


def lose_every_race(watched: Watched) -> None:
    def busy(*_: Any) -> None:
        raise Busy("others were faster")

    watched.monkeypatch.setattr(bootstrap, "put_cluster", busy)
    given = event("api/put_cluster")
    assert watched.call("api.put_cluster", given)["statusCode"] == 503


def hide_the_quotas(watched: Watched) -> None:
    watched.world.ec2.fail_next("ListServiceQuotas", "AccessDeniedException")
    watched.reconcile()


def present_nothing(watched: Watched) -> None:
    watched.monkeypatch.setattr(bootstrap, "authenticated_user", lambda _: None)
    with pytest.raises(Exception, match=r"^Unauthorized$"):
        watched.call("authorizer.basic", event("authorizer"))


def lose_the_secret(watched: Watched) -> None:
    def denied(_: str) -> None:
        raise PermissionError("no secret for you")

    watched.monkeypatch.setattr(bootstrap, "authenticated_user", denied)
    with pytest.raises(PermissionError):
        watched.call("authorizer.basic", event("authorizer"))


REWRITTEN = json.dumps({"nodearrays": [nodearray()], "revision": 7})
# What happens, and what the metric is then.
SCENARIOS: dict[Metric, tuple[Callable[[Watched], None], float]] = {
    Metric.OPERATIONS_STARTED: (succeed, 1),
    Metric.OPERATIONS_SUCCEEDED: (succeed, 1),
    Metric.OPERATION_SECONDS: (succeed, 60),
    Metric.OPERATIONS_PARTIALLY_SUCCEEDED: (be_short(1), 1),
    Metric.OPERATIONS_FAILED: (be_short(0), 1),
    Metric.OPERATIONS_RUNNING: (leave_without_execution(0), 1),
    Metric.OPERATIONS_RESUMED: (leave_without_execution(60), 1),
    Metric.OPERATIONS_EXPIRED: (leave_without_execution(STUCK_SECONDS - 1), 1),
    Metric.OPERATIONS_STUCK: (leave_without_execution(STUCK_SECONDS), 1),
    Metric.RECONCILE_FAILURES: (fail_to_reconcile, 1),
    Metric.PLACEMENT_GROUPS_TIDIED: (leave_a_placement_group, 1),
    Metric.VIRTUAL_CLUSTERS_RELAUNCHED: (launch_again_for_a_virtual_cluster, 1),
    Metric.CLAIMS_RELEASED: (leave_a_claim, 1),
    Metric.INSTANCES_NOTICED: (stop_by_hand, 1),
    Metric.NODES_IDLE: (leave_idle, 2),
    Metric.LEDGERS_MENDED: (lose_count, 1),
    Metric.QUOTAS_UNREAD: (hide_the_quotas, 1),
    Metric.NODES_LAUNCHED: (launch_three, 3),
    Metric.NODES_FAILED: (be_short(0), 2),
    Metric.NODES_LOST: (lose("ondemand"), 1),
    Metric.NODES_INTERRUPTED: (lose("spot"), 1),
    Metric.INSTANCES_LEAKED: (launch_what_comes_into_sight_too_late, 2),
    Metric.REVISION_CONFLICTS: (put_with_a_wrong_revision, 1),
    Metric.RACES_LOST: (lose_every_race, 1),
    Metric.CREDENTIALS_REJECTED: (present_nothing, 1),
    Metric.AUTHORIZER_ERRORS: (lose_the_secret, 1),
}


@pytest.mark.parametrize("metric", Metric)
def test_a_metric_is_written_when_what_it_counts_happens(watched: Watched, metric: Metric) -> None:
    happen, number = SCENARIOS[metric]
    happen(watched)
    unit = "Seconds" if metric is Metric.OPERATION_SECONDS else "Count"
    scopes = [ALL, OF_THE_CLUSTER] if metric in BY_CLUSTER else [ALL]
    found = [line for line in watched.emitted()[metric] if line[-1]]
    assert sorted(found, key=lambda line: len(line[0])) == [(scope, unit, number) for scope in scopes]


def test_a_quiet_run_says_so_in_every_number_that_alarms_look_at(watched: Watched) -> None:
    watched.reconcile()
    found = watched.emitted()
    assert found.keys() == {*METRICS.values(), Metric.QUOTAS_UNREAD}
    assert all(lines == [(ALL, "Count", 0)] for lines in found.values())


def test_nothing_bad_is_counted_when_all_goes_well(watched: Watched) -> None:
    watched.ready(2)
    assert watched.emitted().keys() == {
        Metric.OPERATIONS_STARTED,
        Metric.OPERATIONS_SUCCEEDED,
        Metric.OPERATION_SECONDS,
        Metric.NODES_LAUNCHED,
    }


def test_a_write_that_is_refused_counts_nothing(watched: Watched) -> None:
    watched.ready(1)
    watched.emitted()
    [node] = watched.world.nodes()
    stale = replace(node, revision=node.revision - 1)
    gone = failed(node, "its instance ended")
    notice = observed(lambda *_: watched.world.store.commit(Put(gone, was=stale)))
    with pytest.raises(WriteConflictError):
        notice({}, cast("LambdaContext", Context()))
    assert watched.emitted() == {}


def test_what_a_failing_task_did_is_counted(watched: Watched) -> None:
    operation_id = watched.create(1)
    watched.emitted()
    launch = bootstrap.launch_step

    def die_afterwards(operation: OperationId, polls: int) -> Outcome:
        launch(operation, polls)
        raise MemoryError

    handlers = importlib.import_module("workflow.launch")
    watched.monkeypatch.setattr(handlers, "handler", task(die_afterwards))
    with pytest.raises(MemoryError):
        watched.task("launch", operation_id)
    assert watched.emitted()[Metric.NODES_LAUNCHED] == [(OF_THE_CLUSTER, "Count", 1), (ALL, "Count", 1)]


def test_lines_about_an_operation_have_its_id_under_one_key(watched: Watched) -> None:
    """The command in docs/operations.md to follow an operation through the log looks for it."""
    log = StringIO()
    watched.monkeypatch.setattr(logger.registered_handler, "stream", log)
    operation_id = watched.create(1)
    watched.world.clock.advance(STUCK_SECONDS)
    watched.task("poll", operation_id)
    watched.call(
        "api.get_operation", event("api/get_operation") | {"pathParameters": {"operation": operation_id}}
    )
    watched.reconcile()
    logged = [json.loads(line) for line in log.getvalue().splitlines()]
    about = {line["message"] for line in logged if line.get("operation_id") == operation_id}
    assert about == {"stepped", "answered", "operation stuck", "node failed", "reconciled"}


def test_a_node_that_is_ended_at_the_warning_is_interrupted_once(watched: Watched) -> None:
    watched.ready(2, "spot")
    watched.emitted()
    body = {
        "detail-type": "EC2 Spot Instance Interruption Warning",
        "detail": {"instance-id": watched.world.nodes()[0].instance_id},
    }
    for _ in range(2):
        watched.call("schedule.instance_events", {"Records": [{"messageId": "1", "body": json.dumps(body)}]})
    found = watched.emitted()[Metric.NODES_INTERRUPTED]
    assert sorted(found, key=lambda line: len(line[0])) == [(ALL, "Count", 1), (OF_THE_CLUSTER, "Count", 1)]


def test_more_values_than_one_line_takes_are_all_counted(watched: Watched) -> None:
    def handler(*_: object) -> None:
        for _number in range(200):
            count(Metric.NODES_LAUNCHED)

    observed(handler)({}, cast("LambdaContext", Context()))
    assert [number for _, _, number in watched.emitted()[Metric.NODES_LAUNCHED]] == [100, 100]


def test_each_number_of_a_report_has_a_metric() -> None:
    assert {field.name for field in fields(Report)} == METRICS.keys()


@pytest.mark.parametrize("path", sorted((ROOT / "functions").rglob("*.py")), ids=lambda path: path.stem)
def test_every_handler_writes_its_metrics(path: Path) -> None:
    """A handler that takes the logger's decorator alone would leave its metrics to the next invocation."""
    assert "inject_lambda_context" not in path.read_text(encoding="utf-8")
