"""What the ``Compute`` port promises, of the fake and of the real adapter over the wire alike."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.config import Config

from paddock.adapters.ec2 import Ec2Compute, group_name, refusal_kind
from paddock.errors import ComputeThrottled, ComputeUnavailable, LaunchRefused
from paddock.model.identity import ClusterName, InstanceId, NodeId, OperationId
from paddock.model.instance import InstanceState
from paddock.ports.compute import LaunchRequest, LaunchResult, MachineFacts, Refusal, RefusalKind
from tests.emulator.ec2_server import Ec2Server, serving
from tests.fakes.compute import DEPLOYMENT, FakeCompute
from tests.fakes.ec2 import ANSWER_LOST, FakeEc2, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mypy_boto3_ec2 import EC2Client

    from paddock.ports.compute import Compute

UNKNOWN = InstanceId("i-0123456789abcdef0")
RING = group_name(DEPLOYMENT, "ring")
OPERATION = OperationId("operation-1")
EAST, WEST = "subnet-0000000000000000e", "subnet-0000000000000000f"
CAPACITY_CODES = (
    "InsufficientInstanceCapacity",
    "InsufficientHostCapacity",
    "InsufficientReservedInstanceCapacity",
    "MaxSpotInstanceCountExceeded",
    "VcpuLimitExceeded",
    "InstanceLimitExceeded",
    "UnfulfillableCapacity",
    "Unsupported",
    "InsufficientFreeAddressesInSubnet",
    "MaxFleetCountExceeded",
    "ReservationCapacityExceeded",
    "SpotMaxPriceTooLow",
)


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.seconds = 1_800_000_000.0

    def __call__(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


@dataclass(frozen=True)
class Cloud:
    """The port under test, and the EC2 behind it."""

    compute: Compute
    ec2: FakeEc2
    clock: Clock

    def launch(self, count: int = 1, attempt: int = 0, **changes: object) -> list[InstanceId]:
        """Launch that many, and answer with their ids."""
        return list(self.compute.launch(request(attempt, count=count, **changes)).instance_ids)

    def records(self, field: str) -> list[object]:
        """That field of every instance as EC2 has it, in the order of launch."""
        return [record[field] for record in self.ec2.snapshot()["instances"].values()]

    def states(self, *ids: InstanceId) -> set[str]:
        return {instance.state.value for instance in self.compute.describe(ids).values()}


def request(attempt: int = 0, /, **changes: object) -> LaunchRequest:
    """A launch on behalf of operation-1; another attempt has another token."""
    usual = LaunchRequest(
        client_token=f"operation-1.0.{attempt}",
        cluster=ClusterName("alpha"),
        operation_id=OPERATION,
        count=2,
        instance_type="c5.large",
        launch_template_id="lt-0123456789abcdef0",
        launch_template_version="1",
        subnet_ids=(EAST, WEST),
    )
    return dataclasses.replace(usual, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def server() -> Iterator[Ec2Server]:
    with serving(FakeEc2(Clock())) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: Ec2Server) -> EC2Client:
    """A client with dummy credentials that never retries, so that each test sees EC2's own answer."""
    session = boto3.Session("testing", "testing", region_name="us-east-1")
    config = Config(retries={"total_max_attempts": 1}, read_timeout=30)
    return session.client("ec2", endpoint_url=server.url, config=config)


@pytest.fixture(params=["fake", "wire"])
def cloud(request: pytest.FixtureRequest) -> Cloud:
    clock = Clock()
    ec2 = FakeEc2(clock, Settings(boot_seconds=30, terminate_seconds=20))
    if request.param == "fake":
        return Cloud(FakeCompute(ec2), ec2, clock)
    request.getfixturevalue("server").fake = ec2
    return Cloud(Ec2Compute(request.getfixturevalue("client"), DEPLOYMENT), ec2, clock)


# Launch.


def test_a_launch_gives_the_number_asked_for_with_ids_sorted(cloud: Cloud) -> None:
    result = cloud.compute.launch(request(count=12))
    assert len(set(result.instance_ids)) == 12
    assert list(result.instance_ids) == sorted(result.instance_ids)
    assert result.refusals == ()
    assert cloud.ec2.calls == {"CreateFleet": 1}


def test_the_same_token_again_answers_with_the_same_instances_and_launches_nothing(cloud: Cloud) -> None:
    first = cloud.compute.launch(request())
    assert cloud.compute.launch(request()) == first
    assert len(cloud.compute.launched_by(ClusterName("alpha"), OPERATION)) == 2


def test_the_same_token_sent_by_many_at_once_launches_once(cloud: Cloud) -> None:
    with ThreadPoolExecutor(8) as pool:
        results = set(pool.map(cloud.compute.launch, [request()] * 16))
    assert len(results) == 1
    assert len(cloud.compute.launched_by(ClusterName("alpha"), OPERATION)) == 2


def test_another_token_launches_anew(cloud: Cloud) -> None:
    assert not set(cloud.launch(2)) & set(cloud.launch(2, attempt=1))


@pytest.mark.parametrize(
    "change",
    [
        {"count": 3},
        {"instance_type": "c5.xlarge"},
        {"subnet_ids": (EAST,)},
        {"interruptible": True},
        {"cluster": "beta"},
    ],
)
def test_the_same_token_with_other_parameters_is_refused(cloud: Cloud, change: dict[str, object]) -> None:
    cloud.compute.launch(request())
    with pytest.raises(LaunchRefused) as refused:
        cloud.compute.launch(request(**change))
    assert refused.value.code == "IdempotentParameterMismatch"


