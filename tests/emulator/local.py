"""Run Paddock on this computer until Ctrl-C: what `make local` does."""

from __future__ import annotations

import argparse
import signal
import sys
import time

from tests.emulator.forward import check_address, forwarded
from tests.emulator.processes import StackError, free_port, is_free
from tests.emulator.reset import LOCAL, STATE, InUseError, state_lock
from tests.emulator.running import Running, told
from tests.emulator.sam_env import SAM_ENV, write_sam_env
from tests.emulator.stack import Settings, Stack
from tests.emulator.template import ROOT

# The EC2 simulator takes the next one.
MAX_PORT = 65_535
DEMO_CLUSTER = "demo"
DEMO_DEFINITION = ROOT / "tests" / "emulator" / "demo_cluster.json"

READY = """
Paddock runs at  {url}
user, password   {user}  {password}
EC2 (simulated)  {ec2}
logs             {logs}
sam local        {sam_env} is for --env-vars; {containers}

For the README's tour, paste this into another terminal:
  export PADDOCK_URL={url}

Or begin with:
  curl -u {user}:{password} '{url}/clusters/{cluster}/status?nodes=true'

`make break` lets things go wrong, `make logs` follows the functions' log.
Ctrl-C stops it and keeps the data; `make local-reset` forgets them.
"""


def main() -> int:
    """Start, deploy, wait, stop. Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=4566)
    parser.add_argument("--containers", default="", help="an address more, at which containers reach it")
    arguments = parser.parse_args()
    port = arguments.port
    if not 1 <= port < MAX_PORT:
        print(f"paddock: PORT must be from 1 to {MAX_PORT - 1}, not {port}", file=sys.stderr)
        return 1
    # A polite kill ends it as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        containers = check_address(arguments.containers) if arguments.containers else ""
        with state_lock() as lock:
            return _run(port, lock, containers)
    except (StackError, InUseError) as error:
        print(f"paddock: {error}", file=sys.stderr)
        return 1


def _run(port: int, lock: int, containers: str) -> int:
    began = time.monotonic()

    def report(line: str) -> None:
        print(f"[{time.monotonic() - began:5.1f} s] {line}", flush=True)

    settings = Settings(
        port=port,
        ec2_port=port + 1 if is_free(port + 1) else free_port(),
        directory=STATE,
        build_directory=LOCAL / "build",
        held=[lock],
    )
    stack = Stack(settings, report)
    ready = False
    try:
        stack.start()
        stack.deploy()
        stack.ensure_cluster(DEMO_CLUSTER, DEMO_DEFINITION)
        write_sam_env(stack, DEMO_CLUSTER)
        ready = True
        report("ready")
        user, password = settings.credentials
        print(
            READY.format(
                url=stack.base_url,
                ec2=stack.ec2_endpoint,
                user=user,
                password=password,
                logs=stack.logs.relative_to(ROOT),
                cluster=DEMO_CLUSTER,
                sam_env=SAM_ENV.relative_to(ROOT),
                containers=f"containers reach it at {containers}"
                if containers
                else "containers reach it only with CONTAINERS=<address>",
            ),
            flush=True,
        )
        ports = [settings.port, settings.ec2_port] if containers else []
        with told(Running(stack.endpoint, stack.ec2_endpoint)), forwarded(containers, ports):
            _watch(stack)
    except KeyboardInterrupt:
        report("stopping")
    finally:
        # The emulator is writing down its state: more signals must not cut that short.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        stack.stop()
    report("stopped")
    return 0 if ready else 130


def _watch(stack: Stack) -> None:
    """Return never; raise when an emulator ends by itself."""
    while True:
        child = stack.failed_child()
        if child is not None:
            raise StackError(f"{child.name} ended by itself; its output is in {child.log}")
        time.sleep(0.5)


if __name__ == "__main__":
    sys.exit(main())
