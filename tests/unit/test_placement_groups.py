"""Placement groups in the cloud: made when they are used, deleted when no node is in them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from botocore.exceptions import ClientError

from paddock.adapters.ec2 import group_name
from paddock.clusters.write import delete_cluster
from paddock.errors import NodesInUse
from paddock.model.identity import ClusterName, OperationId
from paddock.model.operation import Action, OperationState
from paddock.nodes.placement_groups import GROUPS_PER_RUN, cloud_placement_group, delete_empty_groups
from paddock.ports.compute import LaunchRequest
from paddock.reconcile.run import Report
from tests.fakes import invariants
from tests.fakes.compute import DEPLOYMENT
from tests.fakes.ec2 import ANSWER_LOST
from tests.fakes.world import CLUSTER, World, bucket, nodearray

if TYPE_CHECKING:
    from paddock.model.operation import Operation

RING = f"{DEPLOYMENT}/demo/ondemand/ring"


def groups(world: World) -> list[str]:
    return sorted(world.ec2.snapshot()["groups"])


def end(world: World, *names: str) -> Operation:
    operation, _ = world.terminate(names=list(names))
    return world.drive(operation)


def test_a_group_is_deleted_once_its_last_node_is_gone() -> None:
    world = World()
    world.ready(2, placementGroupId="ring")
    assert groups(world) == [RING]
    end(world, "ondemand-1")
    assert groups(world) == [RING]
    end(world, "ondemand-2")
    assert groups(world) == []
    assert world.ec2.calls["DeletePlacementGroup"] == 1
    assert invariants.at_rest(world) == []


def test_long_names_fit_and_stay_apart() -> None:
    array, groups_of_one = "a" * 63, ["g" * 63 + "1", "g" * 63 + "2"]
    names = {
        group_name(DEPLOYMENT, cloud_placement_group(ClusterName("c" * 128), array, one))
        for one in groups_of_one
    }
    assert len(names) == 2
    assert all(len(name) <= 255 for name in names)


def test_no_call_is_made_for_nodes_in_no_group() -> None:
    world = World()
    world.ready(2)
    end(world, "ondemand-1", "ondemand-2")
    assert world.ec2.calls["DeletePlacementGroup"] == 0


def test_a_failed_node_keeps_its_group_until_it_is_removed() -> None:
    world = World()
    world.ec2.capacity(0)
    world.ready(1, placementGroupId="ring")
    assert groups(world) == [RING]
    assert invariants.at_rest(world) == []
    end(world, "ondemand-1")
    assert groups(world) == []
    assert invariants.at_rest(world) == []


def test_groups_of_one_name_in_two_node_arrays_end_each_on_its_own() -> None:
    world = World(nodearray("a"), nodearray("b"))
    world.create_sets(*({"count": 1, "nodearray": name, "placementGroupId": "ring"} for name in ("a", "b")))
    world.drive_all()
    end(world, "a-1")
    assert groups(world) == [f"{DEPLOYMENT}/demo/b/ring"]
    assert invariants.at_rest(world) == []


def test_a_group_that_is_used_again_is_made_again_and_may_have_another_machine_type() -> None:
    world = World(nodearray("ondemand", bucket("c7i-large"), bucket("c7i-xlarge")))
    for machine_type in ("c7i-large", "c7i-xlarge"):
        [node] = world.ready(1, placementGroupId="ring", definition={"machineType": machine_type})
        assert (node.status, groups(world)) == ("Ready", [RING])
        end(world, "ondemand-1")
        assert groups(world) == []
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize(
    ("other", "reason"),
    [("c7i-large", "ring has room for 0"), ("c7i-xlarge", "ring has machine type c7i-xlarge")],
)
def test_a_start_is_held_by_its_group_as_a_create_is(other: str, reason: str) -> None:
    """The places of a deallocated node are free for others; with those in them, it has to wait."""
    world = World(nodearray("ondemand", bucket("c7i-large", maxPlacementGroupSize=1), bucket("c7i-xlarge")))
    [node] = world.ready(1, placementGroupId="ring", definition={"machineType": "c7i-large"})
    world.drive(world.manage(Action.DEALLOCATE, ids=[node.id])[0])
    world.create(1, placementGroupId="ring", definition={"machineType": other})
    operation, [result] = world.manage(Action.START, ids=[node.id])
    assert result.error == f"placement group {reason}"
    assert world.drive(operation).state is OperationState.FAILED
    world.drive_all()
    end(world, "ondemand-2")
    operation, [result] = world.manage(Action.START, ids=[node.id])
    assert result.error == ""
    assert world.drive(operation).state is OperationState.SUCCEEDED
    assert invariants.at_rest(world) == []


def test_a_create_that_uses_the_group_while_it_is_deleted_makes_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The create comes after the ledger was read and before the cloud is asked: its record wins."""
    world = World()
    world.ready(1, placementGroupId="ring")
    delete = world.compute.delete_placement_group
    made: list[Operation] = []

    def meanwhile(name: str) -> bool:
        monkeypatch.undo()
        made.append(world.create(1, placementGroupId="ring")[0])
        return delete(name)

    monkeypatch.setattr(world.compute, "delete_placement_group", meanwhile)
    end(world, "ondemand-1")
    assert groups(world) == []
    assert world.drive(made[0]).state is OperationState.SUCCEEDED
    assert groups(world) == [RING]
    assert invariants.at_rest(world) == []


