"""The ``Compute`` port over Amazon EC2.

A launch is one ``CreateFleet`` of type ``instant`` over a launch template that exists beforehand. Reads and
terminations go in the largest batches that EC2 takes. Of EC2's error codes only those named here are
translated; any other is raised as it came.

Instances are tagged with their deployment, cluster and operation. Several deployments may share an account,
and each has a cluster ``demo``: the first tag keeps them from taking each other's instances for lost ones.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from hashlib import sha256
from http import HTTPStatus
from typing import TYPE_CHECKING, cast

from botocore.exceptions import ClientError, ConnectionError, HTTPClientError  # noqa: A004 - botocore's name

from paddock.errors import ComputeThrottled, ComputeUnavailable, LaunchRefused
from paddock.model.operation import SECOND_NS
from paddock.ports.compute import (
    Instance,
    InstanceState,
    LaunchResult,
    MachineFacts,
    Refusal,
    RefusalKind,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.literals import InstanceTypeType
    from mypy_boto3_ec2.type_defs import (
        CreateFleetRequestTypeDef,
        FilterTypeDef,
        FleetLaunchTemplateOverridesRequestTypeDef,
        InstanceTypeDef,
        InstanceTypeInfoTypeDef,
        TagTypeDef,
    )

    from paddock.ports.compute import LaunchRequest

DEPLOYMENT_TAG = "paddock:deployment"
CLUSTER_TAG = "paddock:cluster"
OPERATION_TAG = "paddock:operation"

LIVING_STATES = ("pending", "running", "stopping", "stopped")
IDS_PER_CALL = 1000
FILTER_VALUES_PER_CALL = 200
INSTANCE_TYPES_PER_CALL = 100
MAX_GROUP_NAME_LENGTH = 255
CALLS_FOR_CAPACITY = 20

CAPACITY_CODES = frozenset(
    {
        "InstanceLimitExceeded",
        "InsufficientCapacity",
        "InsufficientFreeAddressesInSubnet",
        "InsufficientHostCapacity",
        "InsufficientInstanceCapacity",
        "InsufficientReservedInstanceCapacity",
        "MaxFleetCountExceeded",
        "MaxSpotInstanceCountExceeded",
        "PlacementGroupLimitExceeded",
        "ReservationCapacityExceeded",
        "SpotMaxPriceTooLow",
        "UnfulfillableCapacity",
        "Unsupported",
        "VcpuLimitExceeded",
    }
)
"""Not here, not now: another subnet, type or moment may do."""

THROTTLING_CODES = frozenset(
    {"EC2ThrottledException", "RequestLimitExceeded", "RequestThrottled", "Throttling", "ThrottlingException"}
)

UNAVAILABLE_CODES = frozenset(
    {"InternalError", "InternalFailure", "RequestTimeout", "ServiceUnavailable", "Unavailable"}
)

REQUEST_FAULT_CODES = frozenset(
    {
        "AuthFailure",
        "Blocked",
        "IdempotentParameterMismatch",
        "MissingParameter",
        "OptInRequired",
        "PendingVerification",
        "UnauthorizedOperation",
        "UnknownParameter",
        "UnsupportedOperation",
    }
)
"""The launch itself is at fault, as with every code that begins with ``Invalid``."""

UNKNOWN_INSTANCE_CODES = frozenset({"InvalidInstanceID.Malformed", "InvalidInstanceID.NotFound"})
KEPT_INSTANCE_CODES = frozenset({"IncorrectInstanceState", "OperationNotPermitted", "UnsupportedOperation"})
"""EC2 will not do that to an instance in its present state, or while it is protected."""

DENIED_CODE = "UnauthorizedOperation"
"""Policies allow changes of what has this deployment's tag; one instance that lost it denies the batch."""

GROUP_EXISTS_CODE = "InvalidPlacementGroup.Duplicate"
GROUP_IN_USE_CODE = "InvalidPlacementGroup.InUse"
GROUP_UNKNOWN_CODE = "InvalidPlacementGroup.Unknown"
"""Deleted since it was made, or not to be seen yet; the next launch makes it again."""


