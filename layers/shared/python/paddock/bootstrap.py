"""The only place that picks adapters. Each use case is here under its own name, bound to them.

Clients are made on first use, so a function pays only for those that it needs.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config

from paddock import invocation
from paddock.adapters.dynamodb.backoff import Backoff
from paddock.adapters.dynamodb.metered import MeteredRepository
from paddock.adapters.ec2 import Ec2Compute
from paddock.adapters.secrets import SecretCredentials
from paddock.adapters.service_quotas import ServiceQuotas
from paddock.adapters.sqs import SqsWorkQueue, parse_work_item
from paddock.adapters.step_functions import StepFunctionsWorkflows
from paddock.adapters.system_clock import SystemClock
from paddock.clusters import status as cluster_status
from paddock.clusters import usage
from paddock.clusters import write as clusters
from paddock.model.identity import ClusterName, RequestId
from paddock.model.pace import Bucket, Rate
from paddock.nodes import create as create_nodes
from paddock.nodes import manage as manage_nodes
from paddock.nodes import read as read_nodes
from paddock.nodes import scale as scale_nodes
from paddock.nodes import whoami as machines
from paddock.operations import read as operations
from paddock.reconcile import enqueue, run
from paddock.reconcile import events as instance_events
from paddock.settings import Settings, require_deployed_names
from paddock.store import lookup
from paddock.store.store import Store
from paddock.users import authentication
from paddock.virtual_clusters import write as virtual_clusters
from paddock.workflow import finish, launch, poll, terminate

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from paddock.model.cluster import Cluster
    from paddock.model.identity import InstanceId, OperationId, VirtualClusterId
    from paddock.model.node import Node
    from paddock.model.operation import Action, Operation
    from paddock.model.pace import Rates
    from paddock.model.virtual_cluster import VirtualCluster, VirtualClusterChange
    from paddock.nodes.plan import Added
    from paddock.ports.clock import Clock
    from paddock.ports.compute import Compute
    from paddock.ports.quotas import AccountQuotas
    from paddock.ports.repository import Repository
    from paddock.ports.work_queue import WorkQueue
    from paddock.ports.workflows import Workflows
    from paddock.requests.bodies import (
        ClusterWrite,
        NodeCreationRequest,
        NodeManagementRequest,
        ScaleRequest,
        VirtualClusterWrite,
    )
    from paddock.requests.timeframe import UsageQuery
    from paddock.workflow.outcome import Outcome

require_deployed_names()

# Short enough that an API function can try several times within API Gateway's 29 seconds.
_API_CALLS = Config(connect_timeout=2, read_timeout=8, retries={"mode": "standard", "total_max_attempts": 3})
# An EC2 that hangs must be told from a slow one before the function is cut off.
_EC2_CALLS = Config(connect_timeout=2, read_timeout=7, retries={"mode": "standard", "total_max_attempts": 3})
# Changes of a thousand instances take their time, and an answer that is given up on is an answer lost.
_LARGE_CALLS = Config(
    connect_timeout=2, read_timeout=40, retries={"mode": "standard", "total_max_attempts": 2}
)


@cache
def settings() -> Settings:
    """The deployment's settings."""
    return Settings.from_environment()


@cache
def clock() -> Clock:
    """The clock that all use cases share."""
    return SystemClock()


@cache
def repository() -> Repository:
    """The repository."""
    backoff = Backoff(clock(), invocation.seconds_left)
    return MeteredRepository(boto3.client("dynamodb", config=_API_CALLS), settings().table_name, backoff)


def store() -> Store:
    """The repository and the clock, as those have them who write."""
    return Store(repository(), clock())


@cache
def workflows() -> Workflows:
    """The workflow of node operations."""
    return StepFunctionsWorkflows(
        boto3.client("stepfunctions", config=_API_CALLS), settings().state_machine_arn
    )


@cache
def compute() -> Compute:
    """The cloud."""
    return _ec2(_EC2_CALLS)


@cache
def patient_compute() -> Compute:
    """The cloud, for those who change many instances at once."""
    return _ec2(_LARGE_CALLS)


def _ec2(config: Config) -> Compute:
    # Instances belong to the table that has their records, and to no other in the account.
    return Ec2Compute(boto3.client("ec2", config=config), settings().table_name)


def _rates() -> Rates:
    """What EC2 allows the account, where the deployment knows better than the defaults."""
    launches = Rate(settings().launch_burst, settings().launch_rate)
    ends = Rate(settings().terminate_burst, settings().terminate_rate)
    return {Bucket.LAUNCH: launches, Bucket.START: launches, Bucket.STOP: ends, Bucket.TERMINATE: ends}


@cache
def work_queue() -> WorkQueue:
    """The queue of the reconciler."""
    return SqsWorkQueue(boto3.client("sqs", config=_API_CALLS), settings().work_queue_url)


@cache
def account_quotas() -> AccountQuotas:
    """The account's quotas."""
    return ServiceQuotas(boto3.client("service-quotas", config=_API_CALLS))


@cache
def _authenticator() -> authentication.Authenticator:
    client = boto3.client("secretsmanager", config=_API_CALLS)
    return authentication.Authenticator(SecretCredentials(client, settings().credentials_secret_arn), clock())


def authenticated_user(authorization: str) -> str | None:
    """See ``Authenticator.user``."""
    return _authenticator().user(authorization)


def list_clusters(after: str) -> Sequence[Cluster]:
    """See ``clusters.list_clusters``."""
    return clusters.list_clusters(repository(), after)


def get_cluster(name: ClusterName) -> Cluster:
    """See ``require_cluster``."""
    return lookup.require_cluster(repository(), name)