@pytest.mark.parametrize("code", CAPACITY_CODES)
def test_a_shortage_is_an_answer_with_the_reasons(cloud: Cloud, code: str) -> None:
    cloud.ec2.capacity(3, code=code)
    result = cloud.compute.launch(request(count=5))
    assert len(result.instance_ids) == 3
    assert {refusal.code for refusal in result.refusals} == {code}
    assert all(refusal.message for refusal in result.refusals)
    assert result.refusal_kind is RefusalKind.CAPACITY


@pytest.mark.parametrize("code", CAPACITY_CODES)
def test_a_shortage_that_fails_the_whole_call_is_an_answer_too(cloud: Cloud, code: str) -> None:
    cloud.ec2.fail_next("CreateFleet", code)
    result = cloud.compute.launch(request())
    assert result.instance_ids == ()
    assert [refusal.code for refusal in result.refusals] == [code]
    assert result.refusal_kind is RefusalKind.CAPACITY


def test_a_shortage_stays_the_answer_of_its_token(cloud: Cloud) -> None:
    cloud.ec2.capacity(0)
    short = cloud.compute.launch(request())
    cloud.ec2.capacity(None)
    assert cloud.compute.launch(request()) == short
    assert len(cloud.launch(2, attempt=1)) == 2


def test_the_next_subnet_is_used_when_the_first_has_no_capacity(cloud: Cloud) -> None:
    cloud.ec2.capacity(1, subnet_id=EAST)
    result = cloud.compute.launch(request(count=3))
    assert len(result.instance_ids) == 3
    assert result.refusals == ()
    assert cloud.records("subnet_id") == [EAST, WEST, WEST]


def test_the_first_subnet_takes_all_it_can(cloud: Cloud) -> None:
    cloud.launch(3, subnet_ids=(WEST, EAST))
    assert cloud.records("subnet_id") == [WEST] * 3


def test_an_interruptible_launch_is_of_the_spot_market(cloud: Cloud) -> None:
    cloud.launch(1, interruptible=True)
    cloud.launch(1, attempt=1)
    assert cloud.records("market") == ["spot", "on-demand"]


def test_an_unknown_launch_template_refuses_the_launch(cloud: Cloud) -> None:
    cloud.ec2.templates(["lt-00000000000000001"])
    with pytest.raises(LaunchRefused) as refused:
        cloud.compute.launch(request())
    assert refused.value.code == "InvalidLaunchTemplateId.NotFound"


@pytest.mark.parametrize(
    "code", ["UnauthorizedOperation", "InvalidParameterValue", "InvalidLaunchTemplateId.NotFound"]
)
def test_a_fault_in_the_request_refuses_the_launch(cloud: Cloud, code: str) -> None:
    cloud.ec2.fail_next("CreateFleet", code)
    with pytest.raises(LaunchRefused) as refused:
        cloud.compute.launch(request())
    assert refused.value.code == code


@pytest.mark.parametrize("remaining", [0, 3])
@pytest.mark.parametrize(
    "code", ["RequestLimitExceeded", "Throttling", "InternalError", "InvalidPlacementGroup.Unknown"]
)
def test_throttling_of_an_override_is_an_answer_since_its_token_is_used_up(
    cloud: Cloud, code: str, remaining: int
) -> None:
    cloud.ec2.capacity(remaining, code=code)
    result = cloud.compute.launch(request(count=5))
    assert len(result.instance_ids) == remaining
    assert {(refusal.code, refusal.kind) for refusal in result.refusals} == {(code, RefusalKind.THROTTLED)}
    cloud.ec2.capacity(None)
    assert cloud.compute.launch(request(count=5)) == result
    assert len(cloud.launch(5 - remaining, attempt=1)) == 5 - remaining


def test_a_throttled_subnet_beside_one_without_capacity_may_still_do(cloud: Cloud) -> None:
    cloud.ec2.capacity(0, subnet_id=EAST)
    cloud.ec2.capacity(0, subnet_id=WEST, code="RequestLimitExceeded")
    result = cloud.compute.launch(request())
    assert {refusal.kind for refusal in result.refusals} == {RefusalKind.CAPACITY, RefusalKind.THROTTLED}
    assert result.refusal_kind is RefusalKind.THROTTLED


def test_a_fault_in_one_subnet_does_not_hide_that_another_lacks_capacity(cloud: Cloud) -> None:
    cloud.ec2.capacity(0, subnet_id=EAST)
    cloud.ec2.capacity(0, subnet_id=WEST, code="InvalidParameterValue")
    result = cloud.compute.launch(request())
    assert {refusal.kind for refusal in result.refusals} == {RefusalKind.CAPACITY, RefusalKind.FAULT}
    assert result.refusal_kind is RefusalKind.CAPACITY


@pytest.mark.parametrize("code", ["InvalidParameterValue", "UnauthorizedOperation", "MissingParameter"])
def test_what_the_request_would_meet_everywhere_is_a_fault(cloud: Cloud, code: str) -> None:
    cloud.ec2.capacity(1, code=code)
    result = cloud.compute.launch(request())
    assert len(result.instance_ids) == 1
    assert {refusal.kind for refusal in result.refusals} == {RefusalKind.FAULT}
    assert result.refusal_kind is RefusalKind.FAULT
    unheard = Refusal(kind=RefusalKind.FAULT, code=code, message="")
    assert LaunchResult(instance_ids=(), refusals=(unheard,)).refusal_kind is RefusalKind.FAULT


def test_a_fault_that_only_the_overrides_report_refuses_the_launch(cloud: Cloud) -> None:
    cloud.ec2.capacity(0, code="UnauthorizedOperation")
    with pytest.raises(LaunchRefused) as refused:
        cloud.compute.launch(request())
    assert refused.value.code == "UnauthorizedOperation"