def test_a_group_that_vanishes_between_the_calls_of_a_launch_costs_a_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    call = world.ec2.call

    def deleted_meanwhile(name: str, asked: dict[str, object]) -> dict[str, object]:
        if name == "CreateFleet":
            monkeypatch.undo()
            call("DeletePlacementGroup", {"GroupName": RING})
        return call(name, asked)

    monkeypatch.setattr(world.ec2, "call", deleted_meanwhile)
    operation, _ = world.create(2, placementGroupId="ring")
    assert world.drive(operation).state is OperationState.SUCCEEDED
    assert len(world.alive()) == 2
    assert world.ec2.calls["CreateFleet"] == 2
    assert invariants.at_rest(world) == []


def test_a_group_in_use_is_left_for_the_reconciler() -> None:
    world = World()
    world.ready(1, placementGroupId="ring")
    foreign = world.compute.launch(_foreign())
    assert end(world, "ondemand-1").state is OperationState.SUCCEEDED
    assert groups(world) == [RING]
    assert world.reconcile() == Report()
    world.compute.terminate(foreign.instance_ids)
    world.clock.advance(10)
    assert world.reconcile() == Report(tidied=1)
    assert groups(world) == []


def _foreign(group: str = "ring") -> LaunchRequest:
    """An instance in the group that is no node's."""
    return LaunchRequest(
        client_token=f"foreign-{group}",
        cluster=ClusterName("other"),
        operation_id=OperationId("other"),
        count=1,
        instance_type="c7i.xlarge",
        launch_template_id="lt-0123456789abcdef0",
        launch_template_version="1",
        subnet_ids=("subnet-00000001",),
        placement_group=cloud_placement_group(CLUSTER, "ondemand", group),
    )


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "InternalError", ANSWER_LOST])
def test_a_busy_cloud_holds_up_no_operation_and_the_reconciler_deletes_later(code: str) -> None:
    world = World()
    world.ready(1, placementGroupId="ring")
    world.ec2.fail_next("DeletePlacementGroup", code, times=2)
    assert end(world, "ondemand-1").state is OperationState.SUCCEEDED
    assert groups(world) == [RING]
    assert world.reconcile() == Report(failed=1)
    assert groups(world) == [RING]
    assert world.reconcile() == Report(tidied=1)
    assert groups(world) == []
    assert world.reconcile() == Report()
    assert invariants.at_rest(world) == []


@pytest.mark.parametrize("code", ["UnauthorizedOperation", "NoCodeThatIsKnown"])
def test_a_group_that_may_not_be_deleted_holds_up_no_operation(code: str) -> None:
    """It was there before, perhaps, and so has not the tag by which policies know ours."""
    world = World()
    world.ready(1, placementGroupId="ring")
    world.ec2.fail_next("DeletePlacementGroup", code, times=1000)
    ending, _ = world.terminate(names=["ondemand-1"])
    other, _ = world.create(1)
    for operation in (ending, other):
        with suppress(ClientError):
            world.drive(operation)
        assert world.operation(operation.id).state is OperationState.SUCCEEDED
    assert groups(world) == [RING]


