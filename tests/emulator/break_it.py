"""Let the simulated EC2 behave as it does on a bad day: `make break`. docs/break-it.md tells of it."""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from tests.emulator.processes import StackError
from tests.emulator.running import find
from tests.emulator.stack import REGION, STACK_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.emulator.running import Running

Given = dict[str, str]
Calls = list[tuple[str, dict[str, Any]]]


@dataclass(frozen=True)
class Break:
    """What goes wrong, in a line; the variables that say where or how much; the simulator's doors for it."""

    about: str
    variables: tuple[str, ...]
    doors: Callable[[Given], Calls]


# A name that the simulator does not know would change nothing, and say nothing.
_PATTERNS = {
    "TYPE": (r"[a-z0-9-]+\.[a-z0-9-]+", "EC2's instance type, such as c7i.xlarge"),
    "SUBNET": (r"subnet-[0-9a-f]{8,32}", "a subnet's id, such as subnet-00000001"),
    "CODE": (r"L-[0-9A-F]{8}", "Service Quotas' own, such as L-1216C47A"),
}


def _check(given: Given) -> None:
    for name, (pattern, about) in _PATTERNS.items():
        value = given.get(name)
        if value is None or re.fullmatch(pattern, value):
            continue
        dotted = value.replace("-", ".", 1)
        is_machine_type = name == "TYPE" and re.fullmatch(pattern, dotted)
        hint = f"; write {dotted}" if is_machine_type else ""
        raise StackError(f"{name} is {about}, not {value!r}{hint}")


def _place(given: Given) -> dict[str, str]:
    names = {"TYPE": "instance_type", "SUBNET": "subnet_id"}
    return {names[key]: value for key, value in given.items() if key in names}


def _number(given: Given, name: str, default: int) -> int:
    text = given.get(name, str(default))
    if not text.isdigit():
        raise StackError(f"{name} must be a whole number, not {text!r}")
    return int(text)


def _of_instance(door: str, **arguments: Any) -> Callable[[Given], Calls]:
    def doors(given: Given) -> Calls:
        if "INSTANCE" not in given:
            raise StackError("name the instance: INSTANCE=i-…, the InstanceId of a node")
        return [(door, {"instance_id": given["INSTANCE"], **arguments})]

    return doors


def _failing(code: str) -> Callable[[Given], Calls]:
    return lambda given: [
        ("fail_next", {"operation": "*", "code": code, "times": _number(given, "TIMES", 20)})
    ]


BREAKS: Mapping[str, Break] = {
    "no-capacity": Break(
        "EC2 has no capacity, for a type or in a subnet where one is named",
        ("TYPE", "SUBNET"),
        lambda given: [("capacity", {"remaining": 0, **_place(given)})],
    ),
    "capacity": Break(
        "EC2 has capacity again",
        ("TYPE", "SUBNET"),
        lambda given: [("capacity", {"remaining": None, **_place(given)})],
    ),
    "end": Break("an instance ends by itself", ("INSTANCE",), _of_instance("end")),
    "interrupt": Break(
        "spot takes an instance back, after a warning of two minutes",
        ("INSTANCE",),
        _of_instance("interrupt"),
    ),
    "protect": Break("an instance will not be ended", ("INSTANCE",), _of_instance("protect")),
    "unprotect": Break(
        "an instance may be ended again", ("INSTANCE",), _of_instance("protect", protected=False)
    ),
    "throttle": Break("EC2 throttles the next calls (20)", ("TIMES",), _failing("RequestLimitExceeded")),
    "outage": Break("EC2 fails the next calls (20)", ("TIMES",), _failing("InternalError")),
    "lose-answer": Break(
        "the next launch is done, and its answer lost",
        (),
        lambda _: [("fail_next", {"operation": "CreateFleet", "code": "AnswerLost", "after_effect": True})],
    ),
    "rates": Break(
        "EC2 keeps to its token buckets: 1,000 instances, then 2 a second", (), lambda _: [("rates", {})]
    ),
    "lag": Break(
        "descriptions lag behind launches (30 s)",
        ("SECONDS",),
        lambda given: [("configure", {"describe_lag_seconds": _number(given, "SECONDS", 30)})],
    ),
    "slow-boot": Break(
        "instances take long to boot (60 s)",
        ("SECONDS",),
        lambda given: [("configure", {"boot_seconds": _number(given, "SECONDS", 60)})],
    ),
    "quota": Break(
        "the account has a quota (of 8 vCPU for Standard on demand), read within a minute",
        ("CODE", "VCPU"),
        lambda given: [("quotas", {"values": {given.get("CODE", "L-1216C47A"): _number(given, "VCPU", 8)}})],
    ),
    "nothing": Break(
        "no more calls fail, there is capacity everywhere, no quota is known, and nothing is slow",
        (),
        lambda _: [
            ("reset_faults", {}),
            ("lift_limits", {}),
            ("rates", {"limited": False}),
            ("quotas", {"values": {}, "replace": True}),
            ("configure", {"describe_lag_seconds": 0, "boot_seconds": 3}),
        ],
    ),
}


