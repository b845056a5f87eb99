"""Follow the functions' log of a running `make local`, as `aws logs tail --follow` does: `make logs`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any

import boto3
from botocore.exceptions import BotoCoreError

from tests.emulator.processes import StackError
from tests.emulator.running import find
from tests.emulator.stack import REGION, STACK_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.emulator.running import Running

GROUP = f"/paddock/{STACK_NAME}/functions"
# What is shown of each line by itself; the rest follows as it is.
HEAD = ("timestamp", "level", "function_name", "message")
LEFT_OUT = {
    "service",
    "cold_start",
    "function_memory_size",
    "function_arn",
    "function_request_id",
    "location",
}


# Functions write one after another; a line may arrive so long after one that is younger.
LATE_MS = 10_000


def main(given: Sequence[str] | None = None) -> int:
    """Print lines until Ctrl-C. Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operation", default="", help="only lines about this operation")
    parser.add_argument("--once", action="store_true", help="print what there is, and end")
    arguments = parser.parse_args(given)
    try:
        tail = Tail(connect(find()))
        while True:
            for event in tail.read():
                if line := shown(event["message"], arguments.operation):
                    print(line, flush=True)
            if arguments.once:
                return 0
            time.sleep(1)
    except StackError as problem:
        print(f"paddock: {problem}", file=sys.stderr)
        return 1
    except BotoCoreError:
        print("paddock: `make local` does not answer any more", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0


def connect(running: Running) -> Any:
    """A client of the emulator's logs."""
    return boto3.Session("test", "test", region_name=REGION).client("logs", endpoint_url=running.aws)


class Tail:
    """Reads what is new. The emulator answers with the oldest 10,000 events since a time, without a token."""

    def __init__(self, logs: Any) -> None:
        self._logs = logs
        self._start = 0
        self._seen: set[tuple[int, str]] = set()

    def read(self) -> list[dict[str, Any]]:
        """Return the events that were not returned before, in the order of their times."""
        new: list[dict[str, Any]] = []
        start = self._start
        while events := self._logs.filter_log_events(logGroupName=GROUP, startTime=start)["events"]:
            for event in events:
                key = (event["timestamp"], event["message"])
                if key not in self._seen:
                    self._seen.add(key)
                    new.append(event)
            if events[-1]["timestamp"] == start:
                break
            start = events[-1]["timestamp"]
        self._start = max(0, start - LATE_MS)
        self._seen = {key for key in self._seen if key[0] >= self._start}
        return new


def shown(message: str, operation: str) -> str | None:
    """A line of the log as a person reads it; nothing for one that is not ours, or of another operation."""
    try:
        line = json.loads(message)
    except ValueError:
        return None
    if not isinstance(line, dict) or "level" not in line or (operation and operation not in message):
        return None
    head = " ".join(str(line.get(name, "")) for name in HEAD)
    rest = {name: value for name, value in line.items() if name not in {*HEAD, *LEFT_OUT}}
    return f"{head} {json.dumps(rest, ensure_ascii=False)}" if rest else head


if __name__ == "__main__":
    sys.exit(main())
