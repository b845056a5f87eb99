"""The ``Compute`` port over Amazon EC2.

A launch is one ``CreateFleet`` of type ``instant`` over a launch template that exists beforehand. Reads and
terminations go in the largest batches that EC2 takes. Of EC2's error codes only those named here are
translated; any other is raised as it came. A launch that is refused with a code that nobody has listed was
refused here and now: new codes come, and most of them speak of one place or one type.

Instances, with their volumes and network interfaces, are tagged with their deployment, cluster, operation and
batch; later an instance may get a tag of its node too. Several deployments may share an account, and each
has a cluster ``demo``: the first tag keeps them from taking each other's instances for lost ones. What the
console launches "like this" bears copies of these tags, but not the tag that EC2 gives to a fleet's
instances: without that one it is not ours.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar, cast

from botocore.exceptions import ClientError, ConnectionError, HTTPClientError  # noqa: A004 - botocore's name

from paddock.errors import ComputeThrottled, ComputeUnavailable, LaunchRefused
from paddock.model.identity import ClusterName, InstanceId, NodeId, OperationId
from paddock.model.instance import Instance, InstanceState
from paddock.model.time import SECOND_NS
from paddock.ports.compute import LaunchResult, MachineFacts, Refusal, RefusalKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.literals import InstanceTypeType, ResourceTypeType
    from mypy_boto3_ec2.type_defs import (
        CreateFleetRequestTypeDef,
        FilterTypeDef,
        FleetLaunchTemplateOverridesRequestTypeDef,
        InstanceTypeDef,
        InstanceTypeInfoTypeDef,
        TagSpecificationTypeDef,
        TagTypeDef,
    )

    from paddock.ports.compute import LaunchRequest

DEPLOYMENT_TAG = "paddock:deployment"
CLUSTER_TAG = "paddock:cluster"
OPERATION_TAG = "paddock:operation"
BATCH_TAG = "paddock:batch"
NODE_TAG = "paddock:node"
NAME_TAG = "Name"
"""What EC2's console shows as an instance's name."""
FLEET_TAG = "aws:ec2:fleet-id"
TAGGED: Sequence[ResourceTypeType] = ("fleet", "instance", "volume", "network-interface")
"""What an instant fleet can tag as it is made; organisations deny launches that leave any of it untagged."""

LIVING_STATES = ("pending", "running", "stopping", "stopped")
IDS_PER_CALL = 1000
FILTER_VALUES_PER_CALL = 200
INSTANCE_TYPES_PER_CALL = 100
MAX_GROUP_NAME_LENGTH = 255
UNNAMED_REFUSALS = 20
"""So often a batch is halved to find out which of its instances EC2 means; the rest is refused then."""

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
"""Not here, not now, and no outage either, also where it comes with status 500."""

THROTTLING_CODES = frozenset(
    {"EC2ThrottledException", "RequestLimitExceeded", "RequestThrottled", "Throttling", "ThrottlingException"}
)

UNAVAILABLE_CODES = frozenset(
    {"InternalError", "InternalFailure", "RequestTimeout", "ServiceUnavailable", "Unavailable"}
)

REQUEST_FAULT_CODES = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AuthFailure",
        "Blocked",
        "ExpiredToken",
        "IdempotentParameterMismatch",
        "IncompleteSignature",
        "InvalidAction",
        "InvalidAMIID.Malformed",
        "InvalidAMIID.NotFound",
        "InvalidAMIID.Unavailable",
        "InvalidClientTokenId",
        "InvalidGroup.NotFound",
        "InvalidGroupId.Malformed",
        "InvalidKeyPair.NotFound",
        "InvalidLaunchTemplateId.Malformed",
        "InvalidLaunchTemplateId.NotFound",
        "InvalidLaunchTemplateId.VersionNotFound",
        "InvalidLaunchTemplateName.NotFoundException",
        "InvalidParameter",
        "InvalidParameterCombination",
        "InvalidParameterValue",
        "InvalidSecurityGroupID.NotFound",
        "InvalidSnapshot.NotFound",
        "InvalidUserData.Malformed",
        "MalformedQueryString",
        "MissingAction",
        "MissingAuthenticationToken",
        "MissingParameter",
        "OptInRequired",
        "PendingVerification",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnauthorizedOperation",
        "UnknownParameter",
    }
)
"""The request would meet these everywhere: permissions, and parts that are malformed, missing or unknown."""

ABOUT_PLACE_OR_TYPE = re.compile(r"instance type|instances of type|availability zone", re.IGNORECASE)
"""A parameter that is wrong for one type or zone, as its message says, may be right for the next: an image
for another processor, say. It is the request's own fault where its placement group keeps it there."""

