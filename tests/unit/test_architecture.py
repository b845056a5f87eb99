"""The import arrows, and how long a handler may be, read from the source."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "layers" / "shared" / "python" / "paddock"
FUNCTIONS = ROOT / "functions"
MAX_HANDLER_LINES = 25

# What each part may import of the package, beside itself.
ARROWS = {
    "functions": {"bootstrap", "errors", "http", "model", "observability", "requests", "tasks"},
    "bootstrap": {
        "adapters",
        "clusters",
        "invocation",
        "model",
        "nodes",
        "operations",
        "ports",
        "reconcile",
        "requests",
        "settings",
        "store",
        "users",
        "virtual_clusters",
        "workflow",
    },
    "reconcile": {"errors", "model", "nodes", "ports", "store", "virtual_clusters", "workflow"},
    "workflow": {"errors", "model", "nodes", "ports", "store", "virtual_clusters"},
    "virtual_clusters": {"errors", "model", "nodes", "ports", "requests", "store"},
    "operations": {"errors", "model", "nodes", "ports", "requests", "store"},
    "clusters": {"errors", "model", "ports", "requests", "store"},
    "nodes": {"errors", "model", "ports", "requests", "store"},
    "users": {"errors", "model", "ports"},
    "store": {"errors", "model", "ports", "requests"},
    "adapters": {"errors", "measures", "model", "ports"},
    "ports": {"model"},
    "requests": {"model"},
    "model": set(),
    "http": {"errors", "model", "observability", "requests", "settings"},
    "tasks": {"observability", "workflow.outcome"},
    "errors": set(),
    "measures": {"model", "observability", "ports"},
    "observability": {"invocation"},
    "invocation": set(),
    "settings": set(),
    "__init__": set(),
}
# And what it may import for the type checker alone.
ONLY_FOR_TYPES = {
    "http": {"clusters", "nodes", "operations", "virtual_clusters"},
    "tasks": {"model.identity"},
}
AWS = {"boto3", "botocore"}
MAY_KNOW_AWS = {"adapters", "bootstrap"}


def files() -> list[Path]:
    return sorted([*PACKAGE.rglob("*.py"), *FUNCTIONS.rglob("*.py")])


def part(path: Path) -> str:
    """The part of the house that a file belongs to."""
    if path.is_relative_to(FUNCTIONS):
        return "functions"
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.AST, *, for_types: bool = False) -> Iterator[tuple[str, bool]]:
    """Each imported module's full name, and whether only the type checker sees the import."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for inner in node.body:
                yield from imports(ast.Module([inner], []), for_types=True)
            for inner in node.orelse:
                yield from imports(ast.Module([inner], []), for_types=for_types)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, for_types) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            # Of ``from paddock import errors`` it is the name that is the module.
            is_root = base == "paddock"
            names = [f"{base}.{alias.name}" for alias in node.names] if is_root else [base]
            yield from ((name, for_types) for name in names)
        else:
            yield from imports(node, for_types=for_types)


def allowed(target: str, among: set[str]) -> bool:
    return any(target == one or target.startswith(f"{one}.") for one in among)


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_arrows(path: Path) -> None:
    here = part(path)
    assert here in ARROWS, f"{here} is new: say here what it may import"
    for name, for_types in imports(ast.parse(path.read_text())):
        assert not name.startswith("."), f"{name} is relative"
        top, _, target = name.partition(".")
        if top in AWS:
            assert here in MAY_KNOW_AWS, f"{here} imports {name}"
        if top == "paddock":
            among = {here, *ARROWS[here], *(ONLY_FOR_TYPES.get(here, ()) if for_types else ())}
            assert allowed(target, among), f"{here} imports {name}"


@pytest.mark.parametrize(
    "path",
    [path for path in files() if part(path) == "functions"],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_functions_do_not_import_each_other(path: Path) -> None:
    siblings = {one.name for one in FUNCTIONS.iterdir() if one.is_dir()}
    for name, _ in imports(ast.parse(path.read_text())):
        assert name.partition(".")[0] not in siblings


def test_the_planner_knows_no_request() -> None:
    """It takes domain values: nodes for a virtual cluster are planned without a request made up for them."""
    [planner] = PACKAGE.rglob("*plan.py")
    imported = {name for name, _ in imports(ast.parse(planner.read_text()))}
    assert "paddock.model.cluster" in imported
    assert not {name for name in imported if "request" in name or name.startswith("paddock.http")}


@pytest.mark.parametrize("module", ["emulator/ec2_server.py", "fakes/ec2.py", "fakes/token_buckets.py"])
def test_the_ec2_simulator_runs_without_the_product(module: str) -> None:
    """Its process has no path to the package: it must not agree with Paddock where EC2 does not."""
    tree = ast.parse((ROOT / "tests" / module).read_text())
    assert [name for name, for_types in imports(tree) if name.startswith("paddock") and not for_types] == []


def test_there_are_handlers_to_measure() -> None:
    assert len(list(_handlers())) >= 10


def test_a_handler_has_at_most_25_lines() -> None:
    lengths = {f"{path.name}:{node.name}": _length(node) for path, node in _handlers()}
    assert {name: length for name, length in lengths.items() if length > MAX_HANDLER_LINES} == {}


def _handlers() -> Iterator[tuple[Path, ast.FunctionDef]]:
    for path in FUNCTIONS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                yield path, node


def _length(node: ast.FunctionDef) -> int:
    """The lines of a function with its signature and its docstring, without its decorators."""
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


# The reader of imports itself: one that overlooks an import holds nothing.


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import boto3", [("boto3", False)]),
        ("from paddock import errors, ports", [("paddock.errors", False), ("paddock.ports", False)]),
        ("from paddock.model.node import Node", [("paddock.model.node", False)]),
        ("def f():\n    import boto3", [("boto3", False)]),
        ("try:\n    import boto3\nexcept ImportError:\n    pass", [("boto3", False)]),
        ("if TYPE_CHECKING:\n    import a\nelse:\n    import b", [("a", True), ("b", False)]),
        ("from . import x", [(".", False)]),
    ],
)
def test_every_import_is_seen(source: str, expected: list[tuple[str, bool]]) -> None:
    assert list(imports(ast.parse(source))) == expected
