"""The layers hold what the functions import, for the template's runtime and for this computer."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.emulator.template import ROOT, load_template

REQUIREMENTS = ROOT / "layers" / "dependencies" / "requirements.txt"
GLOBALS = load_template()["Globals"]["Function"]
# What the runtime brings by itself, and what that needs.
RUNTIME_PACKAGES = ("boto3", "botocore", "s3transfer", "urllib3", "dateutil", "six.py", "jmespath")

IMPORT_ALL = """
import importlib, sys
sys.path[:0] = sys.argv[1].split(":")
for handler in sys.argv[2].split(","):
    module, _, name = handler.rpartition(".")
    assert callable(getattr(importlib.import_module(module), name)), handler
strangers = {"moto", "ministack", "samcli", "pytest", "yaml"} & set(sys.modules)
assert not strangers, strangers
"""


TRACE = """
import sys
sys.path[:0] = sys.argv[1].split(":")
import boto3
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from paddock.observability import about, observed

client = boto3.client("dynamodb", aws_access_key_id="test", aws_secret_access_key="test")
stubber = Stubber(client)
stubber.add_client_error("list_tables", "ThrottlingException")
stubber.activate()

class Context:
    function_name, memory_limit_in_mb, aws_request_id = "function", 1024, "request"
    invoked_function_arn = "arn"

@observed
def handler(event, context):
    about(cluster="demo")
    try:
        client.list_tables()
    except ClientError:
        return {"password": "secret"}

handler({}, Context())
"""


def build(target: str, destination: Path, layer: str = "Dependencies") -> Path:
    """Build a layer as `sam build` does and return its Python folder."""
    destination.mkdir()
    makefile = ROOT / "layers" / layer.lower() / "Makefile"
    variables = {"ARTIFACTS_DIR": str(destination), "LAYER_TARGET": target, "HOST_PYTHON": sys.executable}
    result = subprocess.run(
        ["make", "--makefile", str(makefile), f"build-{layer}Layer"],
        cwd=destination,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return destination / "python"


def pins(path: Path) -> dict[str, str]:
    """Return the versions that a requirements file pins."""
    lines = (line.split("#")[0].split(";")[0].strip() for line in path.read_text().splitlines())
    return dict(line.split("==") for line in lines if line)


@pytest.fixture(scope="module")
def host_layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("host", tmp_path_factory.mktemp("host") / "layer")


@pytest.fixture(scope="module")
def shared_layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("host", tmp_path_factory.mktemp("shared") / "layer", "Shared")


@pytest.fixture(scope="module")
def lambda_path(host_layer: Path, shared_layer: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What is imported from on AWS: the layers, the functions, and what the runtime brings."""
    runtime = tmp_path_factory.mktemp("runtime")
    installed = Path(str(importlib.metadata.distribution("boto3").locate_file("")))
    for name in RUNTIME_PACKAGES:
        (runtime / name).symlink_to(installed / name)
    path = [host_layer, shared_layer, ROOT / "functions", runtime]
    return ":".join(map(str, path))


