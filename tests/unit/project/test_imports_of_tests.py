"""Tests mirror the rooms, share only ``testing`` with benchmarks, and import from no test file."""

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


KINDS = ("unit", "property", "integration", "spark", "e2e")
# Tests of the repository itself are in folders called "project".
BESIDE_ROOMS = {"project"}


def folders_without_room(tests: Path, repository: Path) -> list[str]:
    """Folders of tests that mirror no folder of the code."""
    return [
        str(folder.relative_to(tests))
        for kind in KINDS
        for folder in (tests / kind).rglob("*")
        if folder.is_dir()
        and folder.name != "__pycache__"
        and not (repository / folder.relative_to(tests / kind)).is_dir()
        and folder.name not in BESIDE_ROOMS
    ]


def test_folders_of_tests_mirror_the_rooms(repository: Path) -> None:
    assert folders_without_room(repository / "tests", repository) == []


def test_a_folder_without_a_room_is_found(repository: Path, tmp_path: Path) -> None:
    for name in ("unit/broker/core", "unit/broker/nothing", "unit/project", "spark/no_room"):
        (tmp_path / name).mkdir(parents=True)
    assert folders_without_room(tmp_path, repository) == ["unit/broker/nothing", "spark/no_room"]
