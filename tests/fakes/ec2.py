"""EC2 in memory: what Paddock meets there, the awkward parts included.

Operations take and give the dictionaries that boto3 takes and gives. State moves with the injected clock
alone. What is not modelled is refused, never ignored. Where EC2 leaves a choice, the less convenient one is
taken: overrides without priorities are tried from the last, errors are listed even for a fleet that another
override filled, an instance's client token is not its fleet's, and a description without ``MaxResults`` is
paged all the same.
"""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar, cast

from moto.utilities.utils import load_resource

from tests.fakes.token_buckets import Bucket, TokenBuckets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from paddock.model.identity import InstanceId

Params = dict[str, Any]
_T = TypeVar("_T")

ANSWER_LOST = "AnswerLost"
"""A fault with this code is a connection that breaks before the answer."""

SHOWN_AFTER_END_SECONDS = 3600
MAX_IDS = 1000
MAX_FILTER_VALUES = 200
MAX_TYPES = 100
MIN_PAGE = 5
MAX_TOKEN_LENGTH = 64
MAX_GROUPS = 500
MAX_QUOTAS = 100
MAX_TAGS = 50
MAX_TAG_KEY = 128
MAX_TAG_VALUE = 256
# How often an action may be called, each by itself, and how many instances a second it may touch: AWS's
# defaults for each account and Region (EC2 Developer Guide, "Request throttling for the Amazon EC2 API").
READING = Bucket(100, 20)
READING_WITHOUT_FILTERS = Bucket(50, 10)
CHANGING = Bucket(50, 5)
CALLS = {
    "CreateTags": Bucket(100, 10),
    "RunInstances": Bucket(5, 2),
    "StartInstances": Bucket(5, 2),
    "TerminateInstances": Bucket(100, 5),
}
INSTANCES = {
    "RunInstances": Bucket(1_000, 2),
    "StartInstances": Bucket(1_000, 2),
    "StopInstances": Bucket(1_000, 20),
    "TerminateInstances": Bucket(1_000, 20),
}
THROTTLED = ("RequestLimitExceeded", "Request limit exceeded.")
ANY = "*"
BY_HAND = "Client.UserInitiatedShutdown: User initiated shutdown"
FIRST_ADDRESS = 10 << 24
INTERRUPTED = "Server.SpotInstanceTermination: Spot instance termination"
NOTICE_SECONDS = 120.0
STATE_CHANGE = "EC2 Instance State-change Notification"
WARNING = "EC2 Spot Instance Interruption Warning"
STATE_CODES = {
    "pending": 0,
    "running": 16,
    "shutting-down": 32,
    "terminated": 48,
    "stopping": 64,
    "stopped": 80,
}


CALL_LIMITS = re.compile(r"RequestLimitExceeded|\w*Throttl\w*|(Service)?Unavailable")
SERVER_FAULT = re.compile(r"Internal\w+|Insufficient\w*Capacity")


def status_of(code: str) -> HTTPStatus:
    """The HTTP status that EC2 sends with an error of this code."""
    if CALL_LIMITS.fullmatch(code):
        return HTTPStatus.SERVICE_UNAVAILABLE
    return HTTPStatus.INTERNAL_SERVER_ERROR if SERVER_FAULT.fullmatch(code) else HTTPStatus.BAD_REQUEST


class Ec2Error(Exception):
    """EC2's refusal of a whole call."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How long things take, counted from the call that starts them. A change holds for later calls."""

    boot_seconds: float = 3.0
    terminate_seconds: float = 3.0
    describe_lag_seconds: float = 0.0
    address_seconds: float = 0.0


@dataclass(kw_only=True)
class _Instance:
    id: str
    number: int
    instance_type: str
    subnet_id: str
    zone: str
    market: str
    client_token: str
    group: str
    tags: dict[str, str]
    launched_at: float
    visible_at: float
    addressed_at: float
    running_at: float
    ending_at: float = 0.0
    terminated_at: float | None = None
    stopped_at: float | None = None
    reboots: int = 0
    reason: str = ""
    protected: bool = False
    told: str = ""
    to_warn: bool = False
    other_tags: dict[str, dict[str, str]] = field(default_factory=dict)

    def state(self, now: float) -> str:
        if self.terminated_at is not None and now >= self.ending_at:
            return "terminated" if now >= self.terminated_at else "shutting-down"
        if self.stopped_at is not None:
            return "stopped" if now >= self.stopped_at else "stopping"
        return "running" if now >= self.running_at else "pending"

    def is_shown(self, now: float) -> bool:
        forgotten = self.terminated_at is not None and now >= self.terminated_at + SHOWN_AFTER_END_SECONDS
        return now >= self.visible_at and not forgotten


@dataclass
class _State:
    """All that outlives a restart; plain data but for the instances."""

    settings: Params
    epoch: int
    ahead_seconds: float = 0.0
    number: int = 3
    instances: dict[str, _Instance] = field(default_factory=dict)
    tokens: dict[str, Params] = field(default_factory=dict)
    groups: dict[str, Params] = field(default_factory=dict)
    zones: dict[str, str] = field(default_factory=dict)
    templates: list[str] | None = None
    quotas: dict[str, float | None] = field(default_factory=dict)
    limits: list[Params] = field(default_factory=list)
    faults: list[Params] = field(default_factory=list)
    subnets: list[str] | None = None
    not_offered: list[Params] = field(default_factory=list)
    policy_deployment: str | None = ANY
    is_forgetful: bool = False
    overlooked: list[str] = field(default_factory=list)
    rates: dict[str, tuple[float, float]] | None = None
    levels: dict[str, list[float]] = field(default_factory=dict)