UNKNOWN_INSTANCE_CODES = frozenset({"InvalidInstanceID.Malformed", "InvalidInstanceID.NotFound"})
INCORRECT_STATE_CODE = "IncorrectInstanceState"
DENIED_CODE = "UnauthorizedOperation"
"""Policies allow changes of what has this deployment's tag. One instance in a batch that lost it, or that EC2
does not know any more, whose tags are forgotten with it, denies the whole call, and is not named."""
DESCRIBED_CODES = UNKNOWN_INSTANCE_CODES | {INCORRECT_STATE_CODE, DENIED_CODE}
"""What these mean of which instance, a description tells for the whole batch at once."""

GROUP_EXISTS_CODE = "InvalidPlacementGroup.Duplicate"
GROUP_IN_USE_CODE = "InvalidPlacementGroup.InUse"
GROUP_UNKNOWN_CODE = "InvalidPlacementGroup.Unknown"
"""Deleted since it was made, or not to be seen yet; the next launch makes it again."""


_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of instances: the client's method, the list in its response, and the states that allow it.

    ``answers`` is empty if the response lists nothing. ``wants`` are the states from which it can be done;
    ``is_done`` those in which there is nothing left to do.
    """

    method: str
    answers: str
    wants: frozenset[InstanceState]
    is_done: frozenset[InstanceState] = frozenset()


_ALIVE = frozenset({InstanceState.PENDING, InstanceState.RUNNING})
_TERMINATE = _Change(
    "terminate_instances",
    "TerminatingInstances",
    wants=frozenset(state for state in InstanceState if not state.is_ending),
    is_done=frozenset({InstanceState.SHUTTING_DOWN, InstanceState.TERMINATED}),
)
_STOP = _Change(
    "stop_instances",
    "StoppingInstances",
    wants=_ALIVE | {InstanceState.STOPPING, InstanceState.STOPPED},
)
_START = _Change("start_instances", "StartingInstances", wants=_ALIVE | {InstanceState.STOPPED})
_RESTART = _Change("reboot_instances", "", wants=_ALIVE)


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
                # EC2 refuses the whole fleet at times for one zone that does not offer the type.
                is_unlisted = refusal.code not in CAPACITY_CODES
                return LaunchResult(instance_ids=(), refusals=(refusal,), refused_whole=is_unlisted)
            if refusal.kind is RefusalKind.THROTTLED:
                raise ComputeThrottled(refusal.message, code=refusal.code) from error
            raise LaunchRefused(refusal.message, code=refusal.code) from error
        fleet = answer.get("Instances", ())
        ids = {InstanceId(id_) for group in fleet for id_ in group.get("InstanceIds", ())}
        # Whatever the codes are, throttling among them, the token is used up and would give the same answer
        # again. Only a fault of the request itself is an error.
        refusals = tuple(
            _refused(item.get("ErrorCode", ""), item.get("ErrorMessage", ""))
            for item in answer.get("Errors", ())
        )
        if not ids and refusals and all(refusal.kind is RefusalKind.FAULT for refusal in refusals):
            raise LaunchRefused(refusals[0].message, code=refusals[0].code)
        if len(ids) < request.count and not refusals:
            # The response to a repeated call is not documented beyond its success.
            ids.update(instance.id for instance in self._launched(_filters_of(request)))
        return LaunchResult(
            instance_ids=tuple(sorted(ids)),
            refusals=refusals if len(ids) < request.count else (),
            is_told=len(ids) >= request.count or bool(refusals),
        )

    def describe(self, instance_ids: Collection[InstanceId]) -> Mapping[InstanceId, Instance]:
        """Ask by id, 1,000 a call; see the port."""
        return {
            instance.id: instance
            for batch in _batches(sorted(set(instance_ids)), IDS_PER_CALL)
            for instance in self._described(batch)
        }

    def launched_by(self, cluster: ClusterName, operation_id: OperationId) -> Sequence[Instance]:
        """Ask by tag, 1,000 a page; see the port."""
        return self._launched(
            [
                {"Name": f"tag:{CLUSTER_TAG}", "Values": [cluster]},
                {"Name": f"tag:{OPERATION_TAG}", "Values": [operation_id]},
            ]
        )

    def launched_in(self, cluster: ClusterName) -> Sequence[Instance]:
        """Ask by tag, 1,000 a page; see the port."""
        return self._launched([{"Name": f"tag:{CLUSTER_TAG}", "Values": [cluster]}])

    def clusters(self) -> Collection[ClusterName]:
        """Ask for all instances that have not ended, 1,000 a page; see the port."""
        found = self._launched([{"Name": "instance-state-name", "Values": list(LIVING_STATES)}])
        return {instance.cluster for instance in found if instance.cluster}

    def terminate(self, instance_ids: Collection[InstanceId]) -> Mapping[InstanceId, str]:
        """End instances; see the port."""
        return self._each(instance_ids, _TERMINATE)

    def stop(self, instance_ids: Collection[InstanceId]) -> Mapping[InstanceId, str]:
        """Stop instances; see the port."""
        return self._each(instance_ids, _STOP)

    def start(self, instance_ids: Collection[InstanceId]) -> Mapping[InstanceId, str]:
        """Start instances; see the port."""
        return self._each(instance_ids, _START)

    def restart(self, instance_ids: Collection[InstanceId]) -> Mapping[InstanceId, str]:
        """Reboot instances; see the port.

        EC2 passes over those that have ended without a word, so it is asked first which are alive.
        """
        seen = self.describe(instance_ids)
        alive = {id_ for id_, instance in seen.items() if instance.state in _RESTART.wants}
        refused = {
            id_: _wrong_state(seen[id_]) if id_ in seen else _UNKNOWN
            for id_ in set(instance_ids).difference(alive)
        }
        return refused | self._each(alive, _RESTART)

    def _each(self, instance_ids: Collection[InstanceId], change: _Change) -> dict[InstanceId, str]:
        """Change 1,000 instances a call; when EC2 refuses a batch, set aside those it means and ask again.

        A description of the batch, or EC2's own words, show which it means. If neither does, the batch is
        halved, a few times only. Throttled in the middle, it is done for some and not for others: asking
        again for all of them is harmless.
        """
        refused: dict[InstanceId, str] = {}
        batches = list(_batches(sorted(set(instance_ids)), IDS_PER_CALL))
        unnamed, is_denied = 0, False
        while batches:
            batch = batches.pop()
            try:
                with _translated():
                    answer = getattr(self._client, change.method)(InstanceIds=batch)
            except ClientError as error:
                refusal = _refusal(error)
                meant = self._meant(batch, refusal, change)
                if not meant and refusal.code == DENIED_CODE and not is_denied:
                    # What was not to be seen when EC2 denied the call may have come into sight since.
                    is_denied = True
                    batches.append(batch)
                    continue
                if not meant and refusal.code in REQUEST_FAULT_CODES:
                    raise
                unnamed += not meant
                if not meant and unnamed >= UNNAMED_REFUSALS:
                    meant = dict.fromkeys(batch, f"{refusal.code}: {refusal.message}")
                refused |= {id_: reason for id_, reason in meant.items() if reason}
                rest = [id_ for id_ in batch if id_ not in meant]
                batches += _batches(rest, len(rest) if meant else (len(rest) + 1) // 2)
            else:
                listed = {item["InstanceId"] for item in answer.get(change.answers, ())}
                silent = [id_ for id_ in batch if change.answers and id_ not in listed]
                refused |= dict.fromkeys(silent, "EC2 left the instance out of its answer")
        return refused

    def _meant(self, batch: list[InstanceId], refusal: Refusal, change: _Change) -> dict[InstanceId, str]:
        """The ids of the batch that EC2 means, with their reasons; an empty reason: nothing to do."""
        reason = f"{refusal.code}: {refusal.message}"
        if refusal.code in DESCRIBED_CODES:
            seen = {instance.id: instance for instance in self._described(batch)}
            # An instance that is not seen is not known, or not yet: descriptions show in time which. As it
            # was seen before a restart, it is not rebooted any more.
            unseen = _UNKNOWN if change is _RESTART else ""
            meant = dict.fromkeys((id_ for id_ in batch if id_ not in seen), unseen)
            for id_, instance in seen.items():
                if refusal.code == DENIED_CODE and not instance.operation_id:
                    meant[id_] = reason
                elif instance.state not in change.wants:
                    meant[id_] = "" if instance.state in change.is_done else _wrong_state(instance)
            if meant or refusal.code == DENIED_CODE:
                return meant
        named = _named(batch, refusal.message) or set(batch if len(batch) == 1 else ())
        if refusal.code in UNKNOWN_INSTANCE_CODES:
            return dict.fromkeys(named, _UNKNOWN if change is _RESTART else "")
        return {} if refusal.code in REQUEST_FAULT_CODES else dict.fromkeys(named, reason)

    def tag(self, instance_id: InstanceId, node_id: NodeId, name: str) -> str:
        """Set two tags; see the port. A call has the same tags for all of its instances, so it takes one."""
        tags: list[TagTypeDef] = [{"Key": NAME_TAG, "Value": name}, {"Key": NODE_TAG, "Value": node_id}]
        try:
            with _translated():
                self._client.create_tags(Resources=[instance_id], Tags=tags)
        except ClientError as error:
            refusal = _refusal(error)
            return f"{refusal.code}: {refusal.message}"
        return ""

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

    def subnet_zones(self, subnet_ids: Collection[str]) -> Mapping[str, str]:
        """Ask by filter, since one unknown id would fail a call by id; see the port."""
        pages = self._client.get_paginator("describe_subnets")
        zones: dict[str, str] = {}
        for batch in _batches(sorted(set(subnet_ids)), FILTER_VALUES_PER_CALL):
            with _translated():
                for page in pages.paginate(Filters=[{"Name": "subnet-id", "Values": batch}]):
                    zones |= {item["SubnetId"]: item["AvailabilityZone"] for item in page["Subnets"]}
        return zones

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

    def _described(self, ids: list[InstanceId]) -> list[Instance]:
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

    def _launched(self, filters: list[FilterTypeDef]) -> list[Instance]:
        """Those of this deployment's own instances that the filters take."""
        ours: list[FilterTypeDef] = [
            {"Name": f"tag:{DEPLOYMENT_TAG}", "Values": [self._deployment]},
            {"Name": "tag-key", "Values": [FLEET_TAG]},
        ]
        return self._filtered([*ours, *filters])

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
        is_ours = tags.get(DEPLOYMENT_TAG) == self._deployment and FLEET_TAG in tags
        return Instance(
            id=InstanceId(item["InstanceId"]),
            state=InstanceState(item["State"]["Name"]),
            private_ip=item.get("PrivateIpAddress", ""),
            private_dns_name=item.get("PrivateDnsName", ""),
            public_dns_name=item.get("PublicDnsName", ""),
            state_reason=item.get("StateReason", {}).get("Message", ""),
            launched_at=int(item["LaunchTime"].timestamp()) * SECOND_NS,
            cluster=ClusterName(tags.get(CLUSTER_TAG, "") if is_ours else ""),
            operation_id=OperationId(tags.get(OPERATION_TAG, "") if is_ours else ""),
            batch=tags.get(BATCH_TAG, "") if is_ours else "",
            node_id=NodeId(tags.get(NODE_TAG, "") if is_ours else ""),
            name=tags.get(NAME_TAG, "") if is_ours else "",
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
        {"Key": BATCH_TAG, "Value": request.client_token},
    ]
    tagged: list[TagSpecificationTypeDef] = [{"ResourceType": kind, "Tags": tags} for kind in TAGGED]
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
        "TagSpecifications": tagged,
    }
    if request.interruptible:
        fleet["SpotOptions"] = {"AllocationStrategy": "price-capacity-optimized"}
    else:
        fleet["OnDemandOptions"] = {"AllocationStrategy": "prioritized"}
    if request.together:
        options = fleet["SpotOptions" if request.interruptible else "OnDemandOptions"]
        options["MinTargetCapacity"] = request.count
        options["SingleAvailabilityZone"] = True
    return fleet


