"""The shell in the docs: it can be read by bash, and the boot snippet finds out which node it runs on."""

from __future__ import annotations

import json
import os
import re
import subprocess
from base64 import b64decode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from tests.pages import PATHS

if TYPE_CHECKING:
    from pathlib import Path

BLOCKS = [
    (path.stem, number, block)
    for path in PATHS
    for number, block in enumerate(
        re.findall(r"^```bash\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)
    )
]
KEYS = {"AccessKeyId": "ASIAEXAMPLE", "SecretAccessKey": "secret/+=", "Token": "token/+=="}


class Machine(BaseHTTPRequestHandler):
    """The metadata service, which wants IMDSv2's token, and ``/self``, which is ready at the second call."""

    asked: list[str]

    def do_PUT(self) -> None:
        self._answer("the-token" if self.headers.get("X-aws-ec2-metadata-token-ttl-seconds") else None)

    def do_GET(self) -> None:
        if self.path == "/v1/self":
            type(self).asked.append(self.headers.get("Authorization", ""))
            signed = self.headers.get("x-amz-security-token") == KEYS["Token"]
            ready = signed and len(self.asked) > 1
            self._answer(json.dumps({"Name": "ondemand-7"}) if ready else None)
        elif self.headers.get("X-aws-ec2-metadata-token") != "the-token":
            self._answer(None)
        else:
            path = self.path.removeprefix("/latest/meta-data/")
            credentials = "iam/security-credentials/"
            known = {
                "placement/region": "eu-west-1",
                credentials: "compute",
                f"{credentials}compute": json.dumps(KEYS),
            }
            self._answer(known.get(path))

    def _answer(self, text: str | None) -> None:
        self.send_response(200 if text is not None else 404)
        self.end_headers()
        self.wfile.write((text or "").encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Say nothing."""


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block[0]}-{block[1]}")
def test_each_block_is_bash(block: tuple[str, int, str]) -> None:
    checked = subprocess.run(["bash", "-n"], input=block[2], text=True, capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_boot_snippet_learns_the_node_s_name_by_imdsv2_and_a_signature(tmp_path: Path) -> None:
    [snippet] = [block for stem, _, block in BLOCKS if stem == "machines"]
    Machine.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Machine)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    place = {"PADDOCK_URL": f"{url}/v1", "IMDS": url, "PADDOCK_FILE": str(tmp_path / "self.json")}
    # The pause between calls is no part of what is tried.
    script = "sleep() { :; }\n" + snippet + '\necho "$NODE_NAME"\n'
    try:
        ran = subprocess.run(
            ["bash", "-c", script],
            env={**os.environ, **place},
            text=True,
            capture_output=True,
            timeout=60,
            check=False,
        )
    finally:
        server.shutdown()
        server.server_close()
    assert (ran.returncode, ran.stdout.strip()) == (0, "ondemand-7"), ran.stderr
    assert len(Machine.asked) == 2
    assert re.match(
        r"AWS4-HMAC-SHA256 Credential=ASIAEXAMPLE/\d{8}/eu-west-1/execute-api/aws4_request", Machine.asked[1]
    )


class Api(BaseHTTPRequestHandler):
    """What the programs of a Slurm controller ask for; one who has another password is refused."""

    asked: list[tuple[str, Any]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).asked.append((self.path, body))
        user, password = b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode().split(":")
        self.send_response(202 if (user, password) == ("admin", "right") else 401)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Say nothing."""


@pytest.mark.parametrize(("password", "is_let_in"), [("right", True), ("wrong", False)])
def test_slurm_s_programs_ask_for_each_name_and_say_why_they_failed(
    tmp_path: Path, password: str, is_let_in: bool
) -> None:
    programs = [block for stem, _, block in BLOCKS if stem == "slurm" and "scontrol" in block]
    scontrol = tmp_path / "scontrol"
    scontrol.write_text("#!/bin/sh\nprintf 'ondemand-7\\nbig-2-1\\n'\n")
    scontrol.chmod(0o755)
    Api.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    place = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PADDOCK_URL": f"http://127.0.0.1:{server.server_port}",
    }
    environment = {**os.environ, **place, "PADDOCK_USER": "admin", "PADDOCK_PASSWORD": password}
    try:
        ran = [
            subprocess.run(
                ["bash", "-c", program, "program", "ondemand-7,big-2-1"],
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            for program in programs
        ]
    finally:
        server.shutdown()
        server.server_close()
    assert [one.returncode == 0 for one in ran] == [is_let_in] * 2
    assert ["401" in one.stderr for one in ran] == [not is_let_in] * 2
    assert Api.asked == [
        (
            "/clusters/demo/nodes/create",
            {
                "sets": [
                    {"count": 1, "nodearray": "ondemand", "nameFormat": "ondemand-7"},
                    {"count": 1, "nodearray": "big-2", "nameFormat": "big-2-1"},
                ]
            },
        ),
        ("/clusters/demo/nodes/terminate", {"names": ["ondemand-7", "big-2-1"]}),
    ]