@cache
def instance_types() -> dict[str, Params]:
    """The real instance types, as DescribeInstanceTypes shows them, by name."""
    types: dict[str, Params] = load_resource("ec2/resources/instance_types.json")
    return types


class FakeEc2:
    """One account in one Region. Every method is safe to call from any thread.

    ``calls`` counts the calls by operation, ``throttled`` those calls and launches that a token bucket
    refused; ``changes`` grows whenever ``snapshot`` would differ.
    """

    def __init__(self, now: Callable[[], float], settings: Settings | None = None) -> None:
        self._clock = now
        self._lock = RLock()
        self._initial = settings or Settings()
        self._state = _State(asdict(self._initial), int(now()))
        self._operations: dict[str, Callable[[Params], Params]] = {
            "CreateFleet": self._create_fleet,
            "CreatePlacementGroup": self._create_placement_group,
            "CreateTags": self._create_tags,
            "DeletePlacementGroup": self._delete_placement_group,
            "DescribeInstances": self._describe_instances,
            "DescribeInstanceTypes": self._describe_instance_types,
            "DescribePlacementGroups": self._describe_placement_groups,
            "DescribeSubnets": self._describe_subnets,
            "ListServiceQuotas": self._list_service_quotas,
            "RebootInstances": self._reboot_instances,
            "StartInstances": self._start_instances,
            "StopInstances": self._stop_instances,
            "TerminateInstances": self._terminate_instances,
        }
        self.calls: Counter[str] = Counter()
        self.throttled: Counter[str] = Counter()
        self.changes = 0

    def call(self, operation: str, params: Params) -> Params:
        """Do what the operation of EC2's API of that name does. Raises ``Ec2Error``."""
        with self._lock:
            self.calls[operation] += 1
            if operation not in self._operations:
                raise Ec2Error("InvalidAction", f"The action {operation} is not valid for this web service.")
            self._require_call(operation, params)
            fault = next((f for f in self._state.faults if f["operation"] in (operation, ANY)), None)
            if fault or not operation.startswith(("Describe", "List")):
                self.changes += 1
            if fault:
                fault["times"] -= 1
                self._state.faults = [f for f in self._state.faults if f["times"] > 0]
            if fault is None or fault["after_effect"]:
                try:
                    answer = self._operations[operation](params)
                except KeyError as error:
                    raise Ec2Error("MissingParameter", f"The request must contain {error}.") from error
            if fault:
                raise Ec2Error(fault["code"], f"{operation} was made to fail.")
            return answer

    # Faults and settings, for tests.

    def capacity(
        self,
        remaining: int | None = 0,
        *,
        instance_type: str = ANY,
        subnet_id: str = ANY,
        code: str = "InsufficientInstanceCapacity",
    ) -> None:
        """Let only ``remaining`` more of that type launch in that subnet; ``None`` lifts the limit."""
        with self._changing():
            place = {"instance_type": instance_type, "subnet_id": subnet_id}
            self._state.limits = [limit for limit in self._state.limits if not place.items() <= limit.items()]
            if remaining is not None:
                self._state.limits.append({**place, "remaining": remaining, "code": code})

    def lift_limits(self) -> None:
        """Have capacity for every type in every subnet."""
        with self._changing():
            self._state.limits.clear()

    def rates(
        self, instances: Mapping[str, tuple[float, float]] | None = None, *, limited: bool = True
    ) -> None:
        """Throttle by token buckets from now on, which are full; or, not ``limited``, never.

        ``instances`` changes some of ``INSTANCES``: capacity and refill a second, by action.
        """
        with self._changing():
            defaults = {name: (bucket.capacity, bucket.per_second) for name, bucket in INSTANCES.items()}
            self._state.rates = {**defaults, **(instances or {})} if limited else None
            self._state.levels.clear()

    def fail_next(self, operation: str, code: str, times: int = 1, *, after_effect: bool = False) -> None:
        """Fail the next calls of ``operation`` (``*`` is any), with ``after_effect`` once they have acted."""
        with self._changing():
            fault = {"operation": operation, "code": code, "times": times, "after_effect": after_effect}
            self._state.faults.append(fault)

    def lose(self, instance_id: str) -> None:
        """Make an instance vanish, as if it had never been."""
        with self._changing():
            del self._state.instances[instance_id]

    def end(self, instance_id: str, reason: str = BY_HAND) -> None:
        """End an instance from outside: by hand, or say for ``Server.SpotInstanceTermination``."""
        with self._changing():
            self._end(self._state.instances[instance_id], reason)

    def interrupt(self, instance_id: str, notice_seconds: float = NOTICE_SECONDS) -> None:
        """Warn that EC2 takes a spot instance back, and end it after the notice."""
        with self._changing():
            record = self._state.instances[instance_id]
            if record.market != "spot":
                raise ValueError("only spot instances are interrupted")
            record.to_warn = True
            self._end(record, INTERRUPTED, notice_seconds)

    def take_events(self) -> list[Params]:
        """What EC2 tells on EventBridge and has not told yet: the states of instances, and warnings."""
        with self._lock:
            now, events = self._now(), []
            for record in self._state.instances.values():
                if record.to_warn:
                    record.to_warn = False
                    events.append(_event(record, WARNING, {"instance-action": "terminate"}))
                if record.told != (state := record.state(now)):
                    record.told = state
                    events.append(_event(record, STATE_CHANGE, {"state": state}))
            self.changes += bool(events)
            return events

    def protect(self, instance_id: str, *, protected: bool = True) -> None:
        """Turn termination protection on or off."""
        with self._changing():
            self._state.instances[instance_id].protected = protected

    def templates(self, known: Iterable[str] | None) -> None:
        """Say which launch templates exist; ``None`` for every one whose id is well formed."""
        with self._changing():
            self._state.templates = None if known is None else sorted(known)

    def subnets(self, known: Iterable[str] | None) -> None:
        """Say which subnets exist, also shared ones; ``None`` for every one whose id is well formed."""
        with self._changing():
            self._state.subnets = None if known is None else sorted(known)

    def offering(
        self, instance_type: str, zone: str, *, offered: bool = True, refuses_whole_fleet: bool = False
    ) -> None:
        """Let a zone offer a type, as it does by default, or not.

        Fleets are told so for each override, or are refused as a whole: EC2 has been seen to do both.
        """
        with self._changing():
            offering = {"instance_type": instance_type, "zone": zone}
            others = [one for one in self._state.not_offered if not offering.items() <= one.items()]
            ours = [] if offered else [{**offering, "refuses_whole_fleet": refuses_whole_fleet}]
            self._state.not_offered = others + ours

    def policies(self, deployment: str | None = ANY) -> None:
        """Deny changes of instances without a deployment's tag, as the deployed policies do.

        The tag must have that value, or any at all; ``None`` allows everything.
        """
        with self._changing():
            self._state.policy_deployment = deployment

    def forget_answers(self, *, forgetful: bool = True) -> None:
        """Answer a repeated CreateFleet with the id of its fleet alone: more is not documented."""
        with self._changing():
            self._state.is_forgetful = forgetful

    def overlook(self, instance_id: str) -> None:
        """Pass over an instance that is to be ended, stopped or started: the answer does not have it."""
        with self._changing():
            self._state.overlooked.append(instance_id)

    def copy(self, instance_id: str) -> InstanceId:
        """What the console calls "launch more like this": another instance with the same tags, without fleet.

        Tags that begin with ``aws:`` are EC2's own, and are never copied. Answers the new id.
        """
        with self._changing():
            like = self._state.instances[instance_id]
            tags = {key: value for key, value in like.tags.items() if not key.startswith("aws:")}
            override = {"InstanceType": like.instance_type, "SubnetId": like.subnet_id}
            return cast("InstanceId", self._start(override, like.market, "by-hand", tags).id)

    def quotas(self, values: dict[str, float | None], *, replace: bool = False) -> None:
        """Let Service Quotas know these, by code, beside those of before or in their place.

        ``None``: it failed to find out.
        """
        with self._changing():
            self._state.quotas = dict(values) if replace else self._state.quotas | values

    def zones(self, zones: dict[str, str]) -> None:
        """Put subnets into zones. Otherwise three zones take the subnets in turn, as they first appear."""
        with self._changing():
            self._state.zones |= zones

    def configure(self, **seconds: float) -> None:
        """Change some of ``Settings``."""
        with self._changing():
            self._state.settings = asdict(replace(self.settings, **seconds))

    def advance(self, seconds: float) -> None:
        """Put EC2's clock ahead of the injected one by that much more."""
        with self._changing():
            self._state.ahead_seconds += seconds

    def boot(self) -> None:
        """What boots has booted now."""
        with self._changing():
            now = self._now()
            for record in self._state.instances.values():
                record.running_at = min(record.running_at, now)

    def reset_faults(self) -> None:
        """Fail no more calls."""
        with self._changing():
            self._state.faults.clear()

    def reset(self) -> None:
        """Forget everything but the numbers given out, so that no id is ever used twice."""
        with self._changing():
            self._state = _State(asdict(self._initial), self._state.epoch, number=self._state.number)
            self.calls.clear()
            self.throttled.clear()

    def alive(self) -> set[InstanceId]:
        """Ids of the instances that run, or will."""
        with self._lock:
            return {id_ for id_ in self.existing() if self._state.instances[id_].stopped_at is None}

    def existing(self) -> set[InstanceId]:
        """Ids of the instances that nobody has ended, stopped ones included."""
        with self._lock:
            return {
                cast("InstanceId", one.id)
                for one in self._state.instances.values()
                if one.terminated_at is None
            }

    def tagged(self, key: str) -> Counter[str]:
        """How many instances there ever were, but for lost ones, by their value of a tag that each has."""
        with self._lock:
            return Counter(one.tags[key] for one in self._state.instances.values())

    def groups(self) -> list[str]:
        """The names of the placement groups."""
        with self._lock:
            return sorted(self._state.groups)

    def snapshot(self) -> Params:
        """All state as plain JSON data, for ``restore``."""
        with self._lock:
            instances = {id_: vars(record) for id_, record in self._state.instances.items()}
            return _copied({**vars(self._state), "instances": instances})

    def restore(self, snapshot: Params) -> None:
        """Take the state of an earlier ``snapshot``."""
        with self._changing():
            state = _State(**_copied(snapshot))
            records: dict[str, Any] = state.instances
            state.instances = {id_: _Instance(**record) for id_, record in records.items()}
            self._state = state

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return Settings(**self._state.settings)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._lock:
            self.changes += 1
            yield

    def _now(self) -> float:
        return self._clock() + self._state.ahead_seconds

    # Throttling.

    def _require_call(self, operation: str, asked: Params) -> None:
        """Take the token of a call, if calls are limited."""
        if self._state.rates is None:
            return
        usual = READING if operation.startswith(("Describe", "List")) else CHANGING
        if operation == "DescribeInstances" and not ("Filters" in asked or "MaxResults" in asked):
            usual = READING_WITHOUT_FILTERS
        buckets, bucket = TokenBuckets(self._state.levels), CALLS.get(operation, usual)
        if not buckets.take(f"calls of {operation}", bucket, 1, self._now()):
            self.throttled[operation] += 1
            raise Ec2Error(*THROTTLED)

    def _may_touch(self, action: str, count: int) -> bool:
        """Take the tokens of so many instances, if actions are limited; a call gets all of them or none.

        A negative number gives back.
        """
        if self._state.rates is None:
            return True
        buckets, bucket = TokenBuckets(self._state.levels), Bucket(*self._state.rates[action])
        granted = buckets.take(f"instances of {action}", bucket, count, self._now())
        if not granted:
            self.throttled[action] += 1
        return granted

    def _require_instances(self, action: str, ids: list[str]) -> None:
        if not self._may_touch(action, len(ids)):
            raise Ec2Error(*THROTTLED)

    # CreateFleet.

    def _create_fleet(self, asked: Params) -> Params:
        token = asked.get("ClientToken", "")
        if len(token) > MAX_TOKEN_LENGTH or not token.isascii():
            raise Ec2Error("InvalidParameterValue", "The client token must have at most 64 ASCII characters.")
        earlier = self._state.tokens.get(token)
        if earlier is None:
            asked = copy.deepcopy(asked)
            earlier = {"asked": asked, "answer": self._launch(asked)}
            if token:
                self._state.tokens[token] = earlier
        elif earlier["asked"] != asked:
            message = "The parameters are not those of the earlier request with this client token."
            raise Ec2Error("IdempotentParameterMismatch", message)
        elif self._state.is_forgetful:
            return {"FleetId": earlier["answer"]["FleetId"]}
        answer: Params = copy.deepcopy(earlier["answer"])
        return answer

    def _launch(self, asked: Params) -> Params:
        _only(
            asked,
            "ClientToken Type LaunchTemplateConfigs TargetCapacitySpecification SpotOptions OnDemandOptions"
            " TagSpecifications",
        )
        target = asked["TargetCapacitySpecification"]
        _only(target, "TotalTargetCapacity DefaultTargetCapacityType")
        if asked.get("Type") != "instant":
            raise Ec2Error("UnsupportedOperation", "Only fleets of type instant are modelled.")
        market = target.get("DefaultTargetCapacityType", "on-demand")
        options = asked.get("SpotOptions" if market == "spot" else "OnDemandOptions", {})
        _check_options(options)
        choices = [
            {"LaunchTemplateSpecification": config["LaunchTemplateSpecification"], "Overrides": override}
            for config in asked["LaunchTemplateConfigs"]
            for override in config["Overrides"]
        ]
        self._check_choices(choices)
        if options.get("AllocationStrategy") == "prioritized":
            choices.sort(key=lambda choice: float(choice["Overrides"].get("Priority", "inf")))
        else:
            choices.reverse()
        if options.get("SingleAvailabilityZone"):
            zone = self._zone(choices[0]["Overrides"]["SubnetId"])
            choices = [one for one in choices if self._zone(one["Overrides"]["SubnetId"]) == zone]
        before = copy.deepcopy((self._state.limits, self._state.levels))
        answer = self._launch_choices(asked, choices, market, target["TotalTargetCapacity"])
        launched = [id_ for group in answer["Instances"] for id_ in group["InstanceIds"]]
        if len(launched) < options.get("MinTargetCapacity", 0):
            # It was looked at whether all would do, and nothing was launched.
            for id_ in launched:
                del self._state.instances[id_]
            self._state.limits, self._state.levels = before
            answer["Instances"] = []
        return answer

    def _launch_choices(self, asked: Params, choices: list[Params], market: str, total: int) -> Params:
        fleet_id = f"fleet-{self._state.epoch & 0xFFFFFFFF:08x}-0000-0000-0000-{self._next_number():012x}"
        tags = {**_tags(asked, "instance"), "aws:ec2:fleet-id": fleet_id}
        other_tags = {kind: _tags(asked, kind) for kind in ("volume", "network-interface")}
        answer: Params = {"FleetId": fleet_id, "Instances": [], "Errors": []}
        wanted = total
        for choice in choices:
            if wanted == 0:
                break
            # What a fleet launches is RunInstances' to count; the answer says so for each override.
            if self._may_touch("RunInstances", wanted):
                count, code, message = self._grant(choice["Overrides"], wanted)
                self._may_touch("RunInstances", count - wanted)
            else:
                count, code, message = 0, *THROTTLED
            about = {"LaunchTemplateAndOverrides": choice, "Lifecycle": market}
            if count:
                new = [self._start(choice["Overrides"], market, fleet_id, tags) for _ in range(count)]
                for record in new:
                    record.other_tags = other_tags
                about_new = {"InstanceIds": [r.id for r in new], "InstanceType": new[0].instance_type}
                answer["Instances"].append({**about, **about_new})
            if count < wanted:
                answer["Errors"].append({**about, "ErrorCode": code, "ErrorMessage": message})
            wanted -= count
        return answer

    def _check_choices(self, choices: list[Params]) -> None:
        for choice in choices:
            self._check_choice(choice)
        pools = [
            (one["Overrides"]["InstanceType"], self._zone(one["Overrides"]["SubnetId"])) for one in choices
        ]
        if len(pools) != len(set(pools)):
            raise Ec2Error("InvalidFleetConfig", "The fleet configuration contains duplicate instance pools.")
        for type_, zone in pools:
            if (offering := self._lacking(type_, zone)) and offering["refuses_whole_fleet"]:
                raise Ec2Error(*_not_offered(type_, zone))

    def _lacking(self, type_: str, zone: str) -> Params | None:
        """How a zone refuses a type that it does not offer; ``None`` for one that it offers."""
        offerings = (one for one in self._state.not_offered if one["instance_type"] == type_)
        return next((one for one in offerings if one["zone"] in (ANY, zone)), None)

    def _check_choice(self, choice: Params) -> None:
        _only(choice["Overrides"], "InstanceType SubnetId Priority Placement")
        _only(choice["Overrides"].get("Placement", {}), "GroupName")
        template_id = choice["LaunchTemplateSpecification"]["LaunchTemplateId"]
        if not re.fullmatch(r"lt-[0-9a-f]{8}([0-9a-f]{9})?", template_id):
            raise Ec2Error("InvalidLaunchTemplateId.Malformed", f"Invalid launch template id: {template_id}")
        if self._state.templates is not None and template_id not in self._state.templates:
            raise Ec2Error("InvalidLaunchTemplateId.NotFound", f"There is no template '{template_id}'.")
        _check_types([choice["Overrides"]["InstanceType"]])
        self._zone(choice["Overrides"]["SubnetId"])
        group = choice["Overrides"].get("Placement", {}).get("GroupName")
        if group:
            self._check_groups([group])

    def _grant(self, override: Params, wanted: int) -> tuple[int, str, str]:
        """How many of ``wanted`` may launch there, and the error code and text for the others."""
        type_, subnet_id = override["InstanceType"], override["SubnetId"]
        if self._state.subnets is not None and subnet_id not in self._state.subnets:
            return 0, "InvalidSubnetID.NotFound", f"The subnet ID '{subnet_id}' does not exist"
        zone = self._zone(subnet_id)
        if self._lacking(type_, zone):
            return 0, *_not_offered(type_, zone)
        group = override.get("Placement", {}).get("GroupName")
        if group:
            strategies = instance_types()[type_]["PlacementGroupInfo"]["SupportedStrategies"]
            if self._state.groups[group]["Strategy"] not in strategies:
                message = f"Cluster placement groups are not supported by the '{type_}' instance type."
                return 0, "InvalidParameterCombination", message
            if any((member.zone, member.instance_type) != (zone, type_) for member in self._members(group)):
                message = f"The placement group {group} has no capacity for {type_} in {zone}."
                return 0, "InsufficientInstanceCapacity", message
        limits = [
            limit
            for limit in self._state.limits
            if limit["instance_type"] in (ANY, type_) and limit["subnet_id"] in (ANY, subnet_id)
        ]
        count, code = min([(limit["remaining"], limit["code"]) for limit in limits], default=(wanted, ""))
        count = min(count, wanted)
        for limit in limits:
            limit["remaining"] -= count
        return count, code, f"There is not enough capacity for {type_} in {subnet_id} ({zone})."

    def _start(self, override: Params, market: str, fleet_id: str, tags: dict[str, str]) -> _Instance:
        now, settings, number = self._now(), self.settings, self._next_number()
        record = _Instance(
            id=f"i-{self._state.epoch & 0xFFFFFFFF:08x}{number:09x}",
            number=number,
            instance_type=override["InstanceType"],
            subnet_id=override["SubnetId"],
            zone=self._zone(override["SubnetId"]),
            market=market,
            client_token=f"{fleet_id}-{number}",
            group=override.get("Placement", {}).get("GroupName", ""),
            tags=dict(tags),
            launched_at=now,
            visible_at=now + settings.describe_lag_seconds,
            addressed_at=now + settings.address_seconds,
            running_at=now + settings.boot_seconds,
        )
        self._state.instances[record.id] = record
        return record

    def _next_number(self) -> int:
        self._state.number += 1
        return self._state.number

    def _zone(self, subnet_id: str) -> str:
        zones = self._state.zones
        return zones.setdefault(subnet_id, "us-east-1" + "abc"[len(zones) % 3])

    # Subnets.

    def _describe_subnets(self, asked: Params) -> Params:
        _only(asked, "SubnetIds Filters MaxResults NextToken")
        named = list(asked.get("SubnetIds", []))
        if named and "MaxResults" in asked:
            raise Ec2Error("InvalidParameterCombination", "MaxResults cannot go with subnet ids.")
        unknown = [id_ for id_ in named if not self._has_subnet(id_)]
        if unknown:
            raise Ec2Error("InvalidSubnetID.NotFound", f"The subnet ID '{unknown[0]}' does not exist")
        ids = named or sorted({*self._state.zones, *(self._state.subnets or ())})
        for name, values in _filters(asked):
            if name != "subnet-id":
                raise Ec2Error("InvalidParameterValue", f"The filter '{name}' is invalid")
            ids = [id_ for id_ in sorted(values) if not named or id_ in named]
        ids = [id_ for id_ in ids if self._has_subnet(id_)]
        places = {id_: place for place, id_ in enumerate(ids)}
        ids, answer = _page(ids, asked, MAX_IDS, lambda id_: places[id_])
        return {**answer, "Subnets": [{"SubnetId": id_, "AvailabilityZone": self._zone(id_)} for id_ in ids]}

    def _has_subnet(self, id_: str) -> bool:
        if self._state.subnets is None:
            return re.fullmatch(r"subnet-[0-9a-f]{8}([0-9a-f]{9})?", id_) is not None
        return id_ in self._state.subnets

    # Instances.

    def _describe_instances(self, asked: Params) -> Params:
        _only(asked, "InstanceIds Filters MaxResults NextToken")
        now = self._now()
        if asked.get("InstanceIds"):
            if "MaxResults" in asked:
                raise Ec2Error("InvalidParameterCombination", "MaxResults cannot go with instance ids.")
            records = self._known(asked["InstanceIds"])
        else:
            records = [r for r in self._state.instances.values() if r.is_shown(now)]
        for name, values in _filters(asked):
            records = [r for r in records if not values.isdisjoint(_filterable(r, name, now))]
        answer: Params = {}
        if not asked.get("InstanceIds"):
            records, answer = _page(records, asked, MAX_IDS, lambda r: r.number)
        shapes = [_shape(r, now) for r in records]
        return {**answer, "Reservations": [{"Instances": shapes}] if shapes else []}

    def _terminate_instances(self, asked: Params) -> Params:
        _only(asked, "InstanceIds")
        self._require_instances("TerminateInstances", asked["InstanceIds"])
        records, now = self._changeable(asked["InstanceIds"]), self._now()
        before = {r.id: r.state(now) for r in records}
        kept = [r for r in records if r.protected]
        for record in records:
            if record.zone not in {r.zone for r in kept}:
                self._end(record, BY_HAND)
        if kept:
            message = f"The instance '{kept[0].id}' may not be terminated: it has termination protection."
            raise Ec2Error("OperationNotPermitted", message)
        changes = [
            {"InstanceId": r.id, "PreviousState": _state(before[r.id]), "CurrentState": _state(r.state(now))}
            for r in records
        ]
        return {"TerminatingInstances": changes}

    def _stop_instances(self, asked: Params) -> Params:
        _only(asked, "InstanceIds")
        self._require_instances("StopInstances", asked["InstanceIds"])
        records, now = self._changeable(asked["InstanceIds"]), self._now()
        for record in records:
            if record.market == "spot":
                message = f"You can't stop the Spot Instance '{record.id}' of a one-time request."
                raise Ec2Error("UnsupportedOperation", message)
        self._require_state(records, "stop", {"pending", "running", "stopping", "stopped"})
        for record in records:
            if record.stopped_at is None:
                record.stopped_at = now + self.settings.terminate_seconds
        return {"StoppingInstances": self._changes(records)}

    def _start_instances(self, asked: Params) -> Params:
        _only(asked, "InstanceIds")
        self._require_instances("StartInstances", asked["InstanceIds"])
        records, now = self._changeable(asked["InstanceIds"]), self._now()
        self._require_state(records, "start", {"pending", "running", "stopped"})
        stopped = [record for record in records if record.stopped_at is not None]
        for record in stopped:
            override = {"InstanceType": record.instance_type, "SubnetId": record.subnet_id}
            granted, code, message = self._grant(override, 1)
            if not granted:
                raise Ec2Error(code, message)
        for record in stopped:
            record.stopped_at, record.running_at = None, now + self.settings.boot_seconds
        return {"StartingInstances": self._changes(records)}

    def _reboot_instances(self, asked: Params) -> Params:
        _only(asked, "InstanceIds")
        records = self._changeable(asked["InstanceIds"])
        # Those that have ended, or are about to, are passed over without a word.
        now = self._now()
        living = [record for record in records if record.state(now) not in ("shutting-down", "terminated")]
        self._require_state(living, "reboot", {"pending", "running"})
        for record in living:
            record.reboots += 1
        return {}

    def _require_state(self, records: list[_Instance], what: str, allowed: set[str]) -> None:
        for record in records:
            if record.state(self._now()) not in allowed:
                message = f"The instance '{record.id}' is not in a state from which it can be made to {what}."
                raise Ec2Error("IncorrectInstanceState", message)

    def _changes(self, records: list[_Instance]) -> list[Params]:
        now = self._now()
        return [{"InstanceId": r.id, "CurrentState": _state(r.state(now))} for r in records]

    def _create_tags(self, asked: Params) -> Params:
        _only(asked, "Resources Tags")
        tags = {tag["Key"]: tag.get("Value", "") for tag in asked["Tags"]}
        for key, value in tags.items():
            if key.startswith("aws:") or not 0 < len(key) <= MAX_TAG_KEY or len(value) > MAX_TAG_VALUE:
                raise Ec2Error("InvalidParameterValue", f"The tag '{key}' cannot be set.")
        records = self._changeable(asked["Resources"])
        # EC2's own tags do not count.
        named = [{key for key in {**r.tags, **tags} if not key.startswith("aws:")} for r in records]
        if any(len(keys) > MAX_TAGS for keys in named):
            raise Ec2Error("TagLimitExceeded", f"More than {MAX_TAGS} tags specified")
        for record in records:
            record.tags |= tags
        return {}

    def _changeable(self, ids: list[str]) -> list[_Instance]:
        """The instances of those ids, all of which the caller's policy must allow to change.

        What is not known has no tag, and so its denial comes before anybody finds out that it is not known.
        """
        _require_well_formed(ids)
        now, deployment = self._now(), self._state.policy_deployment
        records = [self._state.instances.get(id_) for id_ in ids]
        tags = [r.tags.get("paddock:deployment", "") if r and r.is_shown(now) else "" for r in records]
        if deployment is not None and not all(tag and deployment in (ANY, tag) for tag in tags):
            message = "You are not authorized to perform this operation. Encoded authorization failure: gAJv"
            raise Ec2Error("UnauthorizedOperation", message)
        return [record for record in self._known(ids) if record.id not in self._state.overlooked]

    def _known(self, ids: list[str]) -> list[_Instance]:
        """The instances of those ids; one that is not shown fails the call."""
        if len(ids) > MAX_IDS:
            raise Ec2Error("InvalidParameterValue", f"At most {MAX_IDS} ids can be given, not {len(ids)}.")
        _require_well_formed(ids)
        now, records = self._now(), self._state.instances
        unknown = [id_ for id_ in dict.fromkeys(ids) if id_ not in records or not records[id_].is_shown(now)]
        if unknown:
            text = (
                "The instance ID '{}' does not exist"
                if len(unknown) == 1
                else "The instance IDs '{}' do not exist"
            )
            raise Ec2Error("InvalidInstanceID.NotFound", text.format(", ".join(unknown)))
        return [records[id_] for id_ in dict.fromkeys(ids)]

    def _end(self, record: _Instance, reason: str, notice_seconds: float = 0.0) -> None:
        ending_at = self._now() + notice_seconds
        if record.terminated_at is None or ending_at < record.ending_at:
            record.ending_at, record.reason = ending_at, reason
            record.terminated_at = ending_at + self.settings.terminate_seconds

    # Quotas.

    def _list_service_quotas(self, asked: Params) -> Params:
        _only(asked, "ServiceCode MaxResults NextToken")
        if asked["ServiceCode"] != "ec2":
            raise Ec2Error("NoSuchResourceException", "The request failed because the service is unknown.")
        places = list(enumerate(sorted(self._state.quotas.items())))
        page, answer = _page(places, asked, MAX_QUOTAS, lambda item: item[0])
        return {**answer, "Quotas": [_quota(code, value) for _, (code, value) in page]}

    # Instance types and placement groups.

    def _describe_instance_types(self, asked: Params) -> Params:
        _only(asked, "InstanceTypes Filters MaxResults NextToken")
        names = asked.get("InstanceTypes") or sorted(instance_types())
        _check_types(names)
        if asked.get("InstanceTypes") and ("MaxResults" in asked or len(names) > MAX_TYPES):
            raise Ec2Error(
                "InvalidParameterCombination", "There are too many types, or MaxResults beside them."
            )
        for name, values in _filters(asked):
            if name != "instance-type":
                raise Ec2Error("InvalidParameterValue", f"The filter '{name}' is invalid")
            names = [type_ for type_ in names if type_ in values]
        order = {type_: place for place, type_ in enumerate(names)}
        names, answer = _page(names, asked, MAX_TYPES, lambda type_: order[type_])
        return {**answer, "InstanceTypes": [instance_types()[type_] for type_ in names]}

    def _create_placement_group(self, asked: Params) -> Params:
        _only(asked, "GroupName Strategy TagSpecifications")
        name, groups = asked["GroupName"], self._state.groups
        if name in groups:
            raise Ec2Error("InvalidPlacementGroup.Duplicate", f"The placement group '{name}' already exists.")
        if len(groups) >= MAX_GROUPS:
            raise Ec2Error("PlacementGroupLimitExceeded", f"There can be {MAX_GROUPS} placement groups.")
        groups[name] = {
            "GroupName": name,
            "GroupId": f"pg-{self._state.epoch & 0xFFFFFFFF:08x}{self._next_number():09x}",
            "Strategy": asked.get("Strategy", "cluster"),
            "State": "available",
            "Tags": _tag_list(_tags(asked, "placement-group")),
        }
        return {"PlacementGroup": dict(groups[name])}

    def _describe_placement_groups(self, asked: Params) -> Params:
        _only(asked, "GroupNames")
        self._check_groups(asked.get("GroupNames", []))
        names = asked.get("GroupNames") or list(self._state.groups)
        return {"PlacementGroups": [dict(self._state.groups[name]) for name in names]}

    def _delete_placement_group(self, asked: Params) -> Params:
        _only(asked, "GroupName")
        name = asked["GroupName"]
        self._check_groups([name])
        if self._members(name):
            raise Ec2Error("InvalidPlacementGroup.InUse", f"The placement group '{name}' is in use.")
        del self._state.groups[name]
        return {}

    def _check_groups(self, names: list[str]) -> None:
        for name in names:
            if name not in self._state.groups:
                raise Ec2Error("InvalidPlacementGroup.Unknown", f"The placement group '{name}' is unknown.")

    def _members(self, group: str) -> list[_Instance]:
        now, records = self._now(), self._state.instances.values()
        return [record for record in records if record.group == group and record.state(now) != "terminated"]