@pytest.mark.parametrize("code", ["InvalidSubnetID.NotFound", "InsufficientSpareUnicorns", ""])
def test_a_code_that_nobody_has_listed_speaks_of_here_and_now(cloud: Cloud, code: str) -> None:
    cloud.ec2.capacity(1, code=code)
    result = cloud.compute.launch(request())
    assert (len(result.instance_ids), result.refusal_kind) == (1, RefusalKind.CAPACITY)
    cloud.ec2.fail_next("CreateFleet", code)
    assert cloud.compute.launch(request(1)).refusal_kind is RefusalKind.CAPACITY


@pytest.mark.parametrize("whole", [False, True])
def test_a_type_that_a_zone_does_not_offer_is_a_shortage_there(cloud: Cloud, *, whole: bool) -> None:
    cloud.ec2.zones({EAST: "us-east-1a", WEST: "us-east-1b"})
    cloud.ec2.offering("c5.large", "us-east-1a", offered=False, refuses_whole_fleet=whole)
    result = cloud.compute.launch(request(subnet_ids=(EAST,)))
    assert [(one.code, one.kind) for one in result.refusals] == [
        ("InvalidFleetConfiguration", RefusalKind.CAPACITY)
    ]
    assert len(cloud.launch(2, attempt=1)) == (0 if whole else 2)
    assert len(cloud.launch(2, attempt=2, instance_type="c5.xlarge")) == 2


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("The architecture of the instance type is not that of the image.", RefusalKind.CAPACITY),
        ("That is not to be had in this Availability Zone.", RefusalKind.CAPACITY),
        ("Virtualization of that kind is required for instances of type 't2.micro'.", RefusalKind.CAPACITY),
        ("Value () for parameter groupId is invalid.", RefusalKind.FAULT),
        ("Cluster placement groups are not supported by the instance type.", RefusalKind.FAULT),
    ],
)
def test_a_parameter_that_is_wrong_for_one_type_may_be_right_for_the_next(
    message: str, kind: RefusalKind
) -> None:
    assert refusal_kind("InvalidParameterValue", message) is kind


def test_two_subnets_of_one_zone_in_one_call_are_refused_by_the_cloud(cloud: Cloud) -> None:
    cloud.ec2.zones({EAST: "us-east-1a", WEST: "us-east-1a"})
    result = cloud.compute.launch(request())
    assert [refusal.code for refusal in result.refusals] == ["InvalidFleetConfig"]
    assert result.instance_ids == ()


def test_zones_are_told_of_the_subnets_that_there_are(cloud: Cloud) -> None:
    many = [f"subnet-{number:017x}" for number in range(450)]
    cloud.ec2.subnets([EAST, WEST, *many])
    cloud.ec2.zones({EAST: "us-east-1a", WEST: "us-east-1b"})
    zones = cloud.compute.subnet_zones([EAST, WEST, "subnet-00000009", *many])
    assert zones.keys() == {EAST, WEST, *many}
    assert (zones[EAST], zones[WEST]) == ("us-east-1a", "us-east-1b")
    assert cloud.ec2.calls["DescribeSubnets"] == 3


@pytest.mark.parametrize("interruptible", [False, True])
def test_all_come_together_or_none(cloud: Cloud, *, interruptible: bool) -> None:
    cloud.ec2.capacity(2, subnet_id=EAST)
    changes = {"together": True, "interruptible": interruptible}
    result = cloud.compute.launch(request(count=3, subnet_ids=(EAST,), **changes))
    assert (result.instance_ids, result.refusal_kind) == ((), RefusalKind.CAPACITY)
    assert cloud.compute.launched_in(ClusterName("alpha")) == []
    assert len(cloud.launch(2, attempt=1, subnet_ids=(EAST,), **changes)) == 2
    assert len(cloud.launch(3, attempt=2, subnet_ids=(WEST,), **changes)) == 3


def test_volumes_and_interfaces_bear_the_instances_tags(cloud: Cloud) -> None:
    cloud.launch(1)
    [tags] = cloud.records("tags")
    [others] = cloud.records("other_tags")
    assert isinstance(tags, dict)
    ours = {key: value for key, value in tags.items() if not key.startswith("aws:")}
    assert ours.keys() == {f"paddock:{name}" for name in ("deployment", "cluster", "operation", "batch")}
    assert others == {"volume": ours, "network-interface": ours}


# A repeated call that is answered with the fleet's id alone.


def test_a_repeat_that_tells_nothing_finds_what_was_launched_by_its_tag(cloud: Cloud) -> None:
    cloud.ec2.forget_answers()
    first = cloud.compute.launch(request(count=3))
    cloud.launch(2, attempt=1)
    assert cloud.compute.launch(request(count=3)) == first
    assert len(cloud.records("id")) == 5


def test_a_repeat_that_tells_nothing_may_not_show_all(cloud: Cloud) -> None:
    cloud.ec2.forget_answers()
    cloud.ec2.configure(describe_lag_seconds=60)
    first = cloud.compute.launch(request(count=3))
    assert cloud.compute.launch(request(count=3)) == LaunchResult(instance_ids=(), is_told=False)
    cloud.clock.advance(60)
    assert cloud.compute.launch(request(count=3)) == first
    cloud.ec2.capacity(1)
    short = cloud.compute.launch(request(1))
    assert len(short.instance_ids) == 1
    cloud.clock.advance(60)
    again = cloud.compute.launch(request(1))
    assert again == LaunchResult(instance_ids=short.instance_ids, is_told=False)
    assert again.refusal_kind is RefusalKind.CAPACITY


