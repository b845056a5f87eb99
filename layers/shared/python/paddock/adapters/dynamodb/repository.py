"""The repository in DynamoDB."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from itertools import count, islice
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from botocore.exceptions import ClientError, ConnectionError, HTTPClientError  # noqa: A004 - botocore's name

from paddock.adapters.dynamodb import keys
from paddock.adapters.dynamodb.items import bytes_of, from_item, to_item
from paddock.errors import StoreThrottled, StoreUnavailable
from paddock.model.cluster import Cluster
from paddock.model.identity import (
    MAX_INDEX,
    ClusterName,
    NodeId,
    OperationId,
    RequestId,
    VirtualClusterId,
    node_id,
)
from paddock.model.ledger import Ledger
from paddock.model.node import Node
from paddock.model.operation import Operation, UsedRequestId
from paddock.model.pace import Pace
from paddock.model.quotas import Quotas
from paddock.model.usage import UsageInterval
from paddock.model.virtual_cluster import VirtualCluster, VirtualClusterChange
from paddock.ports.repository import (
    MAX_TRANSACTION_BYTES,
    MAX_WRITES,
    Check,
    Delete,
    Put,
    WriteConflictError,
    require_raised_revisions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

    from paddock.adapters.dynamodb.backoff import Backoff
    from paddock.adapters.dynamodb.keys import Key
    from paddock.ports.repository import Record, Write

_MAX_BATCH_GET = 100
_THROTTLED = frozenset(
    {"ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded"}
)
_LOST_RACES = frozenset({"ConditionalCheckFailed", "TransactionConflict"})
_THROTTLED_REASONS = frozenset({"ThrottlingError", "ProvisionedThroughputExceeded"})
# Clients read it; what botocore says names endpoints.
_UNAVAILABLE = "the store does not answer; a change may or may not have been made, look before you try again"

Found = TypeVar("Found", bound="Record")
Answer = TypeVar("Answer")


class DynamoDbRepository:
    """``Repository`` over one table. Every read is strongly consistent, every write is a transaction.

    Transactions carry a token, so a call that botocore repeats after a lost answer is done once. That is why
    single writes are transactions too, at twice the capacity units of plain ones. A throttled call is tried
    again for as long as ``backoff`` says, a transaction under the token that it had.
    """

    max_writes = MAX_WRITES

    def __init__(self, client: DynamoDBClient, table_name: str, backoff: Backoff | None = None) -> None:
        self._client = client
        self._table = table_name
        self._backoff = backoff

    def commit(self, *writes: Write) -> None:
        """See ``Repository.commit``."""
        require_raised_revisions(writes)
        items: Any = [self._transact_item(write) for write in writes]
        token = uuid4().hex

        def transact() -> None:
            try:
                self._client.transact_write_items(TransactItems=items, ClientRequestToken=token)
            except ClientError as error:
                reasons = _cancellation_codes(error)
                lost = [write for write, code in zip(writes, reasons, strict=False) if code in _LOST_RACES]
                if lost:
                    raise WriteConflictError(lost) from error
                # A transaction that is still in progress may yet be done: it must not count as a lost race.
                in_progress = _code(error) == "TransactionInProgressException"
                if in_progress or _THROTTLED_REASONS.intersection(reasons):
                    raise StoreThrottled(str(error)) from error
                raise

        self._call(transact)

    def fits(self, *writes: Write) -> bool:
        """See ``Repository.fits``."""
        if len(writes) > self.max_writes:
            return False
        size = sum(bytes_of(to_item(write.record)) for write in writes if isinstance(write, Put))
        return size <= MAX_TRANSACTION_BYTES

    def cluster(self, name: ClusterName) -> Cluster | None:
        """See ``Repository.cluster``."""
        return self._get(Cluster, keys.cluster(name))

    def clusters(self, after: str = "") -> Sequence[Cluster]:
        """See ``Repository.clusters``."""
        return list(self._query(Cluster, keys.CLUSTERS, after=after))

    def cluster_names(self) -> Sequence[ClusterName]:
        """See ``Repository.cluster_names``."""
        return [ClusterName(name) for name in self._sort_keys(keys.CLUSTERS)]

    def ledger(self, cluster: ClusterName) -> Ledger | None:
        """See ``Repository.ledger``."""
        return self._get(Ledger, keys.ledger(cluster))

    def nodes(self, cluster: ClusterName, limit: int | None = None, after: str = "") -> Sequence[Node]:
        """See ``Repository.nodes``."""
        key = keys.node(cluster, NodeId(""))
        paging: dict[str, Any] = {}
        if limit is not None:
            paging["Limit"] = limit
        if after:
            # The sort key's one condition says that it is a node's; where to go on is said beside it.
            paging["ExclusiveStartKey"] = _key(keys.node(cluster, NodeId(after)))
        found = self._query(Node, key.pk, begins_with=key.sk, **paging)
        return list(islice(found, limit))

    def nodes_made_by(self, operation: Operation, after: int = 0, count: int = MAX_INDEX) -> Sequence[Node]:
        """See ``Repository.nodes_made_by``."""
        last = min(after + count, MAX_INDEX)
        if last <= after:
            return []
        first = keys.node(operation.cluster, node_id(operation.id, after + 1))
        upto = keys.node(operation.cluster, node_id(operation.id, last))
        return list(self._query(Node, first.pk, between=(first.sk, upto.sk)))

    def nodes_by_id(self, cluster: ClusterName, ids: Collection[NodeId]) -> Sequence[Node]:
        """See ``Repository.nodes_by_id``."""
        wanted = sorted(set(ids))
        found: list[Node] = []
        for start in range(0, len(wanted), _MAX_BATCH_GET):
            found += self._batch_get(
                keys.node(cluster, identity) for identity in wanted[start : start + _MAX_BATCH_GET]
            )
        return sorted(found, key=lambda node: node.id)

    def operation(self, operation_id: OperationId) -> Operation | None:
        """See ``Repository.operation``."""
        return self._get(Operation, keys.operation(operation_id))

    def pace(self) -> Pace | None:
        """See ``Repository.pace``."""
        return self._get(Pace, keys.pace())

    def quotas(self) -> Quotas | None:
        """See ``Repository.quotas``."""
        return self._get(Quotas, keys.quotas())

    def request(self, cluster: ClusterName, request_id: RequestId) -> UsedRequestId | None:
        """See ``Repository.request``."""
        return self._get(UsedRequestId, keys.request(request_id, cluster))

    def requests(self, request_id: RequestId) -> Sequence[UsedRequestId]:
        """See ``Repository.requests``."""
        return list(self._query(UsedRequestId, keys.request(request_id, ClusterName("")).pk))

    def running_operations(self) -> Sequence[OperationId]:
        """See ``Repository.running_operations``."""
        return [keys.operation_id(item["pk"]["S"]) for item in self._unsettled(keys.OPERATIONS)]

    def usage_intervals(self, cluster: ClusterName, ended_after: int) -> Sequence[UsageInterval]:
        """See ``Repository.usage_intervals``."""
        key = keys.usage_interval(cluster, ended_after + 1, NodeId(""))
        return list(self._query(UsageInterval, key.pk, after=key.sk))

    def virtual_cluster(self, virtual_cluster_id: VirtualClusterId) -> VirtualCluster | None:
        """See ``Repository.virtual_cluster``."""
        return self._get(VirtualCluster, keys.virtual_cluster(virtual_cluster_id))

    def virtual_cluster_ids(self) -> Sequence[VirtualClusterId]:
        """See ``Repository.virtual_cluster_ids``."""
        # Of virtual clusters, only tombstones expire.
        ids = self._sort_keys(keys.VIRTUAL_CLUSTERS, FilterExpression="attribute_not_exists(expiresAt)")
        return [VirtualClusterId(virtual_cluster_id) for virtual_cluster_id in ids]

    def virtual_clusters(
        self, limit: int | None = None, after: str = ""
    ) -> tuple[Sequence[VirtualCluster], str | None]:
        """See ``Repository.virtual_clusters``."""
        found: list[VirtualCluster] = []
        for virtual_cluster in self._query(VirtualCluster, keys.VIRTUAL_CLUSTERS, after=after):
            if virtual_cluster.deleted:
                continue
            if limit is not None and len(found) == limit:
                return found, found[-1].id
            found.append(virtual_cluster)
        return found, None

    def unsatisfied_virtual_clusters(self) -> Sequence[VirtualClusterId]:
        """See ``Repository.unmet_virtual_clusters``."""
        return [item["sk"]["S"] for item in self._unsettled(keys.VIRTUAL_CLUSTERS)]

    def virtual_cluster_changes(
        self, virtual_cluster_id: VirtualClusterId, limit: int, before: int | None = None
    ) -> Sequence[VirtualClusterChange]:
        """See ``Repository.virtual_cluster_changes``."""
        key = keys.virtual_cluster_change(virtual_cluster_id, before or 0)
        paging: dict[str, Any] = {"Limit": limit, "ScanIndexForward": False}
        if before is not None:
            paging["ExclusiveStartKey"] = _key(key)
        return list(islice(self._query(VirtualClusterChange, key.pk, **paging), limit))

    def _unsettled(self, pk: str) -> Iterator[dict[str, Any]]:
        pages = self._pages(
            IndexName=keys.RUNNING_INDEX,
            KeyConditionExpression="running = :running AND begins_with(pk, :pk)",
            ExpressionAttributeValues={":running": {"S": keys.RUNNING}, ":pk": {"S": pk}},
        )
        return (item for page in pages for item in page["Items"])

    def _transact_item(self, write: Write) -> dict[str, Any]:
        match write:
            case Put(record, was):
                return {"Put": {"TableName": self._table, "Item": to_item(record), **_condition(was)}}
            case Delete(was):
                return {
                    "Delete": {"TableName": self._table, "Key": _key(keys.key_of(was)), **_condition(was)}
                }
            case Check(was):
                key = _key(keys.key_of(was))
                return {"ConditionCheck": {"TableName": self._table, "Key": key, **_condition(was)}}

    def _call(self, act: Callable[[], Answer]) -> Answer:
        """Do it, once it is not throttled any more or there is no time left to wait."""
        for attempt in count():
            try:
                with _faults_told():
                    return act()
            except StoreThrottled:
                if self._backoff is None or not self._backoff.wait(attempt):
                    raise
        raise AssertionError

    def _get(self, kind: type[Found], key: Key) -> Found | None:
        answer = self._call(
            lambda: self._client.get_item(TableName=self._table, Key=_key(key), ConsistentRead=True)
        )
        return from_item(kind, answer["Item"]) if "Item" in answer else None

    def _batch_get(self, wanted: Iterator[Key]) -> Iterator[Node]:
        request: Any = {self._table: {"Keys": [_key(key) for key in wanted], "ConsistentRead": True}}
        for attempt in count():
            answer = self._call(partial(self._client.batch_get_item, RequestItems=request))
            yield from (from_item(Node, item) for item in answer["Responses"].get(self._table, ()))
            request = answer.get("UnprocessedKeys")
            if not request:
                return
            # It was as much as DynamoDB would read now.
            if self._backoff is not None and not self._backoff.wait(attempt):
                raise StoreThrottled("not all nodes could be read in time")

    def _query(
        self,
        kind: type[Found],
        pk: str,
        *,
        begins_with: str = "",
        after: str = "",
        between: tuple[str, str] | None = None,
        **paging: Any,
    ) -> Iterator[Found]:
        condition, values = "pk = :pk", {":pk": {"S": pk}}
        if between is not None:
            condition = f"{condition} AND sk BETWEEN :first AND :last"
            values = {**values, ":first": {"S": between[0]}, ":last": {"S": between[1]}}
        elif begins_with:
            condition, values = f"{condition} AND begins_with(sk, :sk)", {**values, ":sk": {"S": begins_with}}
        elif after:
            condition, values = f"{condition} AND sk > :sk", {**values, ":sk": {"S": after}}
        pages = self._pages(
            KeyConditionExpression=condition, ExpressionAttributeValues=values, ConsistentRead=True, **paging
        )
        return (from_item(kind, item) for page in pages for item in page["Items"])

    def _sort_keys(self, pk: str, **filters: Any) -> Iterator[str]:
        pages = self._pages(
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": pk}},
            ProjectionExpression="sk",
            ConsistentRead=True,
            **filters,
        )
        return (item["sk"]["S"] for page in pages for item in page["Items"])

    def _pages(self, **query: Any) -> Iterator[Any]:
        while True:
            page = self._call(partial(self._client.query, TableName=self._table, **query))
            yield page
            if "LastEvaluatedKey" not in page:
                return
            query["ExclusiveStartKey"] = page["LastEvaluatedKey"]


@contextmanager
def _faults_told() -> Iterator[None]:
    """Tell throttling and outages in the port's words, after botocore has tried again several times."""
    try:
        yield
    except (ConnectionError, HTTPClientError) as error:
        raise StoreUnavailable(_UNAVAILABLE) from error
    except ClientError as error:
        if _code(error) in _THROTTLED:
            raise StoreThrottled(str(error)) from error
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise StoreUnavailable(_UNAVAILABLE) from error
        raise


def _condition(was: Record | None) -> dict[str, Any]:
    """What must be stored for a write to be done: the revision that it was based on, or nothing."""
    if was is None:
        return {"ConditionExpression": "attribute_not_exists(pk)"}
    return {
        "ConditionExpression": "revision = :was",
        "ExpressionAttributeValues": {":was": {"N": str(was.revision)}},
    }


def _key(key: Key) -> dict[str, Any]:
    return {"pk": {"S": key.pk}, "sk": {"S": key.sk}}


def _code(error: ClientError) -> str:
    return error.response.get("Error", {}).get("Code", "")


def _cancellation_codes(error: ClientError) -> list[str]:
    """Why each write of a cancelled transaction was not done, in the order of the writes."""
    reasons: Any = error.response.get("CancellationReasons", ())
    return [reason.get("Code", "") for reason in reasons]
