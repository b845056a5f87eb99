"""`sam local start-api` in containers, where a Docker engine answers."""

from __future__ import annotations

import gzip
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.emulator.client import Client
from tests.emulator.forward import forwarded
from tests.emulator.processes import Child, free_port
from tests.emulator.reset import LOCAL
from tests.emulator.sam_env import HOST_NAME, write_sam_env
from tests.emulator.sam_local import ARCHITECTURES, build
from tests.emulator.stack import REGION
from tests.emulator.template import load_template
from tests.integration.story import finished, new_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.emulator.stack import Stack

# Fetching Lambda's image is what `sam local` does too; with it here, nothing is fetched.
PULL_SECONDS = 300
STOP_SECONDS = 60
BUILD = LOCAL / "build-sam-local-tests"


@pytest.fixture(scope="module")
def bridge() -> str:
    """The address at which containers reach this computer. Skips where there is no engine or no image."""
    architecture = ARCHITECTURES.get(platform.machine().lower())
    if sys.platform != "linux" or architecture is None or shutil.which("docker") is None:
        pytest.skip("needs Docker on Linux, on a processor that Lambda has")
    try:
        address = docker(
            "network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Gateway}}"
        ).strip()
        socket.create_server((address, 0)).close()
    except (subprocess.SubprocessError, OSError):
        pytest.skip("no Docker engine answers whose containers reach this computer by a bridge")
    runtime = load_template()["Globals"]["Function"]["Runtime"].replace("python", "python:")
    image = f"public.ecr.aws/lambda/{runtime}-{architecture}"
    try:
        if not docker("images", "--quiet", image):
            docker("pull", "--quiet", image, seconds=PULL_SECONDS)
    except subprocess.SubprocessError:
        pytest.skip(f"Docker has no image {image} and cannot pull it")
    return address


def docker(*arguments: str, seconds: float = 30) -> str:
    """Return what the command prints. Raises SubprocessError."""
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True, timeout=seconds)
    return done.stdout


@pytest.fixture(scope="module")
def start_api(stack: Stack, bridge: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """The API as `sam local start-api` serves it, over the stack of the other tests."""
    build(BUILD)
    directory = tmp_path_factory.mktemp("start-api")
    write_sam_env(stack, "demo", directory / "sam-env.json")
    port = free_port()
    command = [str(Path(sys.executable).with_name("sam")), "local", "start-api", "--port", str(port)]
    command += ["--template", str(BUILD / "build" / "template.yaml"), "--region", REGION]
    command += ["--env-vars", str(directory / "sam-env.json"), "--add-host", f"{HOST_NAME}:host-gateway"]
    command += ["--warm-containers", "LAZY", "--skip-pull-image"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "SAM_"))}
    environment |= {
        "AWS_ENDPOINT_URL": stack.endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "SAM_CLI_TELEMETRY": "0",
        # A build of an image that was killed leaves a lock here, for which the next one would wait.
        "TMPDIR": str(directory),
    }
    with forwarded(bridge, [stack.settings.port, stack.settings.ec2_port]):
        child = Child("sam local start-api", command, environment, directory / "log")
        try:
            child.wait_until_listening(port, timeout_seconds=60)
            yield Client(f"http://127.0.0.1:{port}", stack.settings.credentials)
        finally:
            # On a polite end it removes its containers.
            child.stop(signal.SIGTERM, STOP_SECONDS)
            left = remove_containers_of(stack)
    assert not left


def remove_containers_of(stack: Stack) -> list[str]:
    """Remove the containers that were told of this stack, and return their ids."""
    told = f"AWS_ENDPOINT_URL=http://{HOST_NAME}:{stack.settings.port}"
    everybodys = docker("ps", "--all", "--quiet").split()
    own = [one for one in everybodys if told in docker("inspect", "--format", "{{json .Config.Env}}", one)]
    if own:
        docker("rm", "--force", *own)
    return own


def test_health_alone_is_open(start_api: Client) -> None:
    anybody = start_api.without_credentials()
    assert anybody.get("/healthz").json() == {"status": "ok"}
    assert anybody.get("/clusters").status == 401


def test_wrong_credentials_are_refused_in_sam_clis_way(start_api: Client) -> None:
    """API Gateway makes a 401 of an authorizer that raises "Unauthorized", SAM CLI a 502."""
    reply = start_api.with_credentials(("admin", "wrong")).get("/clusters")
    assert (reply.status, reply.json()) == (502, {"message": "Internal server error"})


def test_what_no_route_takes_is_refused_as_on_aws(start_api: Client) -> None:
    assert start_api.get("/no/such/route").status == 404
    reply = start_api.request("PATCH", "/clusters")
    assert (reply.status, reply.headers["allow"]) == (405, "GET")
    message = "the method must be GET for /clusters, not PATCH"
    told = reply.json()
    assert (told["Message"], told["Detail"], told["msg"]) == (message, "MethodNotAllowed", message)


def test_nodes_are_created_and_listed_compressed(start_api: Client, client: Client) -> None:
    """Containers share their data with the stack, whose workflow launches the nodes."""
    cluster = new_cluster(start_api)
    body = {"sets": [{"count": 20, "nodearray": "ondemand"}]}
    made = start_api.post(f"/clusters/{cluster}/nodes/create", body)
    assert made.status == 202
    assert finished(client, made.json()["operationId"])["state"] == "Succeeded"

    listed = start_api.get(f"/clusters/{cluster}/nodes", Accept_Encoding="gzip")
    assert (listed.status, listed.headers["content-encoding"]) == (200, "gzip")
    nodes = json.loads(gzip.decompress(listed.body))["nodes"]
    assert [node["Status"] for node in nodes] == ["Ready"] * 20
