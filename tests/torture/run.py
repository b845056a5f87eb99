"""Torture: real processes over the real adapters, while all that can go wrong does; then a look at it all.

``python -m tests.torture.run --seconds 30 --seed 1``. It exits with 1 where an invariant was violated, and
tells which, with the seed. How the processes interleave is the computer's choice: a seed repeats what is
asked and what goes wrong, not the moment.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paddock.adapters.dynamodb.repository import DynamoDbRepository
from paddock.adapters.ec2 import Ec2Compute
from paddock.clusters.write import put_cluster
from paddock.store.store import Store
from tests.emulator import dynamodb, dynamodb_local
from tests.emulator.client import Client
from tests.emulator.processes import HOST, StackError, free_port
from tests.emulator.reset import LOCAL
from tests.emulator.tables import new_table
from tests.fakes import invariants
from tests.integration.aftermath import world_of
from tests.torture import history, nemesis
from tests.torture.clock import FastClock, Times
from tests.torture.cloud import CLOCK, serve
from tests.torture.deliberate import FAULTS
from tests.torture.process import REGION, Run
from tests.torture.replay import Replay
from tests.torture.roles import CLUSTERS, DEFINITION, run_client, run_reconciler, run_worker

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.emulator.processes import Child
    from tests.fakes.world import World

ROLES = {"client": (run_client, 4), "worker": (run_worker, 3), "reconciler": (run_reconciler, 2)}
BETWEEN_FAULTS_SECONDS = 0.25
MAX_TOLD = 100
ANSWERS_AT_FIRST = 5
# After the nemesis: rounds in which time moves ahead, until all is well, and then some more.
HEALING_ROUNDS, ROUND_SECONDS, ROUND_AHEAD_SECONDS, ROUNDS_AT_REST = 70, 0.6, 40, 6


@dataclass(frozen=True)
class Findings:
    """What a run found, in words; nothing is fine. ``counts`` say how much there was of what."""

    violations: list[str]
    counts: dict[str, int]


def torture(seconds: float, seed: int, directory: Path, fault: str = "") -> Findings:
    """Let it go wrong for so long, heal, and look."""
    with ExitStack() as stack:
        store, url, has_stream = _store(directory)
        stack.callback(store.stop, signal.SIGTERM, 5)
        forked = nemesis.context()
        times_file = directory / "times"
        began, port = Times.make(times_file), free_port()
        run = Run(str(directory), url, f"http://{HOST}:{port}", "", began, seed, fault)
        run = replace(run, table=new_table(run.client("dynamodb", patient=True), with_stream=has_stream))
        cloud = forked.Process(target=serve, args=(times_file, began, port), daemon=True)
        cloud.start()
        stack.callback(cloud.kill)
        door = Client(run.cloud, None)
        _wait_for(door)
        times = run.times()
        _make_clusters(run, times)
        replay = Replay(run)
        stack.callback(replay.close)
        if has_stream:
            replay.start()
        run.weather.touch()
        herd = nemesis.Herd(run, forked, ROLES)
        stack.callback(herd.end)
        evil = nemesis.Nemesis(herd, times, random.Random(seed), store.pid, door)  # noqa: S311
        _wait_for_answers(directory, herd)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(BETWEEN_FAULTS_SECONDS)
            evil.act()
            herd.tend()
        run.weather.unlink()
        evil.calm()
        herd.end("client")
        left = _reconcile_virtual_clusters(run, times, herd)
        herd.end()
        if has_stream:
            replay.finish()
    told = history.read(directory)
    violations = [*replay.violations, *history.violations(told), *(f"at rest: {one}" for one in left)]
    counts = {**history.summary(told), "changes": replay.changes, **evil.done}
    return Findings(violations, counts)


def _store(directory: Path) -> tuple[Child, str, bool]:
    """The store, its address, and whether it tells its changes: without Java or npm it is the emulator's."""
    try:
        return *dynamodb_local.start(directory), True
    except dynamodb_local.NotHereError as error:
        print(f"paddock: torture on the emulator's store, without its changes: {error}", flush=True)
        return *dynamodb.start(directory), False


def _wait_for(door: Client) -> None:
    for _ in range(200):
        try:
            door.get("/_fake/state")
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise StackError("the EC2 simulator does not answer")


def _wait_for_answers(directory: Path, herd: nemesis.Herd) -> None:
    """Let clients be answered before anything goes wrong, however slow the computer is."""
    for _ in range(600):
        herd.tend()
        if history.summary(history.read(directory))["ok"] >= ANSWERS_AT_FIRST:
            return
        time.sleep(0.1)
    raise StackError("no client is answered")


def _make_clusters(run: Run, times: Times) -> None:
    repository = DynamoDbRepository(run.client("dynamodb", patient=True), run.table)
    store = Store(repository, FastClock(times, CLOCK))
    compute = Ec2Compute(run.client("ec2", patient=True), run.table)
    for name in CLUSTERS:
        put_cluster(store, compute, REGION, name, DEFINITION, None)


def _reconcile_virtual_clusters(run: Run, times: Times, herd: nemesis.Herd) -> list[str]:
    """Let time pass until all is well for some rounds; answers what is not, if it never is."""
    well, left = 0, [""]
    for _ in range(HEALING_ROUNDS):
        times.advance(ROUND_AHEAD_SECONDS)
        herd.tend()
        time.sleep(ROUND_SECONDS)
        left = invariants.at_rest(_photograph(run))
        well = 0 if left else well + 1
        if well == ROUNDS_AT_REST:
            break
    return left


def _photograph(run: Run) -> World:
    return world_of(run.client("dynamodb", patient=True), run.table, run.cloud)


def main(arguments: Sequence[str] | None = None) -> int:
    """One run; what it counted and found is printed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--fault", choices=sorted(FAULTS), default="", help="a deliberate fault, to be found")
    given = parser.parse_args(arguments)
    print(f"paddock: make torture TORTURE_SECONDS={given.seconds:g} SEED={given.seed}", flush=True)
    directory = LOCAL / "torture" / str(given.seed)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    found = torture(given.seconds, given.seed, directory, given.fault)
    print(json.dumps(found.counts), flush=True)
    for one in found.violations[:MAX_TOLD]:
        print(f"VIOLATION: {one}", flush=True)
    print(f"paddock: {len(found.violations)} violations; histories are in {directory}", flush=True)
    return 1 if found.violations else 0


if __name__ == "__main__":
    sys.exit(main())
