"""Ending nodes: which are selected, and which may not be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from paddock.errors import DuplicateRequest, NotFound
from paddock.model.node import NodeStatus, TargetState
from paddock.model.operation import Action, OperationState
from paddock.nodes.manage import NodeResult, manage_nodes
from paddock.nodes.read import list_nodes
from paddock.requests.bodies import NodeManagementRequest
from tests.fakes import invariants
from tests.fakes.world import CLUSTER, World

if TYPE_CHECKING:
    from paddock.model.identity import ClusterName


def names(results: list[NodeResult]) -> list[str]:
    return [one.node.name for one in results]


def errors(results: list[NodeResult]) -> dict[str, str]:
    return {one.node.name: one.error for one in results if one.error}


@pytest.mark.proves("POST /clusters/{cluster}/nodes/terminate: 202")
@pytest.mark.parametrize("selector", ["ids", "names", "hostnames", "ip_addresses"])
def test_each_selector_selects(selector: str) -> None:
    world = World()
    one, _, other = world.ready(3)
    attribute = {"ids": "id", "names": "name", "hostnames": "hostname", "ip_addresses": "private_ip"}[
        selector
    ]
    operation, results = world.terminate(
        **{selector: [getattr(other, attribute), getattr(one, attribute), "unknown"]}
    )
    assert names(results) == ["ondemand-1", "ondemand-3"]
    assert errors(results) == {}
    assert operation.total == 2
    world.drive(operation)
    assert [node.name for node in world.nodes()] == ["ondemand-2"]


def test_selectors_are_a_union_and_a_node_is_ended_once() -> None:
    world = World()
    a, b, c, d, _ = world.ready(5)
    operation, results = world.terminate(
        ids=[a.id, a.id],
        names=[a.name, b.name],
        hostnames=[c.hostname],
        ip_addresses=[d.private_ip, "10.9.9.9"],
    )
    assert names(results) == [a.name, b.name, c.name, d.name]
    assert operation.total == 4
    assert world.drive(operation).state is OperationState.SUCCEEDED
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('Name === "ondemand-2"', ["ondemand-2"]),
        ('Name in {"ondemand-3", "ondemand-1", "none"}', ["ondemand-1", "ondemand-3"]),
        ('Template === "ondemand" && Name !== "ondemand-1"', ["ondemand-2", "ondemand-3"]),
        ('Color === "red" || Hostname === null', ["ondemand-3"]),
        ("Color === null", []),
        ("CoreCount === 4 && Memory === 8 && Interruptible === false", [f"ondemand-{i}" for i in (1, 2, 3)]),
        ('Status === "Ready" && PrivateIp in {null, ""}', []),
    ],
)
def test_a_filter_selects_by_the_attributes_that_a_list_of_nodes_shows(
    text: str, expected: list[str]
) -> None:
    world = World()
    world.ready(2)
    world.ready(1, nodeAttributes={"Color": "red"})
    _, results = world.terminate(filter=text)
    assert names(results) == expected


def test_a_filter_is_one_selector_of_the_union() -> None:
    world = World()
    world.ready(3)
    _, results = world.terminate(names=["ondemand-1"], filter='Name === "ondemand-3"')
    assert names(results) == ["ondemand-1", "ondemand-3"]


@pytest.mark.parametrize(
    "selectors",
    [
        {"names": ["none", "ONDEMAND-1", "ondemand"]},
        {"ids": ["ondemand-1", "0193f60f-0600-7366-a025-c09747900001"]},
        {"hostnames": ["ip-10-0-0-0.ec2.internal"]},
        {"ids": [], "names": []},
        {"filter": 'Name === "none"'},
    ],
    ids=str,
)
def test_to_select_nothing_is_no_error(selectors: dict[str, Any]) -> None:
    world = World()
    world.ready(1)
    operation, results = world.terminate(**selectors)
    assert results == []
    assert (operation.state, operation.total) == (OperationState.SUCCEEDED, 0)
    assert operation.finish_time
    assert world.repository.operation(operation.id) == operation
    assert not world.workflows.live


def test_nodes_without_an_address_are_not_selected_by_one() -> None:
    world = World()
    world.create(2)
    _, results = world.terminate(hostnames=["x"], ip_addresses=["10.0.0.1"])
    assert results == []


@pytest.mark.parametrize("selector", ["hostnames", "ip_addresses"])
def test_the_address_of_an_instance_that_has_ended_selects_nothing(selector: str) -> None:
    """Addresses are given again, to instances of other nodes."""
    world = World()
    [node] = world.ready(1, nodeAttributes={"Fixed": True})
    address = node.hostname if selector == "hostnames" else node.private_ip
    world.drive(world.terminate(ids=[node.id])[0])
    assert [left.status for left in world.nodes()] == [NodeStatus.OFF]
    assert world.terminate(**{selector: [address]})[1] == []


@pytest.mark.proves("node: Ready → Terminating")
def test_a_node_is_terminating_from_the_answer_on() -> None:
    world = World()
    world.ready(2)
    operation, results = world.terminate(names=["ondemand-1"])
    node = world.nodes()[0]
    assert (node.status, node.target_state) == (NodeStatus.TERMINATING, TargetState.TERMINATED)
    assert len(results) == 1
    assert list_nodes(world.repository, CLUSTER, operation.id, None)[0] == [node]
    assert len(world.alive()) == 2


# Nodes that may not be ended.


def test_keep_alive_refuses_its_node_alone() -> None:
    world = World()
    [kept] = world.ready(1, nodeAttributes={"KeepAlive": True})
    world.ready(1)
    operation, results = world.terminate(names=["ondemand-1", "ondemand-2"])
    assert errors(results).keys() == {"ondemand-1"}
    assert "KeepAlive" in errors(results)["ondemand-1"]
    assert world.drive(operation).state is OperationState.SUCCEEDED
    assert world.nodes() == [kept]
    assert world.alive() == {kept.instance_id}


def test_a_node_that_a_virtual_cluster_holds_is_refused_until_it_is_released() -> None:
    world = World()
    world.ready(2)
    held = list(world.claim("mine", x4c8g=1).node_instances)
    before = world.nodes()
    operation, results = world.terminate(ids=held)
    assert "virtual cluster mine" in results[0].error
    assert (operation.total, operation.state) == (0, OperationState.SUCCEEDED)
    assert world.nodes() == before
    world.release("mine")
    operation, results = world.terminate(ids=held)
    assert errors(results) == {}
    world.drive(operation)
    assert len(world.nodes()) == 1


def test_a_claim_that_comes_before_the_mark_stands() -> None:
    world = World()
    [node] = world.ready(1)
    operation, _ = world.terminate(names=["ondemand-1"])
    # As if the request had died between recording the operation and marking its node.
    [marked] = world.nodes()
    world.repository._records = {
        key: node if record == marked else record for key, record in world.repository._records.items()
    }
    world.claim("mine", x4c8g=1)
    ended = world.drive(operation)
    assert ended.state is OperationState.FAILED
    assert "virtual cluster mine" in ended.error
    assert world.alive() == {node.instance_id}
    assert invariants.at_rest(world) == []


# Again and again.


def test_to_terminate_twice_is_harmless() -> None:
    world = World()
    world.ready(2)
    first, _ = world.terminate(names=["ondemand-1"])
    second, results = world.terminate(names=["ondemand-1", "ondemand-2"])
    assert errors(results) == {}
    assert names(results) == ["ondemand-1", "ondemand-2"]
    assert [world.drive(one).state for one in (second, first)] == [OperationState.SUCCEEDED] * 2
    assert world.terminate(names=["ondemand-1"])[1] == []
    assert not world.alive()
    assert invariants.at_rest(world) == []


@pytest.mark.proves("an instance ended by hand: noticed, and a later terminate succeeds")
def test_an_instance_ended_by_hand_is_no_obstacle() -> None:
    world = World()
    one, other = world.ready(2)
    world.ec2.end(one.instance_id)
    world.ec2.lose(other.instance_id)
    world.clock.advance(60)
    operation, results = world.terminate(ids=[one.id, other.id])
    assert errors(results) == {}
    assert world.drive(operation).state is OperationState.SUCCEEDED
    assert world.nodes() == []
    assert invariants.at_rest(world) == []


@pytest.mark.proves("node: Failed → Terminating")
def test_a_failed_node_can_be_ended() -> None:
    world = World()
    world.ec2.capacity(1)
    world.ready(2)
    operation, results = world.terminate(names=["ondemand-1", "ondemand-2"])
    assert errors(results) == {}
    assert world.drive(operation).state is OperationState.SUCCEEDED
    assert world.nodes() == []


@pytest.mark.proves(
    "a name made again while its bearer ends: works once it is gone, and before that says why not",
)
def test_a_name_is_free_once_its_node_is_gone_and_not_before() -> None:
    world = World()
    [old] = world.ready(1)
    operation, _ = world.terminate(names=["ondemand-1"])
    assert world.create(1, nameFormat="ondemand-1")[1][0].count == 0
    world.drive(operation)
    [new] = world.ready(1, nameFormat="ondemand-1")
    assert new.id != old.id
    assert world.terminate(ids=[old.id])[1] == []


# Request ids.


@pytest.mark.proves("POST /clusters/{cluster}/nodes/terminate: 409")
def test_a_request_id_is_good_for_one_request_of_any_kind() -> None:
    world = World()
    created, _ = world.create(2, request_id="r")
    world.drive(created)
    with pytest.raises(DuplicateRequest) as error:
        world.terminate(names=["ondemand-1"], requestId="r")
    assert error.value.operation_id == created.id
    ended, _ = world.terminate(names=["ondemand-1"], requestId="s")
    with pytest.raises(DuplicateRequest):
        world.terminate(names=["ondemand-2"], requestId="s")
    with pytest.raises(DuplicateRequest):
        world.create(1, request_id="s")
    world.drive(ended)
    assert [node.name for node in world.nodes()] == ["ondemand-2"]


@pytest.mark.parametrize("cluster", ["other", "", "a#b"])
def test_a_cluster_that_does_not_exist_has_no_nodes_to_end(cluster: ClusterName) -> None:
    world = World()
    body = NodeManagementRequest.model_validate({"names": ["ondemand-1"]})
    with pytest.raises(NotFound):
        manage_nodes(world.store, world.workflows, cluster, Action.TERMINATE, body)


@pytest.mark.proves("1,000 nodes up and down: none left")
def test_a_thousand_nodes_go_up_and_down_and_none_is_left() -> None:
    world = World()
    nodes = world.ready(1_000)
    assert len(world.alive()) == 1_000
    operation, results = world.terminate(ids=[node.id for node in nodes])
    assert len(results) == 1_000
    assert world.drive(operation).state is OperationState.SUCCEEDED
    assert not world.alive()
    assert world.nodes() == []
    assert invariants.at_rest(world) == []
    # One fleet takes 500; one termination, asked for again while it lasts, and descriptions take 1,000.
    assert world.ec2.calls["CreateFleet"] == 2
    assert world.ec2.calls["TerminateInstances"] <= 2


def test_what_a_request_has_no_time_to_mark_is_marked_by_the_workflow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.ready(3)
    monkeypatch.setattr("paddock.nodes.manage.REQUEST_NS", 0)
    operation, results = world.terminate(names=["ondemand-1", "ondemand-2"])
    assert [one.error for one in results] == ["", ""]
    assert {node.status for node in world.nodes()} == {NodeStatus.READY}
    assert world.drive(operation).state is OperationState.SUCCEEDED
    assert [node.name for node in world.nodes()] == ["ondemand-3"]
    assert invariants.at_rest(world) == []
