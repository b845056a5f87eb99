"""A whole Paddock in memory: the real use cases over fakes, with time that tests move."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from paddock.clusters.write import put_cluster
from paddock.errors import StoreThrottled
from paddock.model.identity import ClusterName, VirtualClusterId
from paddock.model.operation import ENDING, Action
from paddock.model.pace import DEFAULT_RATES, Bucket, Rate, Rates
from paddock.nodes.create import create_nodes
from paddock.nodes.manage import manage_nodes
from paddock.ports.repository import Delete, Put
from paddock.reconcile.enqueue import start_run
from paddock.reconcile.events import look_at_instances
from paddock.reconcile.quotas import refresh_quotas
from paddock.reconcile.run import reconcile
from paddock.requests.bodies import (
    ClusterWrite,
    NodeCreationRequest,
    NodeManagementRequest,
    VirtualClusterWrite,
)
from paddock.store.lookup import require_cluster
from paddock.store.store import Store
from paddock.virtual_clusters.write import delete_virtual_cluster, get_virtual_cluster, write_virtual_cluster
from paddock.workflow.finish import finish
from paddock.workflow.launch import launch
from paddock.workflow.outcome import Next, or_wait
from paddock.workflow.poll import poll
from paddock.workflow.terminate import terminate
from tests.fakes.clock import ManualClock
from tests.fakes.compute import FakeCompute
from tests.fakes.ec2 import FakeEc2
from tests.fakes.quotas import FakeQuotas
from tests.fakes.repository import FakeRepository
from tests.fakes.stored import StoredRepository
from tests.fakes.work_queue import FakeWorkQueue, in_sum
from tests.fakes.workflows import FakeWorkflows

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from paddock.model.cluster import Cluster
    from paddock.model.identity import InstanceId, OperationId
    from paddock.model.node import Node
    from paddock.model.operation import Operation
    from paddock.model.virtual_cluster import VirtualCluster
    from paddock.nodes.manage import NodeResult
    from paddock.nodes.plan import Added
    from paddock.ports.repository import Record
    from paddock.reconcile.run import Report
    from paddock.workflow.outcome import Outcome

REGION = "us-east-1"
# An account that nothing is too fast for.
UNLIMITED: Rates = dict.fromkeys(Bucket, Rate(1_000_000, 10_000))
CLUSTER = ClusterName("demo")
MAX_STEPS = 2_000
SETTLING_MINUTES = 300
# After these a claim that nobody confirms is given back.
QUIET_MINUTES = 2


def bucket(machine_type: str = "c7i-xlarge", **changes: Any) -> dict[str, Any]:
    """A bucket of a definition."""
    facts = {"vcpuCount": 4, "pcpuCount": 2, "memory": 8.0, "gpuCount": 0, "infiniband": False}
    return {"machineType": machine_type, "templateId": "4c8g", **facts, **changes}


def nodearray(name: str = "ondemand", *buckets: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A node array of a definition; of one bucket, where none is given."""
    return {
        "name": name,
        "subnetIds": ["subnet-00000001", "subnet-00000002"],
        "launchTemplate": {"launchTemplateId": "lt-0123456789abcdef0"},
        "buckets": list(buckets) or [bucket()],
        **changes,
    }