def _copied(data: Params) -> Params:
    """The same plain JSON data once more; ``deepcopy`` takes five times as long."""
    copied: Params = json.loads(json.dumps(data))
    return copied


def _check_options(options: Params) -> None:
    _only(options, "AllocationStrategy MinTargetCapacity SingleAvailabilityZone SingleInstanceType")
    at_least = options.get("MinTargetCapacity", 0)
    if at_least and not (options.get("SingleAvailabilityZone") or options.get("SingleInstanceType")):
        message = "MinTargetCapacity needs SingleAvailabilityZone or SingleInstanceType."
        raise Ec2Error("InvalidParameterCombination", message)
    if at_least > MAX_IDS:
        raise Ec2Error("InvalidParameterValue", f"MinTargetCapacity is at most {MAX_IDS}.")


def _require_well_formed(ids: Iterable[str]) -> None:
    for id_ in ids:
        if not re.fullmatch(r"i-[0-9a-f]{8}([0-9a-f]{9})?", id_):
            raise Ec2Error("InvalidInstanceID.Malformed", f'Invalid id: "{id_}"')


def _not_offered(type_: str, zone: str) -> tuple[str, str]:
    message = f"Your requested instance type ({type_}) is not supported in your requested Availability Zone"
    return "InvalidFleetConfiguration", f"{message} ({zone})."