def main() -> int:
    """Do what WHAT names. Return the exit status."""
    what = os.environ.get("WHAT", "")
    try:
        if what not in BREAKS:
            print(_help(what), file=sys.stderr)
            return 2 if what else 0
        given = {name: os.environ[name] for name in BREAKS[what].variables if os.environ.get(name)}
        _check(given)
        calls = BREAKS[what].doors(given)
        running = find()
        for door, arguments in calls:
            _open(f"{running.ec2}/_fake/{door}", arguments)
            if door == "quotas":
                forget_quotas(running)
    except StackError as problem:
        print(f"paddock: {problem}", file=sys.stderr)
        return 1
    print(f"paddock: {_done(BREAKS[what].about, given)}")
    return 0


def forget_quotas(running: Running) -> None:
    """Let the reconciler, which asks for quotas once an hour, ask for them when it runs next, in a minute."""
    session = boto3.Session("test", "test", region_name=REGION)
    try:
        stacks: Any = session.client("cloudformation", endpoint_url=running.aws)
        [stack] = stacks.describe_stacks(StackName=STACK_NAME)["Stacks"]
        [table] = [one["OutputValue"] for one in stack["Outputs"] if one["OutputKey"] == "TableName"]
        dynamodb: Any = session.client("dynamodb", endpoint_url=running.aws)
        dynamodb.delete_item(TableName=table, Key={"pk": {"S": "QUOTAS"}, "sk": {"S": "QUOTAS"}})
    except (BotoCoreError, ClientError) as error:
        raise StackError(f"the AWS emulator does not answer: {error}") from error


def _open(url: str, arguments: dict[str, Any]) -> None:
    request = urllib.request.Request(url, json.dumps(arguments).encode(), method="POST")  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=10):  # noqa: S310 - an address of this computer's own
            return
    except urllib.error.HTTPError as error:
        reason = json.loads(error.read()).get("error", "")
        raise StackError(f"the simulator refused: {reason}") from error
    except OSError as error:
        raise StackError(f"the EC2 simulator does not answer: {error}") from error


def _done(about: str, given: Given) -> str:
    """What was done: with the values that were given, in place of those that stand in parentheses."""
    if not given:
        return about
    values = " ".join(f"{name}={value}" for name, value in given.items())
    return f"{re.sub(r' [(][^)]*[)]', '', about)}: {values}"


def _help(what: str) -> str:
    lines = [
        f"paddock: there is no {what!r}; take one of these:" if what else "make break WHAT=…, one of these:"
    ]
    for name, one in BREAKS.items():
        options = "".join(f" {variable}=" for variable in one.variables)
        lines.append(f"  {name + options:28} {one.about}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
