"""The EC2 in memory, on 127.0.0.1 in EC2's Query protocol: point ``AWS_ENDPOINT_URL_EC2`` here.

The account's quotas are here too, in the JSON of Service Quotas: ``AWS_ENDPOINT_URL_SERVICE_QUOTAS``.

``python -m tests.emulator.ec2_server --port 4600 --state ec2.json --boot-seconds 3``

Tests steer it through a second door. ``POST /_fake/NAME`` with a JSON object of arguments calls the method of
that name of ``FakeEc2`` (see ``DOORS``); ``GET /_fake/state`` answers with its state and its count of calls.
With ``--events``, it tells what becomes of instances to the rules of the emulator at that address, as EC2
does on EventBridge, within a second. With ``--state``, what happened outlives the process: it is written
within a second of each change, and at SIGTERM and SIGINT.
"""

from __future__ import annotations

import argparse
import json
import signal
import time
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl
from uuid import uuid4
from xml.sax.saxutils import escape

from moto.core.parse import EC2QueryParser
from moto.core.utils import get_service_model

from tests.emulator.event_bus import EventBus
from tests.fakes.ec2 import ANSWER_LOST, Ec2Error, FakeEc2, Settings, status_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DOORS = frozenset(
    {
        *("advance", "boot", "capacity", "configure", "end", "fail_next", "interrupt", "lose", "protect"),
        *("lift_limits", "quotas", "rates", "reset", "reset_faults", "templates", "zones"),
        *("copy", "forget_answers", "offer", "overlook", "policies", "subnets"),
    }
)
TICK_SECONDS = 0.5
QUOTAS_TARGET = "ServiceQuotasV20190624."
XML = "text/xml;charset=UTF-8"
ERROR = (
    "<Response><Errors><Error><Code>{}</Code><Message>{}</Message></Error></Errors>"
    "<RequestID>{}</RequestID></Response>"
)


class Ec2Server(ThreadingHTTPServer):
    """Serves ``fake``, which may be exchanged while it runs."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, fake: FakeEc2, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.fake = fake

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serving(fake: FakeEc2, port: int = 0) -> Iterator[Ec2Server]:
    """Serve in a thread, on a free port unless one is given, for as long as the context lasts."""
    with Ec2Server(fake, port) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Ec2Server
    protocol_version = "HTTP/1.1"
    # Header and body leave in one packet; two would wait for the client's acknowledgement.
    wbufsize = -1

    def do_GET(self) -> None:
        if self.path == "/_fake/state":
            fake = self.server.fake
            self._reply_json(200, {"state": fake.snapshot(), "calls": dict(fake.calls)})
        else:
            self._reply_json(404, {"error": "There is only /_fake/state to get."})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if self.path.startswith("/_fake/"):
            self._control(self.path.removeprefix("/_fake/"), body)
        elif target := self.headers.get("X-Amz-Target"):
            self._call_json(target.removeprefix(QUOTAS_TARGET), json.loads(body))
        else:
            self._call(dict(parse_qsl(body, keep_blank_values=True)))

    def _control(self, name: str, body: str) -> None:
        if name not in DOORS:
            self._reply_json(404, {"error": f"There is no {name}, but {', '.join(sorted(DOORS))}."})
            return
        try:
            getattr(self.server.fake, name)(**json.loads(body or "{}"))
        except KeyError as error:
            self._reply_json(400, {"error": f"there is no instance {error.args[0]}"})
        except (TypeError, ValueError) as error:
            self._reply_json(400, {"error": str(error)})
        else:
            self._reply_json(200, {})

    def _call(self, form: dict[str, str]) -> None:
        request_id, operation = str(uuid4()), form.get("Action", "")
        try:
            model = _model(operation)
            parser: Any = EC2QueryParser
            # An action that EC2's model does not have is for the fake to refuse.
            asked = parser(model).parse({"values": form}) if model else {}
            answer = self.server.fake.call(operation, asked)
            content = f"<requestId>{request_id}</requestId>{_xml(model.output_shape, answer)}"
            self._reply(200, XML, f"<{operation}Response>{content}</{operation}Response>")
        except Ec2Error as error:
            if error.code == ANSWER_LOST:
                self.close_connection = True
                return
            text = ERROR.format(escape(error.code), escape(error.message), request_id)
            self._reply(status_of(error.code), XML, text)

    def _call_json(self, operation: str, asked: dict[str, Any]) -> None:
        try:
            self._reply_json(200, self.server.fake.call(operation, asked))
        except Ec2Error as error:
            if error.code == ANSWER_LOST:
                self.close_connection = True
                return
            self._reply_json(400, {"__type": error.code, "message": error.message})

    def _reply_json(self, status: int, answer: dict[str, Any]) -> None:
        self._reply(status, "application/json", json.dumps(answer))

    def _reply(self, status: int, content_type: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Say nothing: a line for each request would drown what matters."""


@cache
def _model(operation: str) -> Any:
    service = get_service_model("ec2")
    return service.operation_model(operation) if operation in service.operation_names else None


def _xml(shape: Any, value: Any) -> str:
    """The value as botocore's model of its shape names it; what the model does not know is left out."""
    if shape is None:
        return ""
    if shape.type_name == "structure":
        members = ((shape.members[key], key, item) for key, item in value.items() if key in shape.members)
        return "".join(_element(member, key, item) for member, key, item in members)
    if shape.type_name == "list":
        return "".join(_element(shape.member, "item", item) for item in value)
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return str(value).lower() if isinstance(value, bool) else escape(str(value))


def _element(shape: Any, key: str, value: Any) -> str:
    name = shape.serialization.get("name", key)
    return f"<{name}>{_xml(shape, value)}</{name}>"


class StateFile:
    """Keeps a ``FakeEc2`` in a file. The file is whole at any moment, whatever kills the process."""

    def __init__(self, fake: FakeEc2, path: Path) -> None:
        self._fake = fake
        self._path = path
        if path.exists():
            fake.restore(json.loads(path.read_text()))
        self._saved = fake.changes

    def save(self) -> None:
        """Write the state if it changed since it was last written."""
        changes = self._fake.changes
        if changes == self._saved:
            return
        new = self._path.with_name(self._path.name + ".new")
        new.write_text(json.dumps(self._fake.snapshot()))
        new.replace(self._path)
        self._saved = changes


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description="An EC2 for tests and for local use, on 127.0.0.1.")
    parser.add_argument("--port", type=int, default=4600, help="0 for a free one (default: %(default)s)")
    parser.add_argument("--state", type=Path, help="the file that keeps the state over restarts")
    parser.add_argument("--events", metavar="URL", help="the emulator that takes events")
    for setting in fields(Settings):
        option = "--" + setting.name.replace("_", "-")
        parser.add_argument(
            option, type=float, metavar="N", help=f"default: {setting.default}, or as in the state"
        )
    given = parser.parse_args(arguments)
    names = [setting.name for setting in fields(Settings)]
    seconds = {name: getattr(given, name) for name in names if getattr(given, name) is not None}
    fake = FakeEc2(time.time, Settings(**seconds))
    file = StateFile(fake, given.state) if given.state else None
    bus = EventBus(given.events) if given.events else None
    fake.configure(**seconds)
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with serving(fake, given.port) as server:
        print(f"EC2 on {server.url}", flush=True)
        while not stop.wait(TICK_SECONDS):
            if bus:
                bus.publish(fake.take_events())
            if file:
                file.save()
    if file:
        file.save()


if __name__ == "__main__":
    main()
