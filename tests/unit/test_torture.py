"""What torture looks for is found in a stream and in a history that have it, and in no others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from paddock.adapters.dynamodb.keys import key_of
from paddock.model.identity import ClusterName, NodeId, VirtualClusterId
from paddock.model.ledger import BucketUse, Ledger
from paddock.model.node import NodeStatus
from paddock.model.virtual_cluster import NodeInstance, VirtualCluster
from tests.fakes.world import World
from tests.torture.history import violations
from tests.torture.replay import CHANGES_OF_A_TRANSACTION, Judge
from tests.torture.roles import MAX_NODES

if TYPE_CHECKING:
    from paddock.model.node import Node
    from paddock.ports.repository import Record


class Stream:
    def __init__(self) -> None:
        self._judge = Judge()
        self._stored: dict[Any, Record] = {}

    def put(self, record: Record) -> list[str]:
        key = key_of(record)
        before = self._stored.get(key)
        self._stored[key] = record
        return list(self._judge.see(key, before, record))

    def delete(self, record: Record) -> list[str]:
        key = key_of(record)
        return list(self._judge.see(key, self._stored.pop(key), None))


@pytest.fixture(scope="module")
def node() -> Node:
    """A node that was just written down."""
    world = World()
    operation, _ = world.create(1)
    [made] = world.repository.nodes_made_by(operation)
    return made


def head(name: str, revision: int, *ids: NodeId) -> VirtualCluster:
    instances = {one: NodeInstance(hostname=one, template_id="4c8g") for one in ids}
    return VirtualCluster(
        id=VirtualClusterId(name), cluster=ClusterName("demo"), revision=revision, node_instances=instances
    )


def later(record: Any, **changes: Any) -> Any:
    return replace(record, revision=record.revision + 1, **changes)


def gone(node: Node) -> tuple[Node, Node]:
    return later(node, status=NodeStatus.FAILED), later(later(node), status=NodeStatus.FAILED)


def test_a_stream_in_order_has_nothing(node: Node) -> None:
    stream = Stream()
    failed, _ = gone(node)
    told = [stream.put(node), stream.put(later(node, virtual_cluster="a")), stream.put(head("a", 1, node.id))]
    told += [stream.put(head("a", 2)), stream.put(later(failed)), stream.delete(node)]
    assert [one for some in told for one in some] == []


def test_a_revision_that_did_not_grow_is_told() -> None:
    stream = Stream()
    assert stream.put(Ledger(cluster=ClusterName("demo"), revision=5)) == []
    assert stream.put(Ledger(cluster=ClusterName("demo"), revision=5)) != []
    assert stream.put(Ledger(cluster=ClusterName("demo"), revision=4)) != []


def test_a_removed_node_that_comes_back_is_told(node: Node) -> None:
    stream = Stream()
    stream.put(node)
    stream.put(gone(node)[0])
    assert stream.delete(node) == []
    assert any("is back" in one for one in stream.put(later(later(node))))


def test_two_nodes_of_one_name_are_told(node: Node) -> None:
    stream = Stream()
    stream.put(node)
    assert any("bear the name" in one for one in stream.put(replace(node, id=NodeId(node.id[:-1] + "2"))))


def test_a_node_in_two_virtual_clusters_is_told(node: Node) -> None:
    stream = Stream()
    stream.put(later(node, virtual_cluster="a"))
    assert stream.put(head("a", 1, node.id)) == []
    assert any("is in a and in b" in one for one in stream.put(head("b", 1, node.id)))


def test_a_member_that_does_not_know_is_told_after_the_transaction(node: Node) -> None:
    stream = Stream()
    stream.put(node)
    told = stream.put(head("a", 1, node.id))
    for number in range(CHANGES_OF_A_TRANSACTION + 1):
        assert told == []
        told = stream.put(Ledger(cluster=ClusterName("demo"), revision=number + 1))
    assert any("and says ''" in one for one in told)


def test_a_limit_that_is_exceeded_is_told() -> None:
    used = {"bucket": BucketUse(active=MAX_NODES + 1)}
    assert Stream().put(Ledger(cluster=ClusterName("demo"), revision=1, buckets=used)) != []


def test_a_change_of_state_that_there_may_not_be_is_told(node: Node) -> None:
    stream = Stream()
    stream.put(node)
    assert stream.put(later(node, status=NodeStatus.READY)) != []


def write(expected: int, revision: int, answer: str = "ok") -> dict[str, Any]:
    name = {"by": "client-0", "what": "write", "virtual_cluster": "a"}
    return {**name, "expected": expected, "revision": revision, "answer": answer}


def create(operation: str, answer: str = "ok", cluster_uid: str = "u") -> dict[str, Any]:
    name = {"by": "client-0", "what": "create", "cluster": "demo", "request": "r"}
    return {**name, "operation": operation, "cluster_uid": cluster_uid, "answer": answer}


@pytest.mark.parametrize(
    ("history", "is_told"),
    [
        ([write(1, 2), write(2, 3), write(2, 0, "RevisionConflict")], False),
        ([write(1, 2), write(1, 3)], True),
        ([write(3, 2)], True),
        ([create("o"), create("o", "DuplicateRequest")], False),
        ([create("o"), create("o")], True),
        ([create("o"), create("p", "DuplicateRequest")], True),
        ([create("o"), create("p")], True),
        ([create("o"), create("p", cluster_uid="of the next one")], False),
        ([create("", "unknown"), create("p", "DuplicateRequest")], False),
        ([{"by": "client-0", "what": "bug", "of": "create", "error": "KeyError()", "trace": ""}], True),
    ],
)
def test_what_a_history_tells(history: list[dict[str, Any]], is_told: bool) -> None:
    assert bool(list(violations(history))) is is_told
