"""Follow the functions' log of a running `make local`, as `aws logs tail --follow` does: `make logs`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any

import boto3

from tests.emulator.processes import StackError
from tests.emulator.running import find
from tests.emulator.stack import REGION, STACK_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def main() -> int:
    """Print lines until Ctrl-C. Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operation", default="", help="only lines about this operation")
    parser.add_argument("--once", action="store_true", help="print what there is, and end")
    arguments = parser.parse_args()
    try:
        running = find()
    except StackError as problem:
        print(f"paddock: {problem}", file=sys.stderr)
        return 1
    session = boto3.Session("test", "test", region_name=REGION)
    logs: Any = session.client("logs", endpoint_url=running.aws)
    seen: set[tuple[int, str]] = set()
    try:
        while True:
            for event in _events(logs):
                key = (event["timestamp"], event["message"])
                if key not in seen:
                    seen.add(key)
                    if line := shown(event["message"], arguments.operation):
                        print(line, flush=True)
            if arguments.once:
                return 0
            time.sleep(1)
    except KeyboardInterrupt:
        return 0


def _events(logs: Any) -> Iterator[dict[str, Any]]:
    pages = logs.get_paginator("filter_log_events").paginate(logGroupName=GROUP)
    return (event for page in pages for event in page["events"])


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
