"""Killed in the middle of an operation, at every level: it ends, and nothing is launched twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from paddock.model.node import NodeStatus
from paddock.model.operation import OperationState
from tests.emulator.client import Client
from tests.emulator.processes import free_port, is_free
from tests.emulator.reset import LOCAL
from tests.emulator.stack import Settings, Stack
from tests.emulator.template import ROOT
from tests.fakes import invariants
from tests.integration.aftermath import broken, photograph, reconcile_ahead, settle
from tests.integration.story import create, eventually, finished, new_cluster, nodes

if TYPE_CHECKING:
    from pathlib import Path

# What `make local` is to the emulators: it starts them, and is killed.
PARENT = """
import sys
from pathlib import Path
from tests.integration.test_kill import settings
from tests.emulator.stack import Stack
stack = Stack(settings(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
stack.start()
stack.deploy()
print("ready", flush=True)
sys.stdin.read()
"""
SLOW_SECONDS = 600.0
KILLS = 12


def settings(directory: Path, port: int, ec2_port: int) -> Settings:
    return Settings(
        port=port,
        ec2_port=ec2_port,
        directory=directory,
        build_directory=LOCAL / "build-tests",
        wait_scale=0.05,
        parameters={"Reconciliation": "DISABLED"},
    )


def ec2(stack: Stack) -> dict[str, Any]:
    found: dict[str, Any] = Client(stack.ec2_endpoint, None).get("/_fake/state").json()
    return found


def launched(stack: Stack) -> int:
    """How many instances there have ever been."""
    return len(ec2(stack)["state"]["instances"])


def kill_emulators(stack: Stack) -> None:
    """As when the computer loses its power: both emulators, and what they started."""
    for child, _ in stack._children:
        os.killpg(child._process.pid, signal.SIGKILL)
    stack.stop()


def test_killed_and_started_again_an_operation_ends_and_launches_nothing_twice(tmp_path: Path) -> None:
    """First what `make local` runs in is killed, then the emulators themselves."""
    made = settings(tmp_path, free_port(), free_port())
    stack = Stack(made)
    arguments = [sys.executable, "-c", PARENT, str(tmp_path), str(made.port), str(made.ec2_port)]
    path = os.pathsep.join([str(ROOT), str(ROOT / "layers" / "shared" / "python")])
    with subprocess.Popen(
        arguments,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        cluster = new_cluster(stack.client)
        stack.ec2_control("fail_next", operation="CreateFleet", code="RequestLimitExceeded", times=10_000)
        kept = create(stack.client, cluster, 3, requestId="kept").json()["operationId"]
        eventually(lambda: ec2(stack)["calls"].get("CreateFleet", 0) > 0)
        parent.kill()
    eventually(lambda: is_free(made.port) and is_free(made.ec2_port))
    eventually(lambda: not running_in(tmp_path))

    try:
        stack.start()
        # Everything is as it was, and the operation's execution is not.
        assert photograph(stack).operation(kept).is_running
        stack.ec2_control("reset")
        stack.ec2_control("configure", boot_seconds=SLOW_SECONDS)
        assert reconcile_ahead(stack).resumed == 1
        lost = create(stack.client, cluster, 2, requestId="lost").json()["operationId"]
        state = tmp_path / "ec2.json"
        eventually(lambda: launched(stack) == 5 and state.read_text().count('"reboots"') == 5)
        kill_emulators(stack)

        stack.start()
        # EC2 has both launches. The records are those of before them, and of the second request there is none.
        assert launched(stack) == 5
        assert [node.instance_id for node in photograph(stack).repository.nodes(cluster)] == [""] * 3
        assert photograph(stack).repository.requests("lost") == []
        done = reconcile_ahead(stack)
        assert (done.resumed, done.orphans) == (1, 2)
        stack.ec2_control("advance", seconds=SLOW_SECONDS)
        settle(stack)
        ended = photograph(stack).operation(kept)
        assert (ended.state, ended.succeeded) == (OperationState.SUCCEEDED, 3)
        assert launched(stack) == 5
        # They were launched, once, and are ended; nobody has heard of their operation.
        assert broken(stack) == [f"operation {lost} launched 2 of 0 instances"]
        assert create(stack.client, cluster, 2, requestId="lost").json()["sets"] == [{"added": 2}]
    finally:
        kill_emulators(stack)


def running_in(directory: Path) -> list[str]:
    """Processes whose command line names the directory."""
    listed = subprocess.run(["ps", "-A", "-o", "args="], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if str(directory) in line]


def test_a_workflow_that_is_stopped_is_started_again_and_counts_right(client: Client, stack: Stack) -> None:
    cluster = new_cluster(client)
    stack.ec2_control("configure", boot_seconds=SLOW_SECONDS)
    try:
        operation = create(client, cluster, 3).json()["operationId"]
        eventually(lambda: {one["Status"] for one in nodes(client, cluster)} == {NodeStatus.PREPARING})
        executions = stack.aws("stepfunctions")
        machine = stack.output("StateMachineArn").replace(":stateMachine:", ":execution:")
        executions.stop_execution(executionArn=f"{machine}:{operation}-1")
        stack.ec2_control("advance", seconds=SLOW_SECONDS)
        assert client.get(f"/operations/{operation}").json()["state"] == "Running"
        reconcile_ahead(stack)
    finally:
        stack.ec2_control("configure", boot_seconds=0.05)
    done = finished(client, operation)
    assert done["progress"] == {"total": 3, "succeeded": 3, "failed": 0, "running": 0}
    made = photograph(stack)
    assert made.operation(operation).attempt == 2
    assert invariants.launched(made)[operation] == 3


def test_functions_that_are_killed_at_any_moment_leave_nothing_undone(client: Client, stack: Stack) -> None:
    """Those of the workflow; their operation is one whose nodes come, and go again."""
    cluster = new_cluster(client)
    operation = create(client, cluster, 5).json()["operationId"]
    killed = 0
    while killed < KILLS and photograph(stack).operation(operation).is_running:
        killed += kill_workers(stack)
    assert killed
    assert finished(client, operation)["progress"]["succeeded"] == 5
    made = photograph(stack)
    assert invariants.launched(made)[operation] == 5
    assert len({node["InstanceId"] for node in nodes(client, cluster)}) == 5


def kill_workers(stack: Stack) -> int:
    """Kill what runs the workflow's functions; answers how many there were."""
    tasks = ("Launch", "Poll", "Finish")
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,args="], capture_output=True, text=True, check=True
    ).stdout
    of_ours = [
        line.split(maxsplit=1)
        for line in listed.splitlines()
        if str(stack.settings.directory / "tmp") in line
    ]
    victims = [int(pid) for pid, line in of_ours if any(f"-paddock-{task}-" in line for task in tasks)]
    for victim in victims:
        os.kill(victim, signal.SIGKILL)
    return len(victims)
