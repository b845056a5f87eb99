"""The layers hold what the functions import, for the template's runtime and for this computer."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.emulator.template import ROOT, load_template

DEPENDENCIES = ROOT / "layers" / "dependencies"
REQUIREMENTS = DEPENDENCIES / "requirements.txt"
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


def build(target: str, destination: Path) -> Path:
    """Build the dependency layer as `sam build` does and return its Python folder."""
    destination.mkdir()
    variables = {"ARTIFACTS_DIR": str(destination), "LAYER_TARGET": target, "HOST_PYTHON": sys.executable}
    result = subprocess.run(
        ["make", "--makefile", str(DEPENDENCIES / "Makefile"), "build-DependenciesLayer"],
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


def test_the_layers_alone_carry_every_handler(host_layer: Path, tmp_path: Path) -> None:
    """A clean interpreter without this environment's packages, but for what the runtime brings."""
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    installed = Path(str(importlib.metadata.distribution("boto3").locate_file("")))
    for name in RUNTIME_PACKAGES:
        (runtime / name).symlink_to(installed / name)
    path = [host_layer, ROOT / "layers/shared/python", ROOT / "functions", runtime]
    handlers = [
        resource["Properties"]["Handler"]
        for resource in load_template()["Resources"].values()
        if resource["Type"] == "AWS::Serverless::Function"
    ]
    names = ("TABLE_NAME", "STATE_MACHINE_ARN", "DEFAULT_CLUSTER", "AWS_REGION", "AWS_DEFAULT_REGION")
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", IMPORT_ALL, ":".join(map(str, path)), ",".join(handlers)],
        env={"PATH": os.environ["PATH"], **dict.fromkeys(names, "us-east-1")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr


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


def test_the_shared_layer_holds_one_package() -> None:
    assert [path.name for path in (ROOT / "layers/shared").iterdir()] == ["python"]
    assert [path.name for path in (ROOT / "layers/shared/python").iterdir()] == ["paddock"]


@pytest.mark.parametrize("path", [REQUIREMENTS, ROOT / "requirements-dev.in", ROOT / "requirements-dev.txt"])
def test_requirements_name_no_index(path: Path) -> None:
    """Where packages come from is the installing computer's affair."""
    text = path.read_text()
    assert "://" not in text
    assert "index-url" not in text
    assert "find-links" not in text