def _filters_of(request: LaunchRequest) -> list[FilterTypeDef]:
    """What the request's own instances are found by."""
    return [
        {"Name": f"tag:{CLUSTER_TAG}", "Values": [request.cluster]},
        {"Name": f"tag:{OPERATION_TAG}", "Values": [request.operation_id]},
        {"Name": f"tag:{BATCH_TAG}", "Values": [request.client_token]},
    ]


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
    return _refused(details["Code"], details["Message"])


def _refused(code: str, message: str) -> Refusal:
    return Refusal(kind=refusal_kind(code, message), code=code, message=message)


def refusal_kind(code: str, message: str = "") -> RefusalKind:
    """What a launch that met this code may try next: see what it means for this place and this type."""
    if code in THROTTLING_CODES | UNAVAILABLE_CODES or code == GROUP_UNKNOWN_CODE:
        return RefusalKind.THROTTLED
    is_of_this_place = ABOUT_PLACE_OR_TYPE.search(message) and "placement group" not in message.lower()
    if code in REQUEST_FAULT_CODES and not (code.startswith("InvalidParameter") and is_of_this_place):
        return RefusalKind.FAULT
    return RefusalKind.CAPACITY


_UNKNOWN = "InvalidInstanceID.NotFound: EC2 does not know the instance any more"


def _wrong_state(instance: Instance) -> str:
    return f"{INCORRECT_STATE_CODE}: the instance is {instance.state}"


def _named(ids: Collection[InstanceId], message: str) -> set[InstanceId]:
    """Which of ``ids`` EC2's message speaks of."""
    return set(ids).intersection(re.findall(r"[\w-]+", message))


def _batches(items: Sequence[_Item], size: int) -> Iterator[list[_Item]]:
    return (list(items[start : start + size]) for start in range(0, len(items), max(size, 1)))
