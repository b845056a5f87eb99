"""Reading nodes, operations and status."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock.errors import InvalidRequest, NotFound
from paddock.model.identity import new_operation_id
from paddock.service.cluster_status import cluster_status
from paddock.service.operations import find_operation, get_operation
from paddock.service.read_nodes import list_nodes
from tests.fakes.clock import START
from tests.fakes.world import CLUSTER, World, nodearray

if TYPE_CHECKING:
    from collections.abc import Callable

NONE = ["", "x", "a#b", "é", "x" * 10_000, "a\n"]


def test_nodes_of_an_operation_are_found_by_its_id_and_by_its_request_id() -> None:
    world = World()
    first, _ = world.create(2, request_id="a")
    second, _ = world.create(1, request_id="b")
    for operation, request_id, expected in ((first, "a", 2), (second, "b", 1)):
        for query in ((operation.id, None), (None, request_id)):
            nodes, found = list_nodes(world.repository, CLUSTER, *query)
            assert (len(nodes), found) == (expected, operation)
        assert find_operation(world.repository, request_id) == get_operation(world.repository, operation.id)
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


@pytest.mark.parametrize("text", [*NONE, new_operation_id(START)])
def test_an_operation_that_does_not_exist_is_not_found(text: str) -> None:
    world = World()
    with pytest.raises(NotFound):
        get_operation(world.repository, text)
    with pytest.raises(NotFound):
        list_nodes(world.repository, CLUSTER, text, None)


@pytest.mark.parametrize("text", NONE)
def test_a_request_id_that_was_not_used_is_told_in_the_words_that_clients_look_for(text: str) -> None:
    world = World()
    with pytest.raises(NotFound, match="No operation found for request id"):
        list_nodes(world.repository, CLUSTER, None, text)
    assert find_operation(world.repository, text) is None


def test_an_operation_of_another_cluster_is_not_found_in_this_one() -> None:
    world = World()
    world.put({"nodearrays": [nodearray()]}, name="other")
    operation, _ = world.create(1, request_id="r")
    for query in ((operation.id, None), (None, "r")):
        with pytest.raises(NotFound):
            list_nodes(world.repository, "other", *query)


def test_operation_and_request_id_together_are_refused() -> None:
    world = World()
    operation, _ = world.create(1, request_id="r")
    with pytest.raises(InvalidRequest):
        list_nodes(world.repository, CLUSTER, operation.id, "r")


@pytest.mark.parametrize("cluster", ["other", *NONE])
@pytest.mark.parametrize(
    "read",
    [
        lambda world, cluster: list_nodes(world.repository, cluster, None, None),
        lambda world, cluster: cluster_status(world.repository, world.clock, cluster, with_nodes=True),
    ],
    ids=["nodes", "status"],
)
def test_a_cluster_that_does_not_exist_is_not_found(
    read: Callable[[World, str], object], cluster: str
) -> None:
    with pytest.raises(NotFound, match="No cluster found"):
        read(World(), cluster)