# Placement groups.


def test_a_placement_group_is_made_on_first_use_and_shared_after(cloud: Cloud) -> None:
    cloud.launch(2, placement_group="ring")
    cloud.launch(2, placement_group="ring", attempt=1)
    assert cloud.records("group") == [RING] * 4
    assert len(set(cloud.records("zone"))) == 1


def test_a_placement_group_that_another_made_is_used(cloud: Cloud) -> None:
    cloud.ec2.call("CreatePlacementGroup", {"GroupName": RING, "Strategy": "cluster"})
    assert len(cloud.launch(2, placement_group="ring")) == 2


def test_a_placement_group_never_spans_zones(cloud: Cloud) -> None:
    cloud.ec2.capacity(1, subnet_id=EAST)
    result = cloud.compute.launch(request(count=3, placement_group="ring"))
    assert len(result.instance_ids) == 1
    assert {refusal.code for refusal in result.refusals} == {"InsufficientInstanceCapacity"}


def test_a_placement_group_refuses_a_burstable_type(cloud: Cloud) -> None:
    with pytest.raises(LaunchRefused):
        cloud.launch(2, placement_group="ring", instance_type="t3.micro")


def test_a_group_too_many_is_a_shortage(cloud: Cloud) -> None:
    cloud.ec2.fail_next("CreatePlacementGroup", "PlacementGroupLimitExceeded")
    result = cloud.compute.launch(request(placement_group="ring"))
    assert [refusal.code for refusal in result.refusals] == ["PlacementGroupLimitExceeded"]


def test_a_placement_group_deleted_behind_our_back_is_made_again_by_the_next_launch(cloud: Cloud) -> None:
    ids = cloud.launch(1, placement_group="ring")
    cloud.compute.terminate(ids)
    cloud.clock.advance(20)
    cloud.ec2.call("DeletePlacementGroup", {"GroupName": RING})
    assert len(cloud.launch(1, placement_group="ring", attempt=1)) == 1


def test_a_placement_group_that_vanishes_before_the_launch_only_costs_time(cloud: Cloud) -> None:
    """Another may delete the group between the two calls of a launch: nothing was launched."""
    cloud.ec2.fail_next("CreateFleet", "InvalidPlacementGroup.Unknown")
    with pytest.raises(ComputeThrottled):
        cloud.compute.launch(request(placement_group="ring"))
    assert len(cloud.launch(2, placement_group="ring")) == 2


def test_an_empty_placement_group_is_deleted_and_then_unknown(cloud: Cloud) -> None:
    ids = cloud.launch(2, placement_group="ring")
    cloud.compute.terminate(ids)
    cloud.clock.advance(20)
    cloud.ec2.fail_next("DeletePlacementGroup", "UnauthorizedOperation")
    assert not cloud.compute.delete_placement_group("ring")
    assert cloud.compute.delete_placement_group("ring")
    assert RING not in cloud.ec2.snapshot()["groups"]
    assert cloud.compute.delete_placement_group("ring")
    assert cloud.compute.delete_placement_group("never/there was")
    assert len(cloud.launch(1, placement_group="ring", attempt=1)) == 1


def test_where_there_is_no_capacity_many_stopped_instances_cost_few_calls(cloud: Cloud) -> None:
    ids = cloud.launch(200)
    cloud.clock.advance(30)
    cloud.compute.stop(ids)
    cloud.clock.advance(30)
    cloud.ec2.capacity(0)
    refused = cloud.compute.start(ids)
    assert set(refused) == set(ids)
    assert all("InsufficientInstanceCapacity" in reason for reason in refused.values())
    assert cloud.ec2.calls["StartInstances"] < 40


def test_a_placement_group_in_use_is_left_as_it_is(cloud: Cloud) -> None:
    ids = cloud.launch(1, placement_group="ring")
    assert not cloud.compute.delete_placement_group("ring")
    cloud.compute.terminate(ids)
    assert not cloud.compute.delete_placement_group("ring")
    assert RING in cloud.ec2.snapshot()["groups"]
    cloud.clock.advance(20)
    assert cloud.compute.delete_placement_group("ring")


# Describe.


def test_an_instance_boots_runs_and_ends_in_time(cloud: Cloud) -> None:
    [id_] = cloud.launch(1)
    assert cloud.states(id_) == {"pending"}
    cloud.clock.advance(30)
    assert cloud.states(id_) == {"running"}
    assert cloud.compute.terminate([id_]) == {}
    assert cloud.states(id_) == {"shutting-down"}
    cloud.clock.advance(20)
    assert cloud.states(id_) == {"terminated"}
    cloud.clock.advance(3600)
    assert cloud.compute.describe([id_]) == {}


def test_addresses_are_unique_and_may_come_late(cloud: Cloud) -> None:
    cloud.ec2.configure(address_seconds=10)
    ids = cloud.launch(3)
    assert {(i.private_ip, i.private_dns_name) for i in cloud.compute.describe(ids).values()} == {("", "")}
    cloud.clock.advance(10)
    instances = cloud.compute.describe(ids).values()
    assert len({instance.private_ip for instance in instances}) == 3
    for instance in instances:
        assert instance.private_dns_name == f"ip-{instance.private_ip.replace('.', '-')}.ec2.internal"


def test_unknown_ids_are_left_out_of_a_description(cloud: Cloud) -> None:
    ids = cloud.launch(3)
    lost = ids.pop()
    cloud.ec2.lose(lost)
    assert set(cloud.compute.describe([*ids, lost, UNKNOWN])) == set(ids)
    assert cloud.compute.describe([UNKNOWN]) == {}
    assert cloud.compute.describe([InstanceId("i-nonsense"), *ids]).keys() == set(ids)


