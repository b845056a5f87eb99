"""Reading nodes, operations and status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from paddock.clusters.status import cluster_status
from paddock.errors import InvalidRequest, NotFound
from paddock.model.identity import ClusterName, OperationId, RequestId
from paddock.nodes.read import list_nodes, page_of_nodes
from paddock.operations.read import find_operation, get_operation
from paddock.virtual_clusters.write import list_virtual_clusters
from tests.fakes.world import CLUSTER, World, nodearray

if TYPE_CHECKING:
    from collections.abc import Callable

NONE = ["", "x", "a#b", "é", "x" * 10_000, "a\n"]


@pytest.mark.proves("GET /clusters/{cluster}/nodes: 200")
def test_nodes_of_an_operation_are_found_by_its_id_and_by_its_request_id() -> None:
    world = World()
    first, _ = world.create(2, request_id="a")
    second, _ = world.create(1, request_id="b")
    for operation, request_id, expected in ((first, "a", 2), (second, "b", 1)):
        for query in ((operation.id, None), (None, request_id)):
            nodes, found = list_nodes(world.repository, CLUSTER, *query)
            assert (len(nodes), found) == (expected, operation)
        assert find_operation(world.repository, RequestId(request_id)) == get_operation(
            world.repository, operation.id
        )
    nodes, none = list_nodes(world.repository, CLUSTER, None, None)
    assert (len(nodes), none) == (3, None)


def test_nodes_that_are_gone_are_not_among_those_of_their_operations() -> None:
    world = World()
    created, _ = world.create(2)
    world.drive(created)
    ended, _ = world.terminate(names=["ondemand-1"])
    assert [node.name for node in get_operation(world.repository, ended.id)[1]] == ["ondemand-1"]
    world.drive(ended)
    assert get_operation(world.repository, ended.id)[1] == []
    assert [node.name for node in get_operation(world.repository, created.id)[1]] == ["ondemand-2"]


@pytest.mark.proves("GET /operations/{operation}: 404")
@pytest.mark.parametrize("text", [*NONE, "0193f60f-0600-7366-a025-c09747900000"])
def test_an_operation_that_does_not_exist_is_not_found(text: str) -> None:
    world = World()
    with pytest.raises(NotFound):
        get_operation(world.repository, OperationId(text))
    with pytest.raises(NotFound):
        list_nodes(world.repository, CLUSTER, OperationId(text), None)


@pytest.mark.parametrize("text", NONE)
def test_a_request_id_that_was_not_used_is_told_in_the_words_that_clients_look_for(text: str) -> None:
    world = World()
    with pytest.raises(NotFound, match="No operation found for request id"):
        list_nodes(world.repository, CLUSTER, None, RequestId(text))
    assert find_operation(world.repository, RequestId(text)) is None


def test_an_operation_of_another_cluster_is_not_found_in_this_one() -> None:
    world = World()
    world.put({"nodearrays": [nodearray()]}, name="other")
    operation, _ = world.create(1, request_id="r")
    for query in ((operation.id, None), (None, "r")):
        with pytest.raises(NotFound):
            list_nodes(world.repository, ClusterName("other"), *query)


def test_operation_and_request_id_together_are_refused() -> None:
    world = World()
    operation, _ = world.create(1, request_id="r")
    with pytest.raises(InvalidRequest):
        list_nodes(world.repository, CLUSTER, operation.id, RequestId("r"))


@pytest.mark.parametrize("cluster", ["other", *NONE])
@pytest.mark.parametrize(
    "read",
    [
        lambda world, cluster: list_nodes(world.repository, cluster, None, None),
        lambda world, cluster: cluster_status(world.store, cluster, with_nodes=True),
        lambda world, cluster: page_of_nodes(world.repository, cluster),
    ],
    ids=["nodes", "page", "status"],
)
def test_a_cluster_that_does_not_exist_is_not_found(
    read: Callable[[World, str], object], cluster: ClusterName
) -> None:
    with pytest.raises(NotFound, match="No cluster found"):
        read(World(), cluster)


# Pages.


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6, 100, None])
@pytest.mark.parametrize("query", ["", "operation", "request_id", "terminate"])
def test_pages_hold_each_node_once_whatever_was_asked_for(query: str, limit: int | None) -> None:
    world = World()
    other, _ = world.create(2)
    created, _ = world.create(5, request_id="r")
    ended, _ = world.terminate(ids=[node.id for node in world.nodes() if node.created_by == created.id])
    choices: dict[str, tuple[dict[str, Any], int]] = {
        "": ({}, 7),
        "operation": ({"operation_id": created.id}, 5),
        "request_id": ({"request_id": "r"}, 5),
        "terminate": ({"operation_id": ended.id}, 5),
    }
    asked, expected = choices[query]
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        page = page_of_nodes(world.repository, CLUSTER, **asked, limit=limit, after=after)
        assert 1 <= len(page.nodes) <= (limit or expected)
        found += [node.id for node in page.nodes]
        after = page.next_token
        # What is told of the operation does not depend on the page.
        assert (page.operation is not None) is bool(query)
        assert len(page.operation_nodes) == (expected if query else 0)
    assert found == sorted(set(found))
    assert len(found) == expected
    assert other.id not in found


@pytest.mark.proves("pages while nodes come and go: each that stays exactly once")
def test_a_node_that_stays_is_in_one_page_while_others_come_and_go() -> None:
    world = World()
    world.ready(6)
    stay = [node.id for node in world.nodes()[1::2]]
    first = page_of_nodes(world.repository, CLUSTER, limit=3)
    assert first.next_token is not None
    world.drive(world.terminate(ids=[node.id for node in world.nodes()[::2]])[0])
    # Ids follow each other in time, so what is new comes last.
    world.clock.advance(1)
    world.create(2)
    rest = page_of_nodes(world.repository, CLUSTER, limit=10, after=first.next_token)
    seen = [node.id for node in (*first.nodes, *rest.nodes)]
    assert [seen.count(one) for one in stay] == [1, 1, 1]
    assert len(seen) == len(set(seen)) == 3 + 2 + 2
    assert rest.next_token is None


def test_a_page_that_ends_with_the_last_node_says_that_it_is_the_last() -> None:
    world = World()
    world.create(4)
    assert page_of_nodes(world.repository, CLUSTER, limit=4).next_token is None
    assert page_of_nodes(world.repository, CLUSTER, limit=3).next_token is not None


@pytest.mark.parametrize("token", ["x", "a#b", "é", "x" * 10_000, " "])
def test_a_token_that_no_reply_gave_is_refused(token: str) -> None:
    with pytest.raises(InvalidRequest, match="nextToken must be"):
        page_of_nodes(World().repository, CLUSTER, after=token)
    with pytest.raises(InvalidRequest, match="nextToken must be"):
        list_virtual_clusters(World().repository, None, "#" + token)