def test_groups_that_cannot_be_deleted_yet_hold_up_no_others() -> None:
    world = World()
    names = [f"ring-{number:03}" for number in range(GROUPS_PER_RUN + 1)]
    world.create_sets(*({"nodearray": "ondemand", "count": 1, "placementGroupId": name} for name in names))
    world.drive_all()
    for name in names[:-1]:
        world.compute.launch(_foreign(name))
    world.terminate(names=[node.name for node in world.nodes()])
    world.drive_all()
    world.settle()
    assert [one for one in groups(world) if one.endswith(names[-1])] == []


def test_a_cluster_is_not_deleted_before_its_groups_are() -> None:
    """Its ledger is the only record of them."""
    world = World()
    world.ready(1, placementGroupId="ring")
    world.ec2.fail_next("DeletePlacementGroup", "RequestLimitExceeded", times=1)
    end(world, "ondemand-1")
    with pytest.raises(NodesInUse) as error:
        delete_cluster(world.store, CLUSTER, None)
    assert error.value.placement_groups == ["ondemand/ring"]
    world.reconcile()
    delete_cluster(world.store, CLUSTER, None)
    assert groups(world) == []


def test_one_run_deletes_a_bounded_number() -> None:
    world = World()
    count = GROUPS_PER_RUN + 5
    sets = [{"count": 1, "nodearray": "ondemand", "placementGroupId": f"g{n}"} for n in range(count)]
    world.create_sets(*sets)
    world.drive_all()
    assert len(groups(world)) == count
    end(world, *(node.name for node in world.nodes()))
    assert len(groups(world)) == 5
    assert delete_empty_groups(world.store, world.compute, CLUSTER) == 5
    assert groups(world) == []
    assert invariants.at_rest(world) == []


def test_there_is_nothing_to_delete_of_a_cluster_that_is_gone() -> None:
    world = World()
    assert delete_empty_groups(world.store, world.compute, ClusterName("other")) == 0


# One zone for all that must be together.

HERE, THERE = "subnet-00000001", "subnet-00000002"


def launched_in(world: World) -> list[str]:
    return [one["subnet_id"] for one in world.ec2.snapshot()["instances"].values()]


@pytest.mark.parametrize("interruptible", [False, True])
def test_a_group_comes_up_where_all_of_it_fits(*, interruptible: bool) -> None:
    world = World(nodearray(interruptible=interruptible))
    world.ec2.capacity(1, subnet_id=HERE)
    nodes = world.ready(3, placementGroupId="ring")
    assert [node.status.value for node in nodes] == ["Ready"] * 3
    assert launched_in(world) == [THERE] * 3
    assert invariants.at_rest(world) == []


def test_a_group_that_fits_nowhere_comes_up_as_far_as_it_goes() -> None:
    world = World()
    world.ec2.capacity(1, subnet_id=HERE)
    world.ec2.capacity(2, subnet_id=THERE)
    operation, _ = world.create(3, placementGroupId="ring")
    ended = world.drive(operation)
    assert (ended.succeeded, ended.failed) == (1, 2)
    assert "InsufficientInstanceCapacity" in ended.error
    assert launched_in(world) == [HERE]
    assert world.ec2.calls["CreateFleet"] == 4
    assert invariants.at_rest(world) == []


def test_nodes_that_join_a_group_come_up_in_its_zone() -> None:
    world = World()
    world.ec2.capacity(0, subnet_id=HERE)
    world.ready(1, placementGroupId="ring")
    world.ec2.capacity(None, subnet_id=HERE)
    nodes = world.ready(2, placementGroupId="ring")
    assert [node.status.value for node in nodes] == ["Ready"] * 2
    assert launched_in(world) == [THERE] * 3
    assert invariants.at_rest(world) == []


def test_one_node_is_asked_for_once_in_each_subnet() -> None:
    world = World()
    world.ec2.capacity(0)
    world.ready(1, placementGroupId="ring")
    assert world.ec2.calls["CreateFleet"] == 2


def test_a_group_uses_all_subnets_of_its_zone() -> None:
    world = World()
    world.ec2.zones({HERE: "us-east-1a", THERE: "us-east-1a"})
    world.put({"nodearrays": [nodearray()]}, world.revision())
    for subnet_id in (HERE, THERE):
        world.ec2.capacity(2, subnet_id=subnet_id, code="InsufficientFreeAddressesInSubnet")
    nodes = world.ready(3, placementGroupId="ring")
    assert [node.status.value for node in nodes] == ["Ready"] * 3
    assert launched_in(world) == [HERE, HERE, THERE]
    assert invariants.at_rest(world) == []