def _only(given: Params, known: str) -> None:
    unknown = set(given) - set(known.split())
    if unknown:
        raise Ec2Error("UnknownParameter", f"Not modelled: {', '.join(sorted(unknown))}.")


def _check_types(names: Iterable[str]) -> None:
    unknown = [name for name in names if name not in instance_types()]
    if unknown:
        raise Ec2Error("InvalidInstanceType", f"The following instance types do not exist: {unknown}")


def _tags(asked: Params, resource_type: str) -> dict[str, str]:
    return {
        tag["Key"]: tag.get("Value", "")
        for specification in asked.get("TagSpecifications", [])
        if specification["ResourceType"] == resource_type
        for tag in specification["Tags"]
    }


def _tag_list(tags: dict[str, str]) -> list[Params]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _filters(asked: Params) -> Iterable[tuple[str, set[str]]]:
    for item in asked.get("Filters", []):
        if len(item["Values"]) > MAX_FILTER_VALUES:
            raise Ec2Error("FilterLimitExceeded", f"A filter takes at most {MAX_FILTER_VALUES} values.")
        yield item["Name"], set(item["Values"])


def _filterable(record: _Instance, name: str, now: float) -> set[str]:
    """What a filter of that name compares with."""
    match name.partition(":"):
        case "tag", ":", key:
            return {record.tags[key]} if key in record.tags else set()
        case "client-token", "", "":
            return {record.client_token}
        case "instance-id", "", "":
            return {record.id}
        case "instance-state-name", "", "":
            return {record.state(now)}
        case "tag-key", "", "":
            return set(record.tags)
    raise Ec2Error("InvalidParameterValue", f"The filter '{name}' is invalid")


