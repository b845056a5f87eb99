"""Functions under Lambda's runtime and SAM CLI's emulator of its interface: `sam local` without Docker."""

from __future__ import annotations

import base64
import json
import os
import platform
import subprocess
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import samcli

from tests.emulator.client import Client, Reply
from tests.emulator.processes import free_port, is_free
from tests.emulator.sam_env import write_sam_env
from tests.emulator.template import ROOT
from tests.integration.story import eventually, new_cluster
from tests.template.test_sam_local import FUNCTIONS, variables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.emulator.stack import Stack

PROCESSORS = {"x86_64": "x86_64", "aarch64": "arm64"}
EMULATOR = (
    Path(samcli.__file__).parent
    / "local"
    / "rapid"
    / f"aws-lambda-rie-{PROCESSORS.get(platform.machine(), 'none')}"
)
pytestmark = [
    # SAM CLI calls functions of its own libraries that warn.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.skipif(
        sys.platform != "linux" or find_spec("awslambdaric") is None or not EMULATOR.exists(),
        reason="Lambda's runtime is for Linux on x86_64 and arm64",
    ),
]
INVOKE = "/2015-03-31/functions/function/invocations"


@contextmanager
def running(name: str, values: dict[str, str], log: Path) -> Iterator[Callable[[dict[str, Any]], Reply]]:
    """Run a function with the variables that `sam local` passes; it is given events, and returns replies."""
    port, api = free_port(), free_port()
    paths = [str(ROOT / "functions"), str(ROOT / "layers" / "shared" / "python"), *sys.path]
    environment = {
        **variables(name, values),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(paths),
    }
    command = [str(EMULATOR), "--runtime-interface-emulator-address", f"127.0.0.1:{port}"]
    command += ["--runtime-api-address", f"127.0.0.1:{api}"]
    command += [sys.executable, "-m", "awslambdaric", FUNCTIONS[name]]
    with (
        log.open("w") as output,
        subprocess.Popen(command, env=environment, cwd=paths[0], stdout=output, stderr=output) as process,
    ):

        def invoke(event: dict[str, Any]) -> Reply:
            return Client(f"http://127.0.0.1:{port}", None).post(INVOKE, event)

        try:
            eventually(lambda: not is_free(port))
            yield invoke
        finally:
            process.terminate()


def event_of(name: str, **changes: Any) -> dict[str, Any]:
    event: dict[str, Any] = json.loads((ROOT / "events" / "api" / f"{name}.json").read_text())
    return {**event, **changes}


@pytest.fixture(scope="module")
def values(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The file that `make local` writes for ``--env-vars``, at addresses of this computer."""
    path = tmp_path_factory.mktemp("sam") / "sam-env.json"
    write_sam_env(stack, "demo", path)
    found: dict[str, str] = json.loads(path.read_text().replace("host.docker.internal", "127.0.0.1"))[
        "Parameters"
    ]
    return found


@pytest.fixture(autouse=True)
def _no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


def test_a_function_answers_under_lambdas_runtime(
    client: Client, values: dict[str, str], tmp_path: Path
) -> None:
    cluster = new_cluster(client)
    with running("GetCluster", values, tmp_path / "log") as invoke:
        answer = invoke(event_of("get_cluster", pathParameters={"cluster": cluster})).json()
    assert answer["statusCode"] == 200
    assert json.loads(answer["body"])["name"] == cluster


def test_a_body_in_base64_is_read(client: Client, values: dict[str, str], tmp_path: Path) -> None:
    cluster = new_cluster(client)
    body = base64.b64encode(b'{"sets": [{"count": 0, "nodearray": "ondemand"}]}').decode()
    event = event_of("create_nodes", pathParameters={"cluster": cluster}, body=body, isBase64Encoded=True)
    with running("CreateNodes", values, tmp_path / "log") as invoke:
        answer = invoke(event).json()
    assert answer["statusCode"] == 202


def test_a_function_that_is_not_told_its_table_refuses_to_start(tmp_path: Path) -> None:
    with running("GetCluster", {}, tmp_path / "log") as invoke:
        assert invoke(event_of("get_cluster")).status != 200
    told = [line for line in (tmp_path / "log").read_text().splitlines() if "TABLE_NAME" in line]
    assert told