def test_an_instance_is_not_seen_until_descriptions_catch_up(cloud: Cloud) -> None:
    old = cloud.launch(1)
    cloud.ec2.configure(describe_lag_seconds=60)
    new = cloud.launch(1, attempt=1)
    assert set(cloud.compute.describe(old + new)) == set(old)
    assert [instance.id for instance in cloud.compute.launched_by(ClusterName("alpha"), OPERATION)] == old
    cloud.clock.advance(60)
    assert set(cloud.compute.describe(old + new)) == {*old, *new}


def test_nothing_is_asked_of_the_cloud_for_no_ids(cloud: Cloud) -> None:
    assert cloud.compute.describe([]) == {}
    assert cloud.compute.terminate([]) == {}
    assert not cloud.ec2.calls


def test_launched_by_finds_one_operation_of_one_cluster(cloud: Cloud) -> None:
    ids = cloud.launch(2)
    cloud.launch(2, attempt=1, operation_id="operation-2")
    cloud.launch(2, attempt=2, cluster=ClusterName("beta"))
    assert {instance.id for instance in cloud.compute.launched_by(ClusterName("alpha"), OPERATION)} == set(
        ids
    )
    assert cloud.compute.launched_by(ClusterName("alpha"), OperationId("operation-3")) == []


def test_launched_by_shows_terminated_instances_while_the_cloud_does(cloud: Cloud) -> None:
    ids = cloud.launch(2)
    cloud.ec2.end(ids[0], "Server.SpotInstanceTermination: Spot instance termination")
    cloud.clock.advance(30)
    found = {instance.id: instance for instance in cloud.compute.launched_by(ClusterName("alpha"), OPERATION)}
    assert found[ids[0]].state is InstanceState.TERMINATED
    assert found[ids[0]].state_reason == "Server.SpotInstanceTermination: Spot instance termination"
    assert found[ids[1]].state is InstanceState.RUNNING


def test_launched_in_finds_what_this_deployment_launched_in_one_cluster(cloud: Cloud) -> None:
    ids = cloud.launch(2) + cloud.launch(1, attempt=1, operation_id="operation-2")
    cloud.launch(2, attempt=2, cluster=ClusterName("beta"))
    tag(cloud, cloud.launch(1, attempt=3), "deployment", "another")
    cloud.ec2.end(ids[0])
    cloud.clock.advance(30)
    found = {instance.id: instance for instance in cloud.compute.launched_in(ClusterName("alpha"))}
    assert found.keys() == set(ids)
    assert [found[id_].state.value for id_ in ids] == ["terminated", "running", "running"]
    assert [found[id_].operation_id for id_ in ids] == ["operation-1", "operation-1", "operation-2"]
    assert cloud.compute.launched_in(ClusterName("gamma")) == []


def test_clusters_are_those_with_instances_of_this_deployment_that_have_not_ended(cloud: Cloud) -> None:
    assert set(cloud.compute.clusters()) == set()
    cloud.launch(2)
    ended = cloud.launch(2, attempt=1, cluster=ClusterName("beta"))
    stopped = cloud.launch(1, attempt=2, cluster=ClusterName("gamma"))
    tag(cloud, cloud.launch(1, attempt=3, cluster=ClusterName("delta")), "deployment", "another")
    tag(cloud, cloud.launch(1, attempt=4, cluster=ClusterName("epsilon")), "cluster", "")
    cloud.compute.terminate(ended)
    cloud.compute.stop(stopped)
    cloud.clock.advance(30)
    assert set(cloud.compute.clusters()) == {"alpha", "gamma"}


def test_an_instance_tells_when_and_for_what_it_was_launched(cloud: Cloud) -> None:
    now = int(cloud.clock()) * 1_000_000_000
    [id_] = cloud.launch(1)
    cloud.clock.advance(100)
    instance = cloud.compute.describe([id_])[id_]
    assert (instance.launched_at, instance.cluster, instance.operation_id) == (now, "alpha", "operation-1")


@pytest.mark.parametrize("deployment", ["another", ""])
def test_what_another_deployment_launched_is_for_nothing_of_ours(cloud: Cloud, deployment: str) -> None:
    [id_] = cloud.launch(1)
    tag(cloud, [id_], "deployment", deployment)
    instance = cloud.compute.describe([id_])[id_]
    assert (instance.cluster, instance.operation_id) == ("", "")


def test_copied_tags_do_not_make_an_instance_ours(cloud: Cloud) -> None:
    """The console's "launch more like this" copies every tag but EC2's own."""
    [id_] = cloud.launch(1)
    copy = cloud.ec2.copy(id_)
    instance = cloud.compute.describe([copy])[copy]
    assert (instance.cluster, instance.operation_id) == ("", "")
    assert [one.id for one in cloud.compute.launched_in(ClusterName("alpha"))] == [id_]
    assert [one.id for one in cloud.compute.launched_by(ClusterName("alpha"), OPERATION)] == [id_]
    cloud.compute.terminate([id_])
    assert set(cloud.compute.clusters()) == set()


def tag(cloud: Cloud, ids: list[InstanceId], name: str, value: str) -> None:
    tags = [{"Key": f"paddock:{name}", "Value": value}]
    cloud.ec2.call("CreateTags", {"Resources": ids, "Tags": tags})


