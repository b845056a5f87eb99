"""The keys of the one table. Nothing else builds them.

| record | partition | sort |
|---|---|---|
| cluster | ``CLUSTERS`` | name |
| ledger | ``CLUSTER#<name>`` | ``LEDGER`` |
| node | ``CLUSTER#<name>`` | ``NODE#<id>`` |
| operation | ``OPERATION#<id>`` | ``OPERATION`` |
| the account's quotas | ``QUOTAS`` | ``QUOTAS`` |
| the account's token buckets | ``PACE`` | ``PACE`` |
| request id | ``REQUEST#<request id>`` | cluster's name |
| usage interval | ``USAGE#<cluster>`` | ``<end in ns, 20 digits>#<node id>`` |
| virtual cluster | ``VIRTUAL_CLUSTERS`` | id |
| its changes | ``HISTORY#<id>`` | ``<revision, 20 digits>`` |

Running operations, and virtual clusters that want more than they have, also stand in the sparse index
``running``, under ``RUNNING``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from paddock.model.cluster import Cluster
from paddock.model.identity import ClusterName, OperationId, RequestId, VirtualClusterId
from paddock.model.ledger import Ledger
from paddock.model.node import Node
from paddock.model.operation import Operation, UsedRequestId
from paddock.model.pace import Pace
from paddock.model.quotas import Quotas
from paddock.model.usage import UsageInterval
from paddock.model.virtual_cluster import VirtualClusterChange

if TYPE_CHECKING:
    from paddock.model.identity import NodeId
    from paddock.ports.repository import Record

CLUSTERS = "CLUSTERS"
OPERATIONS = "OPERATION#"
VIRTUAL_CLUSTERS = "VIRTUAL_CLUSTERS"
RUNNING_INDEX = "running"
RUNNING = "RUNNING"


class Key(NamedTuple):
    """Partition key and sort key."""

    pk: str
    sk: str


def cluster(name: ClusterName) -> Key:
    """Key of a cluster."""
    return Key(CLUSTERS, name)


def ledger(cluster_name: ClusterName) -> Key:
    """Key of a cluster's ledger."""
    return Key(f"CLUSTER#{cluster_name}", "LEDGER")


def node(cluster_name: ClusterName, node_id: NodeId) -> Key:
    """Key of a node; with the beginning of an id, what the keys of such nodes begin with."""
    return Key(f"CLUSTER#{cluster_name}", f"NODE#{node_id}")


def operation(operation_id: OperationId) -> Key:
    """Key of an operation."""
    return Key(f"{OPERATIONS}{operation_id}", "OPERATION")


def operation_id(pk: str) -> OperationId:
    """The operation whose partition this is."""
    return OperationId(pk.removeprefix(OPERATIONS))


def pace() -> Key:
    """Key of the account's token buckets."""
    return Key("PACE", "PACE")


def quotas() -> Key:
    """Key of the account's quotas."""
    return Key("QUOTAS", "QUOTAS")


def request(request_id: RequestId, cluster_name: ClusterName) -> Key:
    """Key of a used request id; without a cluster's name, only its partition counts."""
    return Key(f"REQUEST#{request_id}", cluster_name)


def usage_interval(cluster_name: ClusterName, end: int, node_id: NodeId) -> Key:
    """Key of a usage interval; without a node's id, it stands before all that end then or later."""
    return Key(f"USAGE#{cluster_name}", f"{end:020}#{node_id}")


def virtual_cluster(virtual_cluster_id: VirtualClusterId) -> Key:
    """Key of a virtual cluster."""
    return Key(VIRTUAL_CLUSTERS, virtual_cluster_id)


def virtual_cluster_change(virtual_cluster_id: VirtualClusterId, revision: int) -> Key:
    """Key of a change of a virtual cluster, after those of all earlier ones."""
    return Key(f"HISTORY#{virtual_cluster_id}", f"{revision:020}")


def key_of(record: Record) -> Key:  # noqa: PLR0911 - one for each kind of record
    """Key of any record."""
    match record:
        case Cluster():
            return cluster(record.name)
        case Ledger():
            return ledger(record.cluster)
        case Node():
            return node(record.cluster, record.id)
        case Operation():
            return operation(record.id)
        case Pace():
            return pace()
        case Quotas():
            return quotas()
        case UsedRequestId():
            return request(record.request_id, record.cluster)
        case UsageInterval():
            return usage_interval(record.cluster, record.end, record.node_id)
        case VirtualClusterChange():
            return virtual_cluster_change(record.virtual_cluster, record.revision)
        case _:
            return virtual_cluster(record.id)
