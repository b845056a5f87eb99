"""Who may use which package from outside, and that the layers have them."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING

import pytest

from tests.emulator.template import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PACKAGE = ROOT / "layers" / "shared" / "python" / "paddock"
FUNCTIONS = ROOT / "functions"

# Who may import which package from outside; every part may use the standard library.
OUTSIDE = {
    "boto3": {"adapters", "bootstrap"},
    "botocore": {"adapters", "bootstrap"},
    "mypy_boto3_dynamodb": {"adapters"},
    "mypy_boto3_ec2": {"adapters"},
    "mypy_boto3_secretsmanager": {"adapters"},
    "mypy_boto3_service_quotas": {"adapters"},
    "mypy_boto3_sqs": {"adapters"},
    "mypy_boto3_stepfunctions": {"adapters"},
    "pydantic": {"adapters", "http", "model", "requests"},
    "pydantic_core": {"http"},
    "aws_lambda_powertools": {"functions", "http", "observability", "tasks"},
}


def imported(path: Path) -> Iterator[str]:
    """Yield the full name of each module that the file imports, for types alone or not."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            if node.module == "paddock":
                yield from (f"paddock.{name.name}" for name in node.names)
            else:
                yield node.module or ""


def part_of(path: Path) -> str:
    """Return the part that the file belongs to: the first folder, or the module's own name."""
    if path.is_relative_to(FUNCTIONS):
        return "functions"
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


FILES = [
    path
    for path in sorted([*PACKAGE.rglob("*.py"), *FUNCTIONS.rglob("*.py")])
    if path != PACKAGE / "__init__.py"
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_packages_are_used_where_they_belong(path: Path) -> None:
    for name in imported(path):
        package = name.partition(".")[0]
        if package in OUTSIDE:
            assert part_of(path) in OUTSIDE[package], f"{part_of(path)} must not import {name}"


def test_the_shared_package_imports_nothing_that_the_layers_lack() -> None:
    """Development tools are installed beside the code here, and are not on AWS."""
    known = set(OUTSIDE) | sys.stdlib_module_names | {"paddock"}
    for path in FILES:
        for name in imported(path):
            assert name.split(".")[0] in known, f"{path.relative_to(ROOT)} imports {name}"