def test_an_instance_bears_its_node_once_it_is_tagged(cloud: Cloud) -> None:
    first, second = cloud.launch(2)
    for _ in range(2):
        assert cloud.compute.tag(first, NodeId("operation-1-1"), "hpc-1") == ""
    seen = cloud.compute.describe([first, second])
    assert [(seen[one].node_id, seen[one].name) for one in (first, second)] == [
        ("operation-1-1", "hpc-1"),
        ("", ""),
    ]
    assert (seen[first].cluster, seen[first].operation_id) == ("alpha", "operation-1")
    assert cloud.compute.tag(first, NodeId("operation-1-2"), "hpc-2") == ""
    assert [one.name for one in cloud.compute.launched_in(ClusterName("alpha")) if one.id == first] == [
        "hpc-2"
    ]


def test_a_tag_that_is_refused_is_told(cloud: Cloud) -> None:
    """What is not known, not ours any more, or has 50 tags by others already."""
    lost, full = cloud.launch(2)
    tag(cloud, [lost], "deployment", "")
    others = [{"Key": f"mine-{number}", "Value": ""} for number in range(45)]
    cloud.ec2.call("CreateTags", {"Resources": [full], "Tags": others})
    assert cloud.compute.tag(UNKNOWN, NodeId("operation-1-1"), "hpc-1").startswith("UnauthorizedOperation: ")
    assert cloud.compute.tag(lost, NodeId("operation-1-1"), "hpc-1").startswith("UnauthorizedOperation: ")
    assert cloud.compute.tag(full, NodeId("operation-1-1"), "hpc-1").startswith("TagLimitExceeded: ")


def test_thousands_are_launched_described_found_and_ended(cloud: Cloud) -> None:
    ids = cloud.launch(2500)
    cloud.ec2.protect(ids[1200])
    assert set(cloud.compute.describe([*ids, UNKNOWN])) == set(ids)
    assert {instance.id for instance in cloud.compute.launched_by(ClusterName("alpha"), OPERATION)} == set(
        ids
    )
    assert cloud.compute.terminate([*ids, UNKNOWN]).keys() == {ids[1200]}
    cloud.clock.advance(20)
    ended = {
        i.id for i in cloud.compute.launched_by(ClusterName("alpha"), OPERATION) if i.state == "terminated"
    }
    assert set(ids) - ended == {ids[1200]}
    # Three full batches each, and one more for the one that EC2 named.
    assert cloud.ec2.calls["TerminateInstances"] <= 5
    # A description says which id is not known: policies deny the call, and EC2 does not name it.
    assert cloud.ec2.calls["DescribeInstances"] <= 4 + 3 + 3 + 2


def test_many_unknown_ids_cost_few_calls(cloud: Cloud) -> None:
    ids = cloud.launch(600)
    for id_ in ids[::2]:
        cloud.ec2.lose(id_)
    assert set(cloud.compute.describe(ids)) == set(ids[1::2])
    assert cloud.ec2.calls["DescribeInstances"] == 2


# Terminate.


def test_a_protected_instance_is_refused_and_the_others_end(cloud: Cloud) -> None:
    ids = cloud.launch(10)
    for id_ in ids[3:5]:
        cloud.ec2.protect(id_)
    refused = cloud.compute.terminate(ids)
    assert refused.keys() == set(ids[3:5])
    assert all(reason.startswith("OperationNotPermitted: ") for reason in refused.values())
    cloud.clock.advance(30)
    assert cloud.states(*ids[3:5]) == {"running"}
    assert cloud.states(*ids[:3], *ids[5:]) == {"terminated"}


def test_one_that_lost_its_tag_is_refused_and_the_others_end(cloud: Cloud) -> None:
    """EC2's policies deny the whole call for it."""
    ids = cloud.launch(10)
    tag(cloud, ids[3:4], "deployment", "")
    cloud.ec2.fail_next("TerminateInstances", "UnauthorizedOperation")
    assert cloud.compute.terminate(ids).keys() == {ids[3]}
    assert cloud.states(*ids[:3], *ids[4:]) == {"shutting-down"}


def test_a_denial_of_what_is_ours_is_an_error_after_two_calls(cloud: Cloud) -> None:
    ids = cloud.launch(10)
    cloud.ec2.fail_next("TerminateInstances", "UnauthorizedOperation", times=9)
    with pytest.raises(Exception, match="UnauthorizedOperation"):
        cloud.compute.terminate(ids)
    assert cloud.ec2.calls["TerminateInstances"] == 2


ACTIONS = pytest.mark.parametrize("action", ["terminate", "stop", "start", "restart"])


@ACTIONS
@pytest.mark.parametrize("policies", [True, False])
def test_a_forgotten_instance_holds_up_no_living_one(cloud: Cloud, action: str, *, policies: bool) -> None:
    """It has no tags any more, so policies that ask for one deny the call, and EC2 does not say for whom."""
    cloud.ec2.policies(DEPLOYMENT if policies else None)
    ids = cloud.launch(300)
    cloud.clock.advance(30)
    if action == "start":
        cloud.compute.stop(ids)
        cloud.clock.advance(30)
    cloud.ec2.calls.clear()
    forgotten, living = ids[::3], [id_ for place, id_ in enumerate(ids) if place % 3]
    for id_ in forgotten:
        cloud.ec2.lose(id_)
    refused = getattr(cloud.compute, action)(ids)
    assert set(refused) == (set(forgotten) if action == "restart" else set())
    after = {"terminate": {"shutting-down"}, "stop": {"stopping"}, "start": {"pending"}}
    assert cloud.states(*living) == after.get(action, {"running"})
    assert set(cloud.records("reboots")) == {1 if action == "restart" else 0}
    assert sum(cloud.ec2.calls.values()) <= 8