def run(script: str, *arguments: str, **variables: str) -> None:
    """Run it in a clean interpreter, without this environment's packages."""
    names = ("TABLE_NAME", "STATE_MACHINE_ARN", "DEFAULT_CLUSTER", "AWS_REGION", "AWS_DEFAULT_REGION")
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", script, *arguments],
        env={"PATH": os.environ["PATH"], **dict.fromkeys(names, "us-east-1"), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr


def test_the_layers_alone_carry_every_handler(lambda_path: str) -> None:
    handlers = [
        resource["Properties"]["Handler"]
        for resource in load_template()["Resources"].values()
        if resource["Type"] == "AWS::Serverless::Function"
    ]
    run(IMPORT_ALL, lambda_path, ",".join(handlers))


def test_a_trace_names_what_it_is_about_and_each_call_to_aws_but_no_answer(
    lambda_path: str, tmp_path: Path
) -> None:
    """As X-Ray's daemon hears it, which on AWS is there by itself."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as daemon:
        daemon.bind(("127.0.0.1", 0))
        daemon.settimeout(10)
        run(
            TRACE,
            lambda_path,
            LAMBDA_TASK_ROOT=str(tmp_path),
            AWS_XRAY_DAEMON_ADDRESS=f"127.0.0.1:{daemon.getsockname()[1]}",
            _X_AMZN_TRACE_ID="Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1",
        )
        documents = [daemon.recv(65_536).decode().partition("\n")[2] for _ in range(2)]
    call, handled = map(json.loads, documents)
    assert (call["name"], call["aws"]["operation"]) == ("dynamodb", "ListTables")
    assert [one["type"] for one in call["cause"]["exceptions"]] == ["ThrottlingException"]
    assert call["parent_id"] == handled["id"]
    assert handled["annotations"]["cluster"] == "demo"
    assert "secret" not in documents[1]


def test_the_layer_for_aws_is_made_for_the_templates_runtime(tmp_path: Path) -> None:
    """Whatever Python and processor this computer has."""
    layer = build("", tmp_path / "layer")
    assert GLOBALS["Architectures"] == ["arm64"]
    tag = f"cpython-{GLOBALS['Runtime'].removeprefix('python').replace('.', '')}-aarch64-linux-gnu"
    compiled = list(layer.rglob("*.so"))
    assert compiled
    assert all(tag in path.name for path in compiled)


def test_the_layer_is_small(host_layer: Path) -> None:
    """It is loaded at each cold start; Lambda's limit for all layers together is 250 MB."""
    size = sum(path.stat().st_size for path in host_layer.rglob("*") if path.is_file())
    assert size < 30_000_000


def test_the_layer_has_exactly_what_is_pinned(host_layer: Path) -> None:
    """It is installed without resolving, so what is not listed is not there."""
    found = {d.name: d.version for d in importlib.metadata.distributions(path=[str(host_layer)])}
    normal = {name.replace("_", "-").lower(): version for name, version in found.items()}
    assert normal == pins(REQUIREMENTS)


def test_tests_run_with_the_layers_versions() -> None:
    assert pins(REQUIREMENTS).items() <= pins(ROOT / "requirements-dev.txt").items()


def test_the_shared_layer_holds_one_package(shared_layer: Path) -> None:
    assert [path.name for path in shared_layer.parent.iterdir()] == ["python"]
    assert [path.name for path in shared_layer.iterdir()] == ["paddock"]


def test_the_shared_layer_holds_each_module_as_it_is(shared_layer: Path) -> None:
    source = ROOT / "layers/shared/python"
    modules = {path.relative_to(source): path.read_bytes() for path in source.rglob("*.py")}
    built = {path.relative_to(shared_layer): path.read_bytes() for path in shared_layer.rglob("*.py")}
    assert built == modules


@pytest.mark.parametrize("layer", ["host_layer", "shared_layer"])
def test_a_layer_has_bytecode_that_is_valid_whatever_a_zip_does_to_dates(
    layer: str, request: pytest.FixtureRequest
) -> None:
    """Nothing that runs a function keeps what it compiles: each cold start would compile all of it again."""
    folder: Path = request.getfixturevalue(layer)
    modules = [path for path in folder.rglob("*.py") if path.name != "__init__.py" or path.stat().st_size]
    assert modules
    for module in modules:
        compiled = Path(importlib.util.cache_from_source(str(module))).read_bytes()
        assert compiled[:4] == importlib.util.MAGIC_NUMBER
        # Made from a hash of the source that nobody checks.
        assert int.from_bytes(compiled[4:8], "little") == 1
        # As it is on Lambda, so that one source makes one layer wherever it is built.
        assert str(folder).encode() not in compiled


@pytest.mark.parametrize("path", [REQUIREMENTS, ROOT / "requirements-dev.in", ROOT / "requirements-dev.txt"])
def test_requirements_name_no_index(path: Path) -> None:
    """Where packages come from is the installing computer's affair."""
    text = path.read_text()
    assert "://" not in text
    assert "index-url" not in text
    assert "find-links" not in text
