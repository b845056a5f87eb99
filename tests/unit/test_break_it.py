"""`make break`: each bad day reaches the simulator, and the docs list what there is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.emulator import break_it, logs
from tests.emulator.break_it import BREAKS
from tests.emulator.ec2_server import serving
from tests.emulator.running import Running, find, told
from tests.emulator.template import ROOT
from tests.fakes.ec2 import FakeEc2

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FLEET = {
    "Type": "instant",
    "LaunchTemplateConfigs": [
        {
            "LaunchTemplateSpecification": {"LaunchTemplateId": "lt-0123456789abcdef0", "Version": "1"},
            "Overrides": [{"InstanceType": "c7i.xlarge", "SubnetId": "subnet-00000001"}],
        }
    ],
    "TargetCapacitySpecification": {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "spot"},
}


@pytest.fixture
def ec2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEc2]:
    """A simulator that runs as in `make local`."""
    fake = FakeEc2(time.time)
    with serving(fake) as server, told(Running("", server.url), tmp_path / "running.json"):
        monkeypatch.setattr(break_it, "find", lambda: find(tmp_path / "running.json"))
        # No AWS emulator runs here; tests/integration/test_quotas.py has one.
        monkeypatch.setattr(break_it, "forget_quotas", lambda _: None)
        yield fake


def do(monkeypatch: pytest.MonkeyPatch, **variables: str) -> int:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return break_it.main()


def launched(ec2: FakeEc2) -> str:
    ids: list[str] = ec2.call("CreateFleet", FLEET)["Instances"][0]["InstanceIds"]
    return ids[0]


@pytest.mark.parametrize("what", BREAKS)
def test_each_changes_the_simulator(what: str, ec2: FakeEc2, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = launched(ec2)
    ec2.capacity(0)
    ec2.quotas({"L-34B43A08": 8})
    ec2.protect(instance, protected=what == "unprotect")
    before = ec2.snapshot()
    assert (
        do(monkeypatch, WHAT=what, INSTANCE=instance, TYPE="c7i.large" if what == "no-capacity" else "") == 0
    )
    assert ec2.snapshot() != before


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"WHAT": "lag", "SECONDS": "5"}, "descriptions lag behind launches: SECONDS=5"),
        ({"WHAT": "lag"}, "descriptions lag behind launches (30 s)"),
        ({"WHAT": "rates"}, "EC2 keeps to its token buckets: 1,000 instances, then 2 a second"),
    ],
)
@pytest.mark.usefixtures("ec2")
def test_it_says_what_it_did(
    variables: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert do(monkeypatch, **variables) == 0
    assert capsys.readouterr().out == f"paddock: {said}\n"


def test_nothing_undoes_what_was_broken(ec2: FakeEc2, monkeypatch: pytest.MonkeyPatch) -> None:
    whole: dict[str, Any] = ec2.snapshot()
    for what in ("no-capacity", "throttle", "outage", "lose-answer", "rates", "lag", "slow-boot", "quota"):
        assert do(monkeypatch, WHAT=what) == 0
    assert ec2.snapshot() != whole
    assert do(monkeypatch, WHAT="nothing") == 0
    assert ec2.snapshot() == whole


@pytest.mark.parametrize(
    ("variables", "told_why"),
    [
        ({"WHAT": "end"}, "name the instance"),
        ({"WHAT": "end", "INSTANCE": "i-0"}, "the simulator refused"),
        ({"WHAT": "lag", "SECONDS": "long"}, "must be a whole number"),
        ({"WHAT": "everything"}, "no-capacity TYPE= SUBNET="),
        ({"WHAT": "end", "INSTANCE": "ondemand-1"}, "there is no instance ondemand-1"),
        ({"WHAT": "protect", "INSTANCE": "i-0123456789abcdef0"}, "there is no instance i-0123456789abcdef0"),
        ({"WHAT": "no-capacity", "TYPE": "c7i-xlarge"}, "write c7i.xlarge"),
        ({"WHAT": "capacity", "TYPE": "xlarge"}, "TYPE is EC2's instance type, such as c7i.xlarge"),
        ({"WHAT": "no-capacity", "SUBNET": "us-east-1a"}, "SUBNET is a subnet's id, such as subnet-00000001"),
        ({"WHAT": "quota", "CODE": "Standard"}, "CODE is Service Quotas' own, such as L-1216C47A"),
        ({"WHAT": "interrupt", "INSTANCE": "ondemand-1"}, "there is no instance ondemand-1"),
        ({"WHAT": ""}, "no-capacity TYPE= SUBNET="),
    ],
)
def test_what_cannot_be_done_is_told(
    variables: dict[str, str],
    told_why: str,
    ec2: FakeEc2,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = ec2.snapshot()
    assert (do(monkeypatch, **variables) == 0) is (not variables["WHAT"])
    assert told_why in capsys.readouterr().err
    assert ec2.snapshot() == before


def test_it_says_that_nothing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any) -> None:
    monkeypatch.setattr(break_it, "find", lambda: find(tmp_path / "running.json"))
    assert do(monkeypatch, WHAT="outage") == 1
    assert "`make local` must be running" in capsys.readouterr().err


def test_the_docs_list_what_there_is() -> None:
    text = (ROOT / "docs" / "break-it.md").read_text()
    for name, one in BREAKS.items():
        variables = ", ".join(f"`{variable}`" for variable in one.variables)
        assert f"| `{name}` | {one.about} | {variables} |\n" in text


def test_a_line_of_the_log_is_shown_with_what_it_is_about() -> None:
    line = (
        '{"level": "INFO", "message": "stepped", "timestamp": "t", "function_name": "f", "operation_id": "o"}'
    )
    assert logs.shown(line, "") == 't INFO f stepped {"operation_id": "o"}'
    assert logs.shown(line, "o") == logs.shown(line, "")
    assert logs.shown(line, "another") is None
    assert logs.shown("START RequestId: 1", "") is None