DENIED = "UnauthorizedOperation"
CALLS = {"terminate": "Terminate", "stop": "Stop", "start": "Start", "restart": "Reboot"}


@ACTIONS
def test_what_comes_into_sight_after_a_denial_is_asked_for_once_more(cloud: Cloud, action: str) -> None:
    """The call was denied for an instance that EC2 did not show yet, and that the look after it shows."""
    ids = cloud.launch(3)
    cloud.clock.advance(30)
    if action == "start":
        cloud.compute.stop(ids)
        cloud.clock.advance(30)
    cloud.ec2.fail_next(f"{CALLS[action]}Instances", DENIED)
    assert getattr(cloud.compute, action)(ids) == {}
    after = {"terminate": {"shutting-down"}, "stop": {"stopping"}, "start": {"pending"}}
    assert cloud.states(*ids) == after.get(action, {"running"})


@ACTIONS
def test_where_all_are_forgotten_nothing_is_refused_for_ever(cloud: Cloud, action: str) -> None:
    refused = getattr(cloud.compute, action)([UNKNOWN])
    assert set(refused) == ({UNKNOWN} if action == "restart" else set())


@pytest.mark.parametrize("action", ["stop", "start", "restart"])
def test_instances_in_the_wrong_state_are_told_and_cost_few_calls(cloud: Cloud, action: str) -> None:
    """EC2 names one of them only."""
    ids = cloud.launch(100)
    cloud.clock.advance(30)
    if action == "start":
        cloud.compute.stop(ids)
        cloud.clock.advance(30)
    cloud.ec2.calls.clear()
    for id_ in ids[:50]:
        cloud.ec2.end(id_)
    refused = getattr(cloud.compute, action)(ids)
    assert set(refused) == set(ids[:50])
    assert all(reason.startswith("IncorrectInstanceState: ") for reason in refused.values())
    assert sum(cloud.ec2.calls.values()) <= 4


@pytest.mark.parametrize("action", ["terminate", "stop", "start"])
def test_what_the_answer_leaves_out_was_not_done(cloud: Cloud, action: str) -> None:
    ids = cloud.launch(3)
    cloud.clock.advance(30)
    if action == "start":
        cloud.compute.stop(ids)
        cloud.clock.advance(30)
    cloud.ec2.overlook(ids[1])
    refused = getattr(cloud.compute, action)(ids)
    assert refused == {ids[1]: "EC2 left the instance out of its answer"}


@ACTIONS
def test_a_refusal_that_never_names_anyone_costs_few_calls(cloud: Cloud, action: str) -> None:
    ids = cloud.launch(500)
    cloud.clock.advance(30)
    name = "RebootInstances" if action == "restart" else f"{action.title()}Instances"
    cloud.ec2.fail_next(name, "InsufficientSpareUnicorns", times=10_000)
    assert set(getattr(cloud.compute, action)(ids)) == set(ids)
    assert cloud.ec2.calls[name] < 40


def test_an_unknown_id_is_no_refusal_and_holds_back_nothing(cloud: Cloud) -> None:
    ids = cloud.launch(3)
    assert cloud.compute.terminate([UNKNOWN, *ids, InstanceId("i-nonsense")]) == {}
    assert cloud.states(*ids) == {"shutting-down"}


def test_unknown_and_protected_together_hold_back_nothing(cloud: Cloud) -> None:
    cloud.ec2.capacity(3, subnet_id=EAST)
    ids = cloud.launch(6)
    cloud.ec2.protect(ids[0])
    assert cloud.compute.terminate([*ids, UNKNOWN]).keys() == {ids[0]}
    assert cloud.states(*ids[1:]) == {"shutting-down"}


@pytest.mark.parametrize("code", ["InvalidInstanceID.NotFound", "OperationNotPermitted"])
def test_a_refusal_that_names_no_one_holds_back_nothing(cloud: Cloud, code: str) -> None:
    ids = cloud.launch(5)
    cloud.ec2.fail_next("TerminateInstances", code, times=2)
    assert cloud.compute.terminate(ids) == {}
    assert cloud.states(*ids) == {"shutting-down"}


def test_a_description_refused_without_naming_anyone_is_found_in_another_way(cloud: Cloud) -> None:
    ids = cloud.launch(500)
    cloud.ec2.fail_next("DescribeInstances", "InvalidInstanceID.NotFound")
    assert set(cloud.compute.describe([*ids, UNKNOWN])) == set(ids)


def test_terminating_again_is_harmless(cloud: Cloud) -> None:
    ids = cloud.launch(2)
    assert cloud.compute.terminate(ids) == {}
    cloud.clock.advance(20)
    assert cloud.compute.terminate(ids) == {}
    assert cloud.states(*ids) == {"terminated"}


def test_an_instance_ended_by_hand_is_noticed_and_a_later_terminate_succeeds(cloud: Cloud) -> None:
    [id_] = cloud.launch(1)
    cloud.ec2.end(id_)
    cloud.clock.advance(20)
    assert cloud.states(id_) == {"terminated"}
    assert cloud.compute.terminate([id_]) == {}


# Machine facts.


def test_machine_facts_are_those_of_the_instance_types_that_exist(cloud: Cloud) -> None:
    facts = cloud.compute.machine_facts({"c5.large", "p4d.24xlarge", "no.such"})
    assert facts == {
        "c5.large": MachineFacts(vcpu_count=2, pcpu_count=1, memory_gib=4, gpu_count=0, infiniband=False),
        "p4d.24xlarge": MachineFacts(
            vcpu_count=96, pcpu_count=48, memory_gib=1152, gpu_count=8, infiniband=True
        ),
    }


# Throttling and outages.