def put_cluster(name: ClusterName, body: ClusterWrite, expected: int | None) -> tuple[Cluster, bool]:
    """See ``clusters.put_cluster``."""
    region = settings().region
    return clusters.put_cluster(store(), compute(), region, name, body, expected)


def delete_cluster(name: ClusterName, expected: int | None) -> None:
    """See ``clusters.delete_cluster``."""
    clusters.delete_cluster(store(), name, expected)


def get_cluster_status(name: ClusterName, *, with_nodes: bool) -> cluster_status.ClusterStatus:
    """See ``cluster_status``."""
    return cluster_status.cluster_status(store(), name, with_nodes=with_nodes)


def get_cluster_usage(name: ClusterName, query: UsageQuery) -> usage.ClusterUsage:
    """See ``usage.cluster_usage``."""
    return usage.cluster_usage(store(), name, query)


def list_nodes(
    cluster: ClusterName,
    operation_id: OperationId | None,
    request_id: RequestId | None,
    limit: int | None,
    after: str,
) -> read_nodes.NodePage:
    """See ``read_nodes.page_of_nodes``."""
    return read_nodes.page_of_nodes(repository(), cluster, operation_id, request_id, limit, after)


def add_nodes(cluster: ClusterName, body: NodeCreationRequest) -> tuple[Operation, list[Added]]:
    """See ``create_nodes.create_nodes``."""
    return create_nodes.create_nodes(store(), workflows(), cluster, body)


def act_on_nodes(
    action: Action, cluster: ClusterName, body: NodeManagementRequest
) -> tuple[Operation, list[manage_nodes.NodeResult]]:
    """See ``manage_nodes.manage_nodes``."""
    return manage_nodes.manage_nodes(store(), workflows(), cluster, action, body)


def retry_failed(cluster: ClusterName) -> Operation:
    """See ``manage_nodes.retry_failed``."""
    return manage_nodes.retry_failed(store(), workflows(), cluster)


def scale_node_array(
    cluster: ClusterName, node_array: str, body: ScaleRequest
) -> tuple[Operation, list[Added]]:
    """See ``scale_nodes.scale_nodes``."""
    return scale_nodes.scale_nodes(store(), workflows(), cluster, node_array, body)


def get_operation(operation_id: OperationId) -> tuple[Operation, Sequence[Node]]:
    """See ``operations.get_operation``."""
    return operations.get_operation(repository(), operation_id)


def find_operation(request_id: RequestId) -> tuple[Operation, Sequence[Node]] | None:
    """See ``operations.find_operation``."""
    return operations.find_operation(repository(), request_id)


def get_self(instance_id: InstanceId) -> tuple[Node, Sequence[Node]]:
    """See ``machines.get_self``."""
    return machines.get_self(repository(), compute(), instance_id)


def write_virtual_cluster(body: VirtualClusterWrite, expected: int | None, by: str) -> VirtualCluster:
    """See ``virtual_clusters.write_virtual_cluster``."""
    default = ClusterName(settings().default_cluster)
    return virtual_clusters.write_virtual_cluster(store(), workflows(), default, body, expected, by)


def list_virtual_clusters(limit: int | None, after: str) -> tuple[Sequence[VirtualCluster], str | None]:
    """See ``virtual_clusters.list_virtual_clusters``."""
    return virtual_clusters.list_virtual_clusters(repository(), limit, after)


def get_virtual_cluster(virtual_cluster_id: VirtualClusterId) -> VirtualCluster:
    """See ``virtual_clusters.get_virtual_cluster``."""
    return virtual_clusters.get_virtual_cluster(repository(), virtual_cluster_id)


def virtual_cluster_history(
    virtual_cluster_id: VirtualClusterId, limit: int, before: int | None
) -> tuple[Sequence[VirtualClusterChange], int | None]:
    """See ``virtual_clusters.virtual_cluster_history``."""
    return virtual_clusters.virtual_cluster_history(repository(), virtual_cluster_id, limit, before)


def delete_virtual_cluster(
    virtual_cluster_id: VirtualClusterId, expected: int | None, *, terminate: bool, by: str
) -> tuple[VirtualCluster, Operation | None]:
    """See ``virtual_clusters.delete_virtual_cluster``."""
    return virtual_clusters.delete_virtual_cluster(
        store(), workflows(), virtual_cluster_id, expected, terminate=terminate, by=by
    )


def launch_step(operation_id: OperationId, polls: int) -> Outcome:
    """See ``steps.launch``."""
    return launch.launch(store(), patient_compute(), operation_id, polls, _rates())


def terminate_step(operation_id: OperationId, polls: int) -> Outcome:
    """See ``steps.terminate``."""
    return terminate.terminate(store(), patient_compute(), operation_id, polls, _rates())


def poll_step(operation_id: OperationId, polls: int) -> Outcome:
    """See ``steps.poll``."""
    return poll.poll(store(), compute(), operation_id, polls)


def finish_step(operation_id: OperationId, polls: int) -> Outcome:
    """See ``steps.finish``."""
    return finish.finish(store(), compute(), workflows(), operation_id, polls)


def start_reconciliation() -> enqueue.Run:
    """See ``reconcile.fan_out.start_run``."""
    return enqueue.start_run(store(), compute(), work_queue(), account_quotas())


def reconcile(message: str) -> run.Report:
    """See ``reconcile.run``; ``message`` is what ``work_queue`` put into the queue."""
    return run.reconcile(store(), compute(), workflows(), parse_work_item(message))


def look_at_instances(
    instance_ids: Collection[InstanceId], interrupted: Collection[InstanceId]
) -> instance_events.Looked:
    """See ``reconcile.instance_events``."""
    ports = store(), compute(), workflows()
    return instance_events.look_at_instances(*ports, instance_ids, interrupted)
