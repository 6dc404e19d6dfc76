"""Benchmarks and tests share only ``testing``, and no test file imports from another."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest


def imported_modules(source: str) -> set[str]:
    """Return every module that the source imports, at its top or inside a function."""
    modules = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules |= {f"{node.module}.{alias.name}" for alias in node.names}
    return modules


def violations(folder: str, source: str) -> set[str]:
    """Return the imports that a file of this folder must not have."""
    forbidden = {"bench": ("tests",), "tests": ("bench",), "testing": ("bench", "tests")}[folder]
    return {
        module
        for module in imported_modules(source)
        if module.split(".")[0] in forbidden
        or any(part.startswith("test_") for part in module.split(".")[:-1])
    }


@pytest.mark.parametrize("folder", ["bench", "tests", "testing"])
def test_no_file_imports_across_the_border(repository: Path, folder: str) -> None:
    files = list((repository / folder).rglob("*.py"))
    assert files
    found = {
        f"{file.relative_to(repository)}: {module}"
        for file in files
        for module in violations(folder, file.read_text("utf-8"))
    }
    assert not found


@pytest.mark.parametrize(
    ("folder", "source"),
    [
        ("bench", "from tests.servers.redis_server import running_redis"),
        ("tests", "import bench.live.report"),
        ("testing", "def late():\n    from tests.oracle import definition"),
        ("tests", "from tests.unit.world.test_snapshot import WORLD"),
    ],
)
def test_a_wrong_import_is_found(folder: str, source: str) -> None:
    assert violations(folder, source)


def test_a_right_import_is_not_reported() -> None:
    assert not violations("tests", "from testing.synthetic_city import synthetic_city")