EVERY_CALL = pytest.mark.parametrize(
    ("operation", "act"),
    [
        ("CreateFleet", lambda compute: compute.launch(request())),
        ("CreatePlacementGroup", lambda compute: compute.launch(request(placement_group="ring"))),
        ("DescribeInstances", lambda compute: compute.describe([UNKNOWN])),
        ("DescribeInstances", lambda compute: compute.launched_by(ClusterName("alpha"), OPERATION)),
        ("DescribeInstances", lambda compute: compute.launched_in(ClusterName("alpha"))),
        ("DescribeInstances", lambda compute: compute.clusters()),
        ("TerminateInstances", lambda compute: compute.terminate([UNKNOWN])),
        ("CreateTags", lambda compute: compute.tag(UNKNOWN, NodeId("operation-1-1"), "hpc-1")),
        ("DeletePlacementGroup", lambda compute: compute.delete_placement_group("ring")),
        ("DescribeSubnets", lambda compute: compute.subnet_zones([EAST])),
        ("DescribeInstanceTypes", lambda compute: compute.machine_facts(["c5.large"])),
    ],
    ids=[
        "launch",
        "group",
        "describe",
        "launched_by",
        "launched_in",
        "clusters",
        "terminate",
        "tag",
        "delete_group",
        "subnet_zones",
        "machine_facts",
    ],
)


@EVERY_CALL
@pytest.mark.parametrize("code", ["RequestLimitExceeded", "Throttling"])
def test_throttling_is_told_apart_and_costs_one_call(
    cloud: Cloud, operation: str, act: Callable[[Compute], object], code: str
) -> None:
    cloud.ec2.fail_next(operation, code)
    with pytest.raises(ComputeThrottled):
        act(cloud.compute)
    assert cloud.ec2.calls[operation] == 1
    act(cloud.compute)


@EVERY_CALL
@pytest.mark.parametrize("code", ["InternalError", "Unavailable", ANSWER_LOST])
def test_an_outage_is_an_error_and_never_an_empty_answer(
    cloud: Cloud, operation: str, act: Callable[[Compute], object], code: str
) -> None:
    cloud.ec2.fail_next(operation, code)
    with pytest.raises(ComputeUnavailable):
        act(cloud.compute)
    act(cloud.compute)


@pytest.mark.parametrize("code", ["InternalError", ANSWER_LOST])
def test_after_a_lost_answer_the_same_token_finds_what_was_launched(cloud: Cloud, code: str) -> None:
    cloud.ec2.fail_next("CreateFleet", code, after_effect=True)
    with pytest.raises(ComputeUnavailable):
        cloud.compute.launch(request(count=3))
    launched = {instance.id for instance in cloud.compute.launched_by(ClusterName("alpha"), OPERATION)}
    assert len(launched) == 3
    assert set(cloud.compute.launch(request(count=3)).instance_ids) == launched
    assert len(cloud.records("id")) == 3


def test_a_restart_of_the_cloud_forgets_neither_tokens_nor_instances(cloud: Cloud) -> None:
    cloud.ec2.capacity(7)
    first = cloud.compute.launch(request())
    snapshot = cloud.ec2.snapshot()
    cloud.ec2.reset()
    assert cloud.compute.describe(first.instance_ids) == {}
    cloud.ec2.restore(snapshot)
    assert cloud.compute.launch(request()) == first
    assert cloud.compute.describe(first.instance_ids).keys() == set(first.instance_ids)
    assert len(cloud.launch(9, attempt=1)) == 5


# EC2's token buckets.


def test_an_account_launches_a_thousand_at_once_and_then_two_a_second(cloud: Cloud) -> None:
    """A launch gets all of its instances or none; each override says that it was throttled."""
    cloud.ec2.rates()
    assert len(cloud.launch(600)) == 600
    result = cloud.compute.launch(request(1, count=500))
    assert result.instance_ids == ()
    assert [refusal.code for refusal in result.refusals] == ["RequestLimitExceeded"] * 2
    assert result.refusal_kind is RefusalKind.THROTTLED
    assert len(cloud.launch(400, attempt=2)) == 400
    cloud.clock.advance(49)
    assert cloud.launch(100, attempt=3) == []
    cloud.clock.advance(1)
    assert len(cloud.launch(100, attempt=4)) == 100
    assert cloud.ec2.throttled == {"RunInstances": 4}


def test_what_a_place_has_no_capacity_for_costs_no_tokens(cloud: Cloud) -> None:
    cloud.ec2.rates()
    cloud.ec2.capacity(0, subnet_id=EAST)
    assert len(cloud.launch(1_000)) == 1_000


def test_an_account_ends_a_thousand_at_once_and_then_twenty_a_second(cloud: Cloud) -> None:
    ids = cloud.launch(1_000) + cloud.launch(200, attempt=1)
    cloud.ec2.rates()
    cloud.compute.terminate(ids[:1_000])
    with pytest.raises(ComputeThrottled):
        cloud.compute.terminate(ids[1_000:])
    cloud.clock.advance(10)
    cloud.compute.terminate(ids[1_000:])
    cloud.clock.advance(20)
    assert cloud.states(*ids) == {"terminated"}


def test_calls_are_throttled_too_each_action_by_itself(cloud: Cloud) -> None:
    ids = cloud.launch(1)
    cloud.ec2.rates()
    for _ in range(50):
        cloud.compute.describe(ids)
    with pytest.raises(ComputeThrottled):
        cloud.compute.describe(ids)
    cloud.clock.advance(0.1)
    cloud.compute.describe(ids)
    assert len(cloud.launch(1, attempt=1)) == 1