def _page(
    items: list[_T], asked: Params, largest: int, number: Callable[[_T], int]
) -> tuple[list[_T], Params]:
    """The page asked for, of ``items`` in ascending order of ``number``, and the token of the next one."""
    size = asked.get("MaxResults", largest)
    if not MIN_PAGE <= size <= largest:
        raise Ec2Error("InvalidParameterValue", f"MaxResults must be from {MIN_PAGE} to {largest}.")
    after = asked.get("NextToken", "-1")
    if not re.fullmatch(r"-?\d+", after):
        raise Ec2Error("InvalidNextToken", "The token is not one that an earlier page gave.")
    left = [item for item in items if number(item) > int(after)]
    return left[:size], {"NextToken": str(number(left[size - 1]))} if len(left) > size else {}


def _quota(code: str, value: float | None) -> Params:
    if value is None:
        reason = {"ErrorCode": "DEPENDENCY_SERVICE_ERROR", "ErrorMessage": "EC2 did not answer."}
        return {"ServiceCode": "ec2", "QuotaCode": code, "ErrorReason": reason}
    return {"ServiceCode": "ec2", "QuotaCode": code, "Value": value}


def _event(record: _Instance, detail_type: str, detail: Params) -> Params:
    return {"detail-type": detail_type, "detail": {"instance-id": record.id, **detail}}


