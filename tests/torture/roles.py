"""What the processes do until they are killed: clients ask, workers do tasks, reconcilers reconcile."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from paddock.clusters.write import delete_cluster, put_cluster
from paddock.errors import (
    DuplicateRequest,
    PaddockError,
    Transient,
)
from paddock.model.identity import ClusterName, VirtualClusterId
from paddock.model.operation import Action
from paddock.nodes.create import create_nodes
from paddock.nodes.manage import manage_nodes
from paddock.ports.repository import WriteConflictError
from paddock.reconcile.enqueue import enqueue
from paddock.reconcile.run import reconcile
from paddock.requests.bodies import (
    ClusterWrite,
    NodeCreationRequest,
    NodeManagementRequest,
    VirtualClusterWrite,
)
from paddock.virtual_clusters.write import delete_virtual_cluster, get_virtual_cluster, write_virtual_cluster
from paddock.workflow.finish import finish
from paddock.workflow.launch import launch
from paddock.workflow.outcome import Next
from paddock.workflow.poll import poll
from paddock.workflow.terminate import terminate
from tests.fakes.work_queue import FakeWorkQueue
from tests.fakes.world import bucket, nodearray
from tests.torture.clock import SPEED
from tests.torture.process import REGION, Process, Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.model.identity import OperationId

# What may come again later: a task that ends so is tried again; a client cannot know whether it was done.
PASSING = (Transient, WriteConflictError)
CLUSTERS = (ClusterName("demo"), ClusterName("side"))
VIRTUAL_CLUSTERS = tuple(f"team-{number}" for number in range(3))
MAX_NODES = 20
DEFINITION = ClusterWrite.model_validate(
    {
        "maxCount": MAX_NODES,
        "nodearrays": [
            nodearray("ondemand", bucket(maxCount=16), bucket("c7i-2xlarge", templateId="8c16g", maxCount=6))
        ],
    }
)
BETWEEN_ROUNDS_SECONDS = 20
REQUEST_IDS = 6
TOGETHER, MEETING_SECONDS = 0.6, 0.2


def run_client(run: Run, name: str, number: int, life: int) -> None:
    """Ask at random, and write down what was asked and answered."""
    client = _Client(Process(run, name, number, life))
    while Process.is_wanted():
        client.act()
        time.sleep(0.02)


def run_worker(run: Run, name: str, number: int, life: int) -> None:
    """Do the tasks of executions."""
    process = Process(run, name, number, life)
    while Process.is_wanted():
        task = process.workflows.take()
        if task is None:
            time.sleep(0.02)
            continue
        try:
            outcome = _step(process, task.step, task.operation_id, task.polls)
        except PASSING as error:
            process.tell("task failed", step=task.step, error=type(error).__name__)
            process.workflows.fail(task)
        except Exception as error:  # noqa: BLE001 - it is a bug, and written down as one
            process.tell_bug(f"{task.step} of {task.operation_id}", error)
            process.workflows.fail(task)
        else:
            if outcome.next is Next.DONE:
                process.workflows.end(task)
            elif outcome.next is Next.WAIT:
                process.workflows.go_on(task, "poll", task.polls + 1, outcome.wait_seconds)
            else:
                process.workflows.go_on(task, str(outcome.next), task.polls, 0)


def run_reconciler(run: Run, name: str, number: int, life: int) -> None:
    """Reconcile all there is, again and again."""
    process = Process(run, name, number, life)
    while Process.is_wanted():
        reconcile_all(process)
        time.sleep(process.choose.uniform(0.5, 1.5) * BETWEEN_ROUNDS_SECONDS / SPEED)


def reconcile_all(process: Process) -> int:
    """One run of the reconciler; answers how many parts it had."""
    queue = FakeWorkQueue()
    try:
        enqueue(process.repository, process.compute, queue)
        todo = queue.take()
        process.choose.shuffle(todo)
        for item in todo:
            reconcile(process.store, process.compute, process.workflows, item)
    except PASSING as error:
        process.tell("round failed", error=type(error).__name__)
        return -1
    except Exception as error:  # noqa: BLE001
        process.tell_bug("reconcile", error)
        return -1
    return len(todo)


def _step(process: Process, step: str, operation_id: OperationId, polls: int) -> Any:
    ports = process.store, process.compute
    match step:
        case "launch":
            return launch(*ports, operation_id, polls)
        case "terminate":
            return terminate(*ports, operation_id, polls)
        case "finish":
            return finish(*ports, process.workflows, operation_id, polls)
        case _:
            return poll(*ports, operation_id, polls)


class _Client:
    def __init__(self, process: Process) -> None:
        self._process = process
        self._choose = process.choose
        self._ports = process.store, process.workflows
        self._requests: list[tuple[ClusterName, str]] = []

    def act(self) -> None:
        acts = (
            [self._create] * 6
            + [self._manage] * 4
            + [self._write] * 10
            + [self._delete] * 4
            + [self._cluster]
        )
        self._choose.choice(acts)()

    def _ask(self, what: str, act: Callable[[], dict[str, Any]], **facts: Any) -> None:
        began = self._process.clock.now()
        answer: dict[str, Any]
        try:
            answer = {"answer": "ok", **act()}
        except DuplicateRequest as error:
            answer = {"answer": "DuplicateRequest", "operation": error.operation_id}
        except PASSING as error:
            answer = {"answer": "unknown", "error": type(error).__name__}
        except PaddockError as error:
            answer = {"answer": type(error).__name__}
        except Exception as error:  # noqa: BLE001
            self._process.tell_bug(what, error)
            return
        self._process.tell(what, began=began, **facts, **answer)

    def _create(self) -> None:
        # Now and then a request is sent once more.
        if self._requests and self._choose.random() < 0.2:
            cluster, request_id = self._choose.choice(self._requests)
        else:
            cluster = self._choose.choices(CLUSTERS, (5, 1))[0]
            request_id = f"{self._process.name}-{self._choose.getrandbits(48):012x}"
            self._requests = [*self._requests, (cluster, request_id)][-REQUEST_IDS:]
        line: dict[str, Any] = {"count": self._choose.randint(1, 3), "nodearray": "ondemand"}
        if self._choose.random() < 0.25:
            line["nodeAttributes"] = {"StartAutomatically": False}
        body = NodeCreationRequest.model_validate({"sets": [line], "requestId": request_id})

        def act() -> dict[str, Any]:
            operation, added = create_nodes(*self._ports, cluster, body)
            added_count = sum(one.count for one in added)
            return {"operation": operation.id, "cluster_uid": operation.cluster_uid, "added": added_count}

        self._ask("create", act, cluster=cluster, request=request_id, count=line["count"])

    def _manage(self) -> None:
        cluster = self._choose.choices(CLUSTERS, (4, 1))[0]
        actions = [Action.TERMINATE] * 4 + [Action.START] * 3 + [Action.DEALLOCATE, Action.REMOVE]
        action = self._choose.choice([*actions, Action.REIMAGE])

        def act() -> dict[str, Any]:
            nodes = self._process.repository.nodes(cluster)
            if not nodes:
                return {"nodes": 0}
            some = self._choose.sample(list(nodes), min(len(nodes), self._choose.randint(1, 3)))
            body = NodeManagementRequest.model_validate(
                {"ids": [one.id for one in some], "force": self._choose.random() < 0.3}
            )
            operation, _ = manage_nodes(*self._ports, cluster, action, body)
            return {"operation": operation.id, "nodes": [one.id for one in some]}

        self._ask(str(action), act, cluster=cluster)

    def _write(self) -> None:
        name = self._choose.choice(VIRTUAL_CLUSTERS)
        desired = {"4c8g": self._choose.randint(0, 3)}
        provision = self._choose.random() < 0.4
        expected = self._revision(name)
        body = VirtualClusterWrite.model_validate(
            {"virtualClusterId": name, "replicaSets": desired, "provision": provision}
        )
        if self._choose.random() < TOGETHER:
            # Others write at the same moment, from the same revision or for the same nodes.
            time.sleep(MEETING_SECONDS - time.time() % MEETING_SECONDS)

        def act() -> dict[str, Any]:
            written = write_virtual_cluster(*self._ports, CLUSTERS[0], body, expected, self._process.name)
            return {"revision": written.revision, "nodes": sorted(written.node_instances)}

        self._ask("write", act, virtual_cluster=name, expected=expected, desired=desired)

    def _delete(self) -> None:
        name = self._choose.choice(VIRTUAL_CLUSTERS)
        expected = self._revision(name) if self._choose.random() < 0.5 else None
        ends = self._choose.random() < 0.3

        def act() -> dict[str, Any]:
            delete_virtual_cluster(
                *self._ports, VirtualClusterId(name), expected, terminate=ends, by=self._process.name
            )
            return {}

        self._ask("delete", act, virtual_cluster=name, expected=expected)

    def _revision(self, name: str) -> int | None:
        try:
            return get_virtual_cluster(self._process.repository, VirtualClusterId(name)).revision
        except (PaddockError, WriteConflictError):
            return None

    def _cluster(self) -> None:
        """Delete the cluster that is little used, and make it again under its name."""
        name = CLUSTERS[1]
        store, workflows = self._ports

        def end() -> dict[str, Any]:
            nodes = store.read.nodes(name)
            if nodes:
                body = NodeManagementRequest.model_validate(
                    {"ids": [node.id for node in nodes], "force": True}
                )
                manage_nodes(store, workflows, name, Action.REMOVE, body)
                return {"nodes": len(nodes)}
            delete_cluster(store, name, None)
            return {"deleted": True}

        def make() -> dict[str, Any]:
            compute = self._process.compute
            put, _ = put_cluster(store, compute, REGION, name, DEFINITION, None)
            return {"revision": put.revision}

        self._ask("end cluster", end, cluster=name)
        self._ask("make cluster", make, cluster=name)
