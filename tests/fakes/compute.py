"""The ``Compute`` port over the EC2 in memory, without boto3 or a wire between."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from paddock.adapters.ec2 import (
    CALLS_FOR_CAPACITY,
    CAPACITY_CODES,
    DENIED_CODE,
    GROUP_IN_USE_CODE,
    GROUP_UNKNOWN_CODE,
    THROTTLING_CODES,
    UNAVAILABLE_CODES,
    group_name,
    is_request_fault,
    refusal_kind,
)
from paddock.errors import ComputeThrottled, ComputeUnavailable, LaunchRefused
from paddock.ports.compute import (
    Instance,
    InstanceState,
    LaunchResult,
    MachineFacts,
    Refusal,
    RefusalKind,
)
from tests.fakes.clock import SECOND
from tests.fakes.ec2 import ANSWER_LOST, MAX_IDS, Ec2Error

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from paddock.ports.compute import LaunchRequest
    from tests.fakes.ec2 import FakeEc2, Params

UNKNOWN_INSTANCE = "InvalidInstanceID"
DEPLOYMENT = "paddock-here"
LIVING = ["pending", "running", "stopping", "stopped"]


class FakeCompute:
    """Answers as EC2 would behind the real adapter; ``ec2`` is where tests make it fail."""

    def __init__(self, ec2: FakeEc2) -> None:
        self.ec2 = ec2

    def launch(self, request: LaunchRequest) -> LaunchResult:
        """See the port."""
        try:
            if request.placement_group:
                self._make_group(group_name(DEPLOYMENT, request.placement_group))
            answer = self._call("CreateFleet", _fleet(request))
        except Ec2Error as error:
            refusal = _refusal(error.code, error.message)
            if refusal.kind is RefusalKind.CAPACITY:
                return LaunchResult(instance_ids=(), refusals=(refusal,))
            if refusal.kind is RefusalKind.THROTTLED:
                raise ComputeThrottled(error.message, code=error.code) from error
            if is_request_fault(error.code):
                raise LaunchRefused(error.message, code=error.code) from error
            raise
        ids = tuple(sorted(id_ for group in answer["Instances"] for id_ in group["InstanceIds"]))
        refusals = [_refusal(e["ErrorCode"], e["ErrorMessage"]) for e in answer["Errors"]]
        if not ids and refusals and all(is_request_fault(refusal.code) for refusal in refusals):
            raise LaunchRefused(refusals[0].message, code=refusals[0].code)
        return LaunchResult(instance_ids=ids, refusals=tuple(refusals) if len(ids) < request.count else ())

    def describe(self, instance_ids: Collection[str]) -> Mapping[str, Instance]:
        """See the port."""
        found: dict[str, Instance] = {}
        for ids in _batches(instance_ids):
            rest = ids
            while rest:
                try:
                    answer = self._call("DescribeInstances", {"InstanceIds": rest})
                except Ec2Error as error:
                    rest = _without_unknown(rest, error)
                else:
                    found |= {instance.id: instance for instance in _instances(answer)}
                    break
        return found

    def launched_by(self, cluster: str, operation_id: str) -> Sequence[Instance]:
        """See the port."""
        return self._filtered({"tag:paddock:cluster": [cluster], "tag:paddock:operation": [operation_id]})

    def launched_in(self, cluster: str) -> Sequence[Instance]:
        """See the port."""
        return self._filtered({"tag:paddock:deployment": [DEPLOYMENT], "tag:paddock:cluster": [cluster]})

    def clusters(self) -> Collection[str]:
        """See the port."""
        found = self._filtered({"tag:paddock:deployment": [DEPLOYMENT], "instance-state-name": LIVING})
        return {instance.cluster for instance in found} - {""}

    def _filtered(self, filters: Mapping[str, list[str]]) -> list[Instance]:
        asked: Params = {"Filters": [{"Name": name, "Values": values} for name, values in filters.items()]}
        found: list[Instance] = []
        while True:
            answer = self._call("DescribeInstances", asked)
            found += _instances(answer)
            if "NextToken" not in answer:
                return found
            asked["NextToken"] = answer["NextToken"]

    def terminate(self, instance_ids: Collection[str]) -> Mapping[str, str]:
        """See the port."""
        return self._each("TerminateInstances", instance_ids)

    def stop(self, instance_ids: Collection[str]) -> Mapping[str, str]:
        """See the port."""
        return self._each("StopInstances", instance_ids)

    def start(self, instance_ids: Collection[str]) -> Mapping[str, str]:
        """See the port."""
        return self._each("StartInstances", instance_ids)

    def restart(self, instance_ids: Collection[str]) -> Mapping[str, str]:
        """See the port."""
        return self._each("RebootInstances", instance_ids)

    def _each(self, operation: str, instance_ids: Collection[str]) -> Mapping[str, str]:
        refused: dict[str, str] = {}
        batches, calls = list(_batches(instance_ids)), 0
        while batches:
            ids, calls = batches.pop(), calls + 1
            try:
                self._call(operation, {"InstanceIds": ids})
            except Ec2Error as error:
                if error.code in CAPACITY_CODES and calls >= CALLS_FOR_CAPACITY:
                    refused |= dict.fromkeys(ids, str(error))
                    rest = []
                elif error.code == DENIED_CODE:
                    named = [one.id for one in self.describe(ids).values() if not one.operation_id]
                    if not named:
                        raise
                    refused |= dict.fromkeys(named, str(error))
                    rest = [[id_ for id_ in ids if id_ not in named]]
                elif error.code.startswith(UNKNOWN_INSTANCE):
                    rest = [_without_unknown(ids, error)]
                elif named := [id_ for id_ in ids if id_ in error.message or len(ids) == 1]:
                    refused |= dict.fromkeys(named, str(error))
                    rest = [[id_ for id_ in ids if id_ not in named]]
                else:
                    rest = [ids[::2], ids[1::2]]
                batches += [batch for batch in rest if batch]
        return refused

    def delete_placement_group(self, name: str) -> bool:
        """See the port."""
        try:
            self._call("DeletePlacementGroup", {"GroupName": group_name(DEPLOYMENT, name)})
        except Ec2Error as error:
            if error.code not in {GROUP_UNKNOWN_CODE, GROUP_IN_USE_CODE, DENIED_CODE}:
                raise
            return error.code == GROUP_UNKNOWN_CODE
        return True

    def machine_facts(self, instance_types: Collection[str]) -> Mapping[str, MachineFacts]:
        """See the port."""
        asked: Params = {"Filters": [{"Name": "instance-type", "Values": sorted(instance_types)}]}
        return {
            info["InstanceType"]: MachineFacts(
                vcpu_count=info["VCpuInfo"]["DefaultVCpus"],
                pcpu_count=info["VCpuInfo"]["DefaultCores"],
                memory_gib=info["MemoryInfo"]["SizeInMiB"] / 1024,
                gpu_count=sum(gpu["Count"] for gpu in info.get("GpuInfo", {}).get("Gpus", [])),
                infiniband=info["NetworkInfo"]["EfaSupported"],
            )
            for info in self._call("DescribeInstanceTypes", asked)["InstanceTypes"]
        }

    def _make_group(self, name: str) -> None:
        try:
            self._call("CreatePlacementGroup", {"GroupName": name, "Strategy": "cluster"})
        except Ec2Error as error:
            if error.code != "InvalidPlacementGroup.Duplicate":
                raise

    def _call(self, operation: str, asked: Params) -> Params:
        try:
            return self.ec2.call(operation, asked)
        except Ec2Error as error:
            if error.code in THROTTLING_CODES:
                raise ComputeThrottled(error.message, code=error.code) from error
            if error.code in UNAVAILABLE_CODES or error.code == ANSWER_LOST:
                raise ComputeUnavailable(error.message, code=error.code) from error
            raise


def _refusal(code: str, message: str) -> Refusal:
    return Refusal(kind=refusal_kind(code), code=code, message=message)


def _fleet(request: LaunchRequest) -> Params:
    market = "spot" if request.interruptible else "on-demand"
    placement = {"Placement": {"GroupName": group_name(DEPLOYMENT, request.placement_group)}}
    tags = [
        {"Key": "paddock:deployment", "Value": DEPLOYMENT},
        {"Key": "paddock:cluster", "Value": request.cluster},
        {"Key": "paddock:operation", "Value": request.operation_id},
    ]
    return {
        "ClientToken": request.client_token,
        "Type": "instant",
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {
                    "LaunchTemplateId": request.launch_template_id,
                    "Version": request.launch_template_version,
                },
                "Overrides": [
                    {
                        "InstanceType": request.instance_type,
                        "SubnetId": subnet_id,
                        "Priority": place,
                        **(placement if request.placement_group else {}),
                    }
                    for place, subnet_id in enumerate(request.subnet_ids)
                ],
            }
        ],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": request.count,
            "DefaultTargetCapacityType": market,
        },
        "OnDemandOptions": {"AllocationStrategy": "prioritized"},
        "TagSpecifications": [{"ResourceType": "instance", "Tags": tags}],
    }


def _instances(answer: Params) -> list[Instance]:
    return [_instance(item) for group in answer["Reservations"] for item in group["Instances"]]


def _instance(item: Params) -> Instance:
    tags = {tag["Key"]: tag["Value"] for tag in item["Tags"]}
    ours = tags if tags.get("paddock:deployment") == DEPLOYMENT else {}
    return Instance(
        id=item["InstanceId"],
        state=InstanceState(item["State"]["Name"]),
        private_ip=item.get("PrivateIpAddress", ""),
        private_dns_name=item["PrivateDnsName"],
        public_dns_name=item["PublicDnsName"],
        state_reason=item.get("StateReason", {}).get("Message", ""),
        launched_at=int(item["LaunchTime"].timestamp()) * SECOND,
        cluster=ours.get("paddock:cluster", ""),
        operation_id=ours.get("paddock:operation", ""),
    )


def _without_unknown(ids: list[str], error: Ec2Error) -> list[str]:
    """The ids but for those that EC2 said it does not know; any other error is raised again."""
    if not error.code.startswith(UNKNOWN_INSTANCE):
        raise error
    unknown = set(re.findall(r"[\w-]+", error.message))
    return [id_ for id_ in ids if id_ not in unknown]


def _batches(ids: Collection[str]) -> Iterator[list[str]]:
    ordered = sorted(set(ids))
    return (ordered[start : start + MAX_IDS] for start in range(0, len(ordered), MAX_IDS))
