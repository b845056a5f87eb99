"""Killed in the middle of an operation, at every level: it ends, and nothing is launched twice."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from paddock.model.identity import ClusterName, OperationId, RequestId
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
import fcntl, sys
from dataclasses import replace
from pathlib import Path
from tests.integration.test_kill import settings
from tests.emulator.stack import Stack
lock = open(Path(sys.argv[1]) / "lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
made = settings(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
stack = Stack(replace(made, held=[lock.fileno()]))
stack.start()
stack.deploy()
print("ready", flush=True)
sys.stdin.read()
"""
SLOW_SECONDS = 600.0


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


@pytest.mark.proves("killed in the middle of a launch: adopted or ended, never pending for ever")
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
    # What they write down when they end takes them a while, and the lock tells how long.
    eventually(lambda: is_free(made.port) and not is_locked(tmp_path / "lock"))

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
        # EC2 has both launches. The records are those of before them; the second request has none.
        assert launched(stack) == 5
        assert [node.instance_id for node in photograph(stack).repository.nodes(ClusterName(cluster))] == [
            ""
        ] * 3
        assert photograph(stack).repository.requests(RequestId("lost")) == []
        done = reconcile_ahead(stack)
        assert (done.resumed, done.orphans) == (1, 2)
        stack.ec2_control("boot")
        settle(stack)
        ended = photograph(stack).operation(kept)
        assert (ended.state, ended.succeeded) == (OperationState.SUCCEEDED, 3)
        assert launched(stack) == 5
        # They were launched, once, and are ended; nobody has heard of their operation.
        assert broken(stack) == [f"operation {lost} launched 2 of 0 instances"]
        assert create(stack.client, cluster, 2, requestId="lost").json()["sets"] == [{"added": 2}]
    finally:
        kill_emulators(stack)


def is_locked(path: Path) -> bool:
    with path.open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        return False


def test_a_workflow_that_is_stopped_is_started_again_and_counts_right(client: Client, stack: Stack) -> None:
    cluster = new_cluster(client)
    stack.ec2_control("configure", boot_seconds=SLOW_SECONDS)
    try:
        operation = create(client, cluster, 3).json()["operationId"]
        eventually(lambda: {one["Status"] for one in nodes(client, cluster)} == {NodeStatus.PREPARING})
        executions = stack.aws("stepfunctions")
        machine = stack.output("StateMachineArn").replace(":stateMachine:", ":execution:")
        executions.stop_execution(executionArn=f"{machine}:{operation}-1")
        stack.ec2_control("boot")
        assert client.get(f"/operations/{operation}").json()["state"] == "Running"
        reconcile_ahead(stack)
    finally:
        stack.ec2_control("configure", boot_seconds=0.05)
    done = finished(client, operation)
    assert done["progress"] == {"total": 3, "succeeded": 3, "failed": 0, "running": 0}
    assert photograph(stack).operation(operation).attempt == 2
    assert launched_for(stack, operation) == 3


def test_functions_that_are_killed_at_any_moment_leave_nothing_undone(client: Client, stack: Stack) -> None:
    """Those of the workflow, as it launches, waits, and ends."""
    cluster = new_cluster(client)
    stack.ec2_control("configure", boot_seconds=SLOW_SECONDS)
    killed: set[int] = set()

    def are_killed(count: int) -> bool:
        killed.update(kill_workers(stack))
        return len(killed) >= count

    try:
        operation = create(client, cluster, 5).json()["operationId"]
        eventually(lambda: are_killed(3))
        eventually(lambda: launched_for(stack, operation) == 5)
        eventually(lambda: are_killed(5))
        stack.ec2_control("boot")
        kill_workers(stack)
    finally:
        stack.ec2_control("configure", boot_seconds=0.05)
    assert finished(client, operation)["progress"]["succeeded"] == 5
    assert launched_for(stack, operation) == 5
    assert len({node["InstanceId"] for node in nodes(client, cluster)}) == 5


def launched_for(stack: Stack, operation: str) -> int:
    return invariants.launched(photograph(stack))[OperationId(operation)]


def kill_workers(stack: Stack) -> list[int]:
    """Kill what runs the workflow's functions; answers which processes."""
    command = ["ps", "-A", "-ww", "-o", "pid=", "-o", "args="]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    place = str(stack.settings.directory / "tmp" / "ministack-lambda-paddock-")
    victims = [
        int(line.split()[0])
        for line in listed.splitlines()
        if any(f"{place}{task}-" in line for task in ("Launch", "Poll", "Finish"))
    ]
    for victim in victims:
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
    return victims