class Ec2Compute:
    """Launches, observes and ends EC2 instances through the given client, which does its own retries.

    ``deployment`` tells its instances from those of others in the account.
    """

    def __init__(self, client: EC2Client, deployment: str) -> None:
        self._client = client
        self._deployment = deployment

    def launch(self, request: LaunchRequest) -> LaunchResult:
        """Launch in one call; see the port.

        On-demand subnets are tried in the order given. For spot EC2 picks among them by price and capacity.
        """
        try:
            with _translated():
                if request.placement_group:
                    self._make_group(request)
                answer = self._client.create_fleet(**_fleet(request, self._deployment))
        except ClientError as error:
            refusal = _refusal(error)
            if refusal.kind is RefusalKind.CAPACITY:
                return LaunchResult(instance_ids=(), refusals=(refusal,))
            if refusal.kind is RefusalKind.THROTTLED:
                raise ComputeThrottled(refusal.message, code=refusal.code) from error
            if is_request_fault(refusal.code):
                raise LaunchRefused(refusal.message, code=refusal.code) from error
            raise
        ids = tuple(sorted(id_ for group in answer["Instances"] for id_ in group["InstanceIds"]))
        if len(ids) >= request.count:
            return LaunchResult(instance_ids=ids)
        # Whatever the codes are, throttling among them, the token is used up and would give the same answer
        # again. Only a fault of the request itself is an error.
        refusals = tuple(
            Refusal(
                kind=refusal_kind(item["ErrorCode"]), code=item["ErrorCode"], message=item["ErrorMessage"]
            )
            for item in answer["Errors"]
        )
        if not ids and refusals and all(is_request_fault(refusal.code) for refusal in refusals):
            raise LaunchRefused(refusals[0].message, code=refusals[0].code)
        return LaunchResult(instance_ids=ids, refusals=refusals)

    def describe(self, instance_ids: Collection[str]) -> Mapping[str, Instance]:
        """Ask by id, 1,000 a call; see the port."""
        return {
            instance.id: instance
            for batch in _batches(sorted(set(instance_ids)), IDS_PER_CALL)
            for instance in self._described(batch)
        }

    def launched_by(self, cluster: str, operation_id: str) -> Sequence[Instance]:
        """Ask by tag, 1,000 a page; see the port."""
        return self._filtered(
            [
                {"Name": f"tag:{CLUSTER_TAG}", "Values": [cluster]},
                {"Name": f"tag:{OPERATION_TAG}", "Values": [operation_id]},
            ]
        )

    def launched_in(self, cluster: str) -> Sequence[Instance]:
        """Ask by tag, 1,000 a page; see the port."""
        return self._filtered(
            [
                {"Name": f"tag:{DEPLOYMENT_TAG}", "Values": [self._deployment]},
                {"Name": f"tag:{CLUSTER_TAG}", "Values": [cluster]},
            ]
        )

    def clusters(self) -> Collection[str]:
        """Ask for all instances that have not ended, 1,000 a page; see the port."""
        found = self._filtered(
            [
                {"Name": f"tag:{DEPLOYMENT_TAG}", "Values": [self._deployment]},
                {"Name": "instance-state-name", "Values": list(LIVING_STATES)},
            ]
        )
        return {instance.cluster for instance in found if instance.cluster}

    def terminate(self, instance_ids: Collection[str]) -> Mapping[str, str]:
        """End instances; see the port."""
        return self._each(instance_ids, lambda ids: self._client.terminate_instances(InstanceIds=ids))

    def stop(self, instance_ids: Collection[str]) -> Mapping[str, str]:
        """Stop instances; see the port."""
        return self._each(instance_ids, lambda ids: self._client.stop_instances(InstanceIds=ids))

    def start(self, instance_ids: Collection[str]) -> Mapping[str, str]:
        """Start instances; see the port."""
        return self._each(instance_ids, lambda ids: self._client.start_instances(InstanceIds=ids))

    def restart(self, instance_ids: Collection[str]) -> Mapping[str, str]:
        """Reboot instances; see the port."""
        return self._each(instance_ids, lambda ids: self._client.reboot_instances(InstanceIds=ids))

    def _each(self, instance_ids: Collection[str], act: Callable[[list[str]], object]) -> dict[str, str]:
        """Act on 1,000 a call; when EC2 refuses a batch, set aside whom it names and ask again.

        Where it names none, the batch is halved, for want of capacity a few times only; where it denies the
        call, those that lost this deployment's tag are set aside. Throttled in the middle, it is done for
        some and not for others: asking again for all of them is harmless.
        """
        refused: dict[str, str] = {}
        batches = list(_batches(sorted(set(instance_ids)), IDS_PER_CALL))
        calls = 0
        while batches:
            batch = batches.pop()
            calls += 1
            try:
                with _translated():
                    act(batch)
            except ClientError as error:
                refusal = _refusal(error)
                named = _named(batch, refusal.message) or set(batch if len(batch) == 1 else ())
                if refusal.code in CAPACITY_CODES and calls >= CALLS_FOR_CAPACITY:
                    named = set(batch)
                elif refusal.code == DENIED_CODE:
                    named = {one.id for one in self._described(batch) if not one.operation_id}
                    if not named:
                        raise
                elif refusal.code not in UNKNOWN_INSTANCE_CODES | KEPT_INSTANCE_CODES | CAPACITY_CODES:
                    raise
                if refusal.code not in UNKNOWN_INSTANCE_CODES:
                    refused |= dict.fromkeys(named, f"{refusal.code}: {refusal.message}")
                rest = [id_ for id_ in batch if id_ not in named]
                batches += _batches(rest, len(rest) if named else (len(rest) + 1) // 2)
        return refused

    def delete_placement_group(self, name: str) -> bool:
        """Ask once, and take EC2's word for who uses the group; see the port."""
        try:
            with _translated():
                self._client.delete_placement_group(GroupName=group_name(self._deployment, name))
        except ClientError as error:
            code = _refusal(error).code
            if code not in {GROUP_UNKNOWN_CODE, GROUP_IN_USE_CODE, DENIED_CODE}:
                raise
            return code == GROUP_UNKNOWN_CODE
        return True

    def machine_facts(self, instance_types: Collection[str]) -> Mapping[str, MachineFacts]:
        """Ask by filter, since one unknown name would fail a call by name; see the port."""
        pages = self._client.get_paginator("describe_instance_types")
        facts: dict[str, MachineFacts] = {}
        for batch in _batches(sorted(set(instance_types)), INSTANCE_TYPES_PER_CALL):
            with _translated():
                for page in pages.paginate(Filters=[{"Name": "instance-type", "Values": batch}]):
                    facts |= {info["InstanceType"]: _facts(info) for info in page["InstanceTypes"]}
        return facts

    def _make_group(self, request: LaunchRequest) -> None:
        """Make the placement group unless there is one.

        Nothing is remembered from call to call: the group may have been deleted since.
        """
        tags: list[TagTypeDef] = [
            {"Key": DEPLOYMENT_TAG, "Value": self._deployment},
            {"Key": CLUSTER_TAG, "Value": request.cluster},
        ]
        try:
            self._client.create_placement_group(
                GroupName=group_name(self._deployment, request.placement_group),
                Strategy="cluster",
                TagSpecifications=[{"ResourceType": "placement-group", "Tags": tags}],
            )
        except ClientError as error:
            if _refusal(error).code != GROUP_EXISTS_CODE:
                raise

    def _described(self, ids: list[str]) -> list[Instance]:
        """Those of at most 1,000 ids that EC2 shows.

        One id that is not known fails the whole call, so those it names are dropped for a second try. A
        filter takes fewer values at a time and is content with unknown ones: it is the last resort.
        """
        rest = ids
        while rest:
            try:
                with _translated():
                    answer = self._client.describe_instances(InstanceIds=rest)
            except ClientError as error:
                refusal = _refusal(error)
                if refusal.code not in UNKNOWN_INSTANCE_CODES:
                    raise
                named = _named(rest, refusal.message)
                if not named or rest is not ids:
                    break
                rest = [id_ for id_ in rest if id_ not in named]
            else:
                return [
                    self._instance(item) for group in answer["Reservations"] for item in group["Instances"]
                ]
        return [
            instance
            for batch in _batches(rest, FILTER_VALUES_PER_CALL)
            for instance in self._filtered([{"Name": "instance-id", "Values": batch}])
        ]

    def _filtered(self, filters: list[FilterTypeDef]) -> list[Instance]:
        pages = self._client.get_paginator("describe_instances")
        with _translated():
            return [
                self._instance(item)
                for page in pages.paginate(Filters=filters, PaginationConfig={"PageSize": IDS_PER_CALL})
                for group in page["Reservations"]
                for item in group["Instances"]
            ]

    def _instance(self, item: InstanceTypeDef) -> Instance:
        tags = {tag["Key"]: tag["Value"] for tag in item.get("Tags", ())}
        is_ours = tags.get(DEPLOYMENT_TAG) == self._deployment
        return Instance(
            id=item["InstanceId"],
            state=InstanceState(item["State"]["Name"]),
            private_ip=item.get("PrivateIpAddress", ""),
            private_dns_name=item.get("PrivateDnsName", ""),
            public_dns_name=item.get("PublicDnsName", ""),
            state_reason=item.get("StateReason", {}).get("Message", ""),
            launched_at=int(item["LaunchTime"].timestamp()) * SECOND_NS,
            cluster=tags.get(CLUSTER_TAG, "") if is_ours else "",
            operation_id=tags.get(OPERATION_TAG, "") if is_ours else "",
        )


def group_name(deployment: str, name: str) -> str:
    """EC2's name for a placement group: unique in the account, and no longer than EC2 takes."""
    whole = f"{deployment}/{name}"
    if len(whole) <= MAX_GROUP_NAME_LENGTH:
        return whole
    digest = sha256(whole.encode()).hexdigest()
    return f"{whole[: MAX_GROUP_NAME_LENGTH - len(digest) - 1]}-{digest}"


def _fleet(request: LaunchRequest, deployment: str) -> CreateFleetRequestTypeDef:
    """Put the request as EC2 wants it, always in the same way: the client token covers every field."""
    overrides: list[FleetLaunchTemplateOverridesRequestTypeDef] = [
        {"InstanceType": cast("InstanceTypeType", request.instance_type), "SubnetId": subnet_id}
        for subnet_id in request.subnet_ids
    ]
    for place, override in enumerate(overrides):
        if not request.interruptible:
            override["Priority"] = place
        if request.placement_group:
            override["Placement"] = {"GroupName": group_name(deployment, request.placement_group)}
    tags: list[TagTypeDef] = [
        {"Key": DEPLOYMENT_TAG, "Value": deployment},
        {"Key": CLUSTER_TAG, "Value": request.cluster},
        {"Key": OPERATION_TAG, "Value": request.operation_id},
    ]
    fleet: CreateFleetRequestTypeDef = {
        "ClientToken": request.client_token,
        "Type": "instant",
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {
                    "LaunchTemplateId": request.launch_template_id,
                    "Version": request.launch_template_version,
                },
                "Overrides": overrides,
            }
        ],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": request.count,
            "DefaultTargetCapacityType": "spot" if request.interruptible else "on-demand",
        },
        "TagSpecifications": [
            {"ResourceType": "fleet", "Tags": tags},
            {"ResourceType": "instance", "Tags": tags},
        ],
    }
    if request.interruptible:
        fleet["SpotOptions"] = {"AllocationStrategy": "price-capacity-optimized"}
    else:
        fleet["OnDemandOptions"] = {"AllocationStrategy": "prioritized"}
    return fleet