class World:
    """One cluster ``demo``, and short ways to use it."""

    def __init__(
        self,
        *nodearrays: dict[str, Any],
        clock: ManualClock | None = None,
        stored: bool = False,
        **definition: Any,
    ) -> None:
        """``stored``: over the real repository, which is slower."""
        self.clock = clock or ManualClock()
        self.rates: Rates = DEFAULT_RATES
        repository: Any = StoredRepository() if stored else FakeRepository()
        self.repository: FakeRepository = repository
        self.ec2 = FakeEc2(now=self.clock.seconds)
        self.compute = FakeCompute(self.ec2)
        self.workflows = FakeWorkflows()
        self.quotas = FakeQuotas(self.ec2)
        self.put({"nodearrays": list(nodearrays) or [nodearray()], **definition})

    def copy(self) -> World:
        """Another world in the state of this one; nothing that happens in one changes the other.

        Its ports are the plain ones, whatever this one's are.
        """
        other = World.__new__(World)
        other.clock, other.rates = self.clock.copy(), self.rates
        other.repository = self.repository.copy()
        other.ec2 = FakeEc2(now=other.clock.seconds)
        other.ec2.restore(self.ec2.snapshot())
        other.compute = FakeCompute(other.ec2)
        other.workflows = self.workflows.copy()
        other.quotas = FakeQuotas(other.ec2)
        return other

    @property
    def store(self) -> Store:
        """The repository and the clock that the world has now."""
        return Store(self.repository, self.clock)

    def put(self, definition: dict[str, Any], expected: int | None = None, name: str = CLUSTER) -> Cluster:
        body = ClusterWrite.model_validate(definition)
        written, _ = put_cluster(self.store, self.compute, REGION, ClusterName(name), body, expected)
        return written

    def create(
        self, count: int = 1, array: str = "ondemand", request_id: str | None = None, **line: Any
    ) -> tuple[Operation, list[Added]]:
        return self.create_sets({"count": count, "nodearray": array, **line}, request_id=request_id)

    def create_sets(
        self, *sets: dict[str, Any], request_id: str | None = None
    ) -> tuple[Operation, list[Added]]:
        body = NodeCreationRequest.model_validate({"sets": list(sets), "requestId": request_id})
        return create_nodes(self.store, self.workflows, CLUSTER, body)

    def terminate(self, **selectors: Any) -> tuple[Operation, list[NodeResult]]:
        return self.manage(Action.TERMINATE, **selectors)

    def manage(self, action: Action, **selectors: Any) -> tuple[Operation, list[NodeResult]]:
        body = NodeManagementRequest.model_validate(selectors)
        return manage_nodes(self.store, self.workflows, CLUSTER, action, body)

    def claim(
        self, name: str, expected: int | None = None, /, *, dry_run: bool = False, **replica_sets: int
    ) -> VirtualCluster:
        """Write a virtual cluster of nodes that are there; node types are given as ``x4c8g=2``."""
        desired = {key.removeprefix("x"): count for key, count in replica_sets.items()}
        body = {"virtualClusterId": name, "replicaSets": desired, "dryRun": dry_run, "provision": False}
        return self.write(body, expected)

    def want(self, name: str, expected: int | None = None, /, **replica_sets: int) -> VirtualCluster:
        """Like ``claim``, but what is missing is launched."""
        desired = {key.removeprefix("x"): count for key, count in replica_sets.items()}
        return self.write({"virtualClusterId": name, "replicaSets": desired}, expected)

    def held(self, name: str) -> VirtualCluster:
        """A virtual cluster as it is."""
        return get_virtual_cluster(self.repository, VirtualClusterId(name))

    def write(self, body: dict[str, Any], expected: int | None = None) -> VirtualCluster:
        request = VirtualClusterWrite.model_validate(body)
        ports = (self.store, self.workflows)
        return write_virtual_cluster(*ports, CLUSTER, request, expected, by="tester")

    def release(self, name: str, expected: int | None = None, *, terminate: bool = False) -> VirtualCluster:
        deleted, _ = delete_virtual_cluster(
            self.store, self.workflows, VirtualClusterId(name), expected, terminate=terminate, by="tester"
        )
        return deleted

    def account(self, **cores: int) -> None:
        """Let the account have these quotas from now on, and known; given as ``L_1216C47A=64``."""
        self.ec2.quotas({code.replace("_", "-"): count for code, count in cores.items()})
        refresh_quotas(self.store, self.quotas)

    def reconcile(self) -> Report:
        """One whole run of the reconciler, all of its parts added up."""
        parts = FakeWorkQueue()
        self.run = start_run(self.store, self.compute, parts, self.quotas)
        ports = self.store, self.compute, self.workflows
        return in_sum(reconcile(*ports, part) for part in parts.take())

    def hear(self, *instance_ids: InstanceId, interrupted: Collection[InstanceId] = ()) -> int:
        """EC2 tells of its instances, in one batch."""
        ports = self.store, self.compute, self.workflows
        looked = look_at_instances(*ports, {*instance_ids, *interrupted}, interrupted)
        if looked.failed:
            # Most of what fails is throttled; the queue brings it again.
            raise StoreThrottled("the queue brings these again")
        return looked.changed

    def nodes(self) -> Sequence[Node]:
        return self.repository.nodes(CLUSTER)

    def revision(self) -> int:
        """The cluster's."""
        return require_cluster(self.repository, CLUSTER).revision

    def plant(self, *records: Record) -> None:
        """Write records, as no use case does."""
        for record in records:
            FakeRepository.commit(self.repository, Put(record, was=None))

    def forget(self, *records: Record) -> None:
        """Remove records, as no use case does."""
        FakeRepository.commit(self.repository, *(Delete(record) for record in records))

    def operation(self, operation_id: OperationId) -> Operation:
        found = self.repository.operation(operation_id)
        assert found is not None
        return found

    def alive(self) -> set[InstanceId]:
        """Ids of the instances that run, or will."""
        return self.ec2.alive()

    def existing(self) -> set[InstanceId]:
        """Ids of the instances that have not ended, stopped ones included."""
        return self.ec2.existing()

    def step(self, name: str, operation_id: OperationId, polls: int = 0) -> tuple[Next, int]:
        """One step of the workflow; answers what comes next, and after how many seconds."""
        outcome = self._outcome(name, operation_id, polls)
        return outcome.next, outcome.wait_seconds

    def task(self, name: str, operation_id: OperationId, polls: int = 0) -> tuple[Next, int]:
        """Like ``step``, as the workflow's function does it: one that the store throttles waits."""
        outcome = or_wait(partial(self._outcome, name), operation_id, polls)
        return outcome.next, outcome.wait_seconds

    def _outcome(self, name: str, operation_id: OperationId, polls: int) -> Outcome:
        ports = (self.store, self.compute)
        match name:
            case "launch":
                return launch(*ports, operation_id, polls, self.rates)
            case "terminate":
                return terminate(*ports, operation_id, polls, self.rates)
            case "finish":
                return finish(*ports, self.workflows, operation_id, polls)
            case _:
                return poll(*ports, operation_id, polls)

    def drive(self, operation: Operation, task: str = "") -> Operation:
        """Run the workflow of an operation to its end, as the state machine does; ``task`` comes next."""
        task = task or ("terminate" if operation.action in ENDING | {Action.REIMAGE} else "launch")
        polls = 0
        for _ in range(MAX_STEPS):
            following, seconds = self.task(task, operation.id, polls)
            if following is Next.DONE:
                self.workflows.live.pop(operation.id, None)
                return self.operation(operation.id)
            if following is Next.WAIT:
                self.clock.advance(seconds)
                polls += 1
            task = "poll" if following is Next.WAIT else following.value
        msg = f"the workflow did not end in {MAX_STEPS} steps"
        raise AssertionError(msg)

    def drive_all(self) -> None:
        """Run every live workflow, and those that they start, to their ends."""
        while self.workflows.live:
            self.drive(next(iter(self.workflows.live.values())))

    def settle(self) -> None:
        """Let time pass, with a reconciler each minute, until nothing is under way."""
        for minute in range(SETTLING_MINUTES):
            self.clock.advance(60)
            self.reconcile()
            self.drive_all()
            if minute >= QUIET_MINUTES and not self.repository.running_operations():
                return

    def ready(self, count: int = 1, **line: Any) -> Sequence[Node]:
        """Create nodes and wait until they are Ready; answers them."""
        operation, _ = self.create(count, **line)
        self.drive(operation)
        return self.repository.nodes_made_by(operation)
