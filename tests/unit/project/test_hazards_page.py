"""docs/hazards.md: every hazard has its line, and every test that it names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HAZARDS = 40
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def functions_in(path: Path) -> set[str]:
    if not path.is_file():
        return set()
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if is_function(node)}


def is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def missing(page: str, repository: Path) -> list[str]:
    return [
        f"{file}::{name}"
        for file, name in NAMED.findall(page)
        if not name.startswith("test_") or name not in functions_in(repository / file)
    ]


def test_every_hazard_has_a_test_that_is_there(repository: Path) -> None:
    page = (repository / "docs/hazards.md").read_text()
    rows = re.findall(r"^\| (\d+) \|.*$", page, re.MULTILINE)
    assert [*map(int, rows)] == [*range(1, HAZARDS + 1)]
    for row in page.splitlines():
        if re.match(r"\| \d+ \|", row):
            assert NAMED.search(row), row
    assert missing(page, repository) == []


def test_a_test_that_is_not_there_is_found(repository: Path) -> None:
    gone = "`tests/unit/project/test_hazards_page.py::test_nothing`, `tests/no_file.py::test_x`"
    assert len(missing(gone, repository)) == 2