def _facts(info: InstanceTypeInfoTypeDef) -> MachineFacts:
    vcpus = info["VCpuInfo"]
    return MachineFacts(
        vcpu_count=vcpus["DefaultVCpus"],
        pcpu_count=vcpus.get("DefaultCores", vcpus["DefaultVCpus"]),
        memory_gib=info["MemoryInfo"]["SizeInMiB"] / 1024,
        gpu_count=sum(gpu.get("Count", 0) for gpu in info.get("GpuInfo", {}).get("Gpus", ())),
        infiniband=info.get("NetworkInfo", {}).get("EfaSupported", False),
    )


@contextmanager
def _translated() -> Iterator[None]:
    """Throttling and outages in the port's words; every other error as it is."""
    try:
        yield
    except (ConnectionError, HTTPClientError) as error:
        raise ComputeUnavailable(str(error)) from error
    except ClientError as error:
        refusal = _refusal(error)
        if refusal.code in THROTTLING_CODES:
            raise ComputeThrottled(refusal.message, code=refusal.code) from error
        # A shortage can come with status 500, and is no outage.
        failed = error.response["ResponseMetadata"]["HTTPStatusCode"] >= HTTPStatus.INTERNAL_SERVER_ERROR
        if refusal.code in UNAVAILABLE_CODES or (failed and refusal.code not in CAPACITY_CODES):
            raise ComputeUnavailable(refusal.message, code=refusal.code) from error
        raise


def _refusal(error: ClientError) -> Refusal:
    details = error.response["Error"]
    code = details["Code"]
    return Refusal(kind=refusal_kind(code), code=code, message=details["Message"])


def is_request_fault(code: str) -> bool:
    """Whether a launch that met this code would meet it again, wherever and whenever it is tried."""
    return code in REQUEST_FAULT_CODES or (code.startswith("Invalid") and code != GROUP_UNKNOWN_CODE)


def refusal_kind(code: str) -> RefusalKind:
    """What a launch that met this code may try next."""
    if code in CAPACITY_CODES:
        return RefusalKind.CAPACITY
    if code in THROTTLING_CODES | UNAVAILABLE_CODES or code == GROUP_UNKNOWN_CODE:
        return RefusalKind.THROTTLED
    return RefusalKind.FAULT


def _named(ids: Collection[str], message: str) -> set[str]:
    """Which of ``ids`` EC2's message speaks of."""
    return set(re.findall(r"[\w-]+", message)).intersection(ids)


def _batches(items: Sequence[str], size: int) -> Iterator[list[str]]:
    return (list(items[start : start + size]) for start in range(0, len(items), max(size, 1)))
