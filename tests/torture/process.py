"""What a process of a run is given, and the ports that it makes of it: the real adapters.

Importing this makes clients once, so that processes that are forked afterwards need not read botocore's
models.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import traceback
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import boto3
from botocore.config import Config

from paddock.adapters.dynamodb.repository import DynamoDbRepository
from paddock.adapters.ec2 import Ec2Compute
from paddock.store.store import Store
from tests.fakes.transactions import MAX_WRITES
from tests.torture import deliberate
from tests.torture.clock import FastClock, Times
from tests.torture.executions import Executions

REGION = "us-east-1"
_CALLS = Config(connect_timeout=1, read_timeout=3, retries={"mode": "standard", "total_max_attempts": 3})
# The supervisor's own calls, the first of which a store answers only once it has warmed up.
_PATIENT_CALLS = Config(connect_timeout=2, read_timeout=60)
_SESSION: Any = boto3.Session("test", "test", region_name=REGION)
for _service in ("dynamodb", "dynamodbstreams", "ec2"):
    _SESSION.client(_service, endpoint_url="http://127.0.0.1")


@dataclass(frozen=True)
class Run:
    """A whole run: where things are. Plain data, since it goes to each process."""

    directory: str
    store: str
    cloud: str
    table: str
    began: int
    seed: int
    fault: str

    @property
    def path(self) -> Path:
        """The folder that has the run's files."""
        return Path(self.directory)

    @property
    def weather(self) -> Path:
        """The file that is there while things may fail."""
        return self.path / "weather"

    def client(self, service: str, *, patient: bool = False) -> Any:
        """A client of the store or of the cloud."""
        url = self.cloud if service == "ec2" else self.store
        return _SESSION.client(service, endpoint_url=url, config=_PATIENT_CALLS if patient else _CALLS)

    def times(self) -> Times:
        """The shared clocks."""
        return Times(self.path / "times", self.began)


class Process:
    """The ports of one process, and the file in which it writes down what it did and saw."""

    def __init__(self, run: Run, name: str, number: int, life: int) -> None:
        self.name = name
        self.choose = Random(f"{run.seed}/{name}/{life}")  # noqa: S311 - the same choices for the same seed
        self.clock = FastClock(run.times(), number)
        self.repository = DynamoDbRepository(run.client("dynamodb"), run.table)
        self.store = Store(self.repository, self.clock)
        self.compute = Ec2Compute(run.client("ec2"), run.table)
        self.workflows = Executions(run.path / "executions.sqlite", self.clock, self.choose, run.weather)
        self._history = (run.path / f"{name}.jsonl").open("a", buffering=1)
        # A few nodes are then too many for one transaction, and claims are made in several steps.
        self.repository.max_writes = MAX_WRITES
        if run.fault:
            deliberate.apply(run.fault)
        logging.getLogger().addHandler(_Told(self))

    def tell(self, what: str, **facts: Any) -> None:
        """Write a line of history."""
        line = json.dumps({"by": self.name, "at": self.clock.now(), "what": what, **facts}, default=str)
        self._history.write(line + "\n")

    def tell_bug(self, what: str, error: BaseException) -> None:
        """Write down what no code may raise."""
        self.tell("bug", of=what, error=repr(error), trace="".join(traceback.format_exception(error)))

    @staticmethod
    def is_wanted() -> bool:
        """Whether whoever started this process is still there."""
        parent = multiprocessing.parent_process()
        return parent is not None and parent.is_alive() and os.getppid() != 1


_TOLD_WITH = ("step", "operation_id", "cluster", "virtual_cluster", "ledger", "mended")


class _Told(logging.Handler):
    """What the product logs as an error is history."""

    def __init__(self, process: Process) -> None:
        super().__init__(logging.ERROR)
        self._process = process

    def emit(self, record: logging.LogRecord) -> None:
        trace = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""
        trace += "".join(f"{name}: {getattr(record, name, '')}\n" for name in _TOLD_WITH)
        error = record.exc_info[1] if record.exc_info else None
        self._process.tell("bug", of=record.getMessage(), error=repr(error), trace=trace)