def _state(name: str) -> Params:
    return {"Name": name, "Code": STATE_CODES[name]}


def _shape(record: _Instance, now: float) -> Params:
    """The instance as DescribeInstances shows it."""
    state = record.state(now)
    shape: Params = {
        "InstanceId": record.id,
        "InstanceType": record.instance_type,
        "State": _state(state),
        "SubnetId": record.subnet_id,
        "Placement": {"AvailabilityZone": record.zone, "GroupName": record.group, "Tenancy": "default"},
        "ClientToken": record.client_token,
        "LaunchTime": datetime.fromtimestamp(record.launched_at, UTC),
        "PrivateDnsName": "",
        "PublicDnsName": "",
        "Tags": _tag_list(record.tags),
    }
    if record.market == "spot":
        shape["InstanceLifecycle"] = "spot"
    if now >= record.addressed_at and state != "terminated":
        address = ".".join(str(byte) for byte in (FIRST_ADDRESS + record.number).to_bytes(4))
        shape["PrivateIpAddress"] = address
        shape["PrivateDnsName"] = f"ip-{address.replace('.', '-')}.ec2.internal"
    if record.reason and state in ("shutting-down", "terminated"):
        shape["StateReason"] = {"Code": record.reason.split(":")[0], "Message": record.reason}
    return shape
