"""Imports point one way: from the functions inward, and never from the model to anything."""

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

# What each part may import of the package, beside itself.
ARROWS: dict[str, set[str]] = {
    "functions": {"bootstrap", "errors", "http", "model", "observability", "tasks"},
    "bootstrap": {"adapters", "model", "ports", "reconcile", "service", "settings"},
    "http": {"errors", "model", "observability", "service"},
    "tasks": {"observability", "service"},
    "reconcile": {"errors", "model", "ports", "service"},
    "service": {"errors", "model", "ports"},
    "adapters": {"errors", "model", "ports"},
    "ports": {"errors", "model"},
    "model": {"errors"},
    "errors": set(),
    "observability": set(),
    "settings": set(),
}
# Who may import which package from outside; every part may use the standard library.
OUTSIDE = {
    "boto3": {"adapters", "bootstrap"},
    "botocore": {"adapters", "bootstrap"},
    "mypy_boto3_dynamodb": {"adapters"},
    "mypy_boto3_ec2": {"adapters"},
    "mypy_boto3_secretsmanager": {"adapters"},
    "mypy_boto3_stepfunctions": {"adapters"},
    "pydantic": {"adapters", "http", "model"},
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
def test_imports_follow_the_arrows(path: Path) -> None:
    part = part_of(path)
    for name in imported(path):
        package, _, inner = name.partition(".")
        if package == "paddock":
            target = inner.split(".")[0]
            assert target == part or target in ARROWS[part], f"{part} must not import {name}"
        elif package in OUTSIDE:
            assert part in OUTSIDE[package], f"{part} must not import {name}"


def test_the_shared_package_imports_nothing_that_the_layers_lack() -> None:
    """Development tools are installed beside the code here, and are not on AWS."""
    known = set(OUTSIDE) | sys.stdlib_module_names | {"paddock"}
    for path in FILES:
        for name in imported(path):
            assert name.split(".")[0] in known, f"{path.relative_to(ROOT)} imports {name}"


def test_handlers_are_short() -> None:
    """A handler parses, calls one use case, replies."""
    for path in FUNCTIONS.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name == "handler":
                lines = (node.end_lineno or 0) - node.lineno + 1
                assert lines <= 25, f"{path.relative_to(ROOT)}: {lines} lines"
