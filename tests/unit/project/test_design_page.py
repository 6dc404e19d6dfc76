"""docs/design.md: every file and every function that its walks name is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

STEP = re.compile(r"^(\d+)\. `([\w/]+\.py)`: `([\w.]+)` [a-z].*\.$")
FILE = re.compile(r"`([\w/]+\.py)`")
FOLDER = re.compile(r"`([\w/]+/)`")
WALKS = ("A PUBLISH", "A SUBSCRIBE", "A bulk run", "A rebuild")


def definitions(path: Path) -> set[str]:
    """The names of functions, classes and methods (``Class.method``) of a file."""
    if not path.is_file():
        return set()
    found: set[str] = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}.{each.name}"
                for each in node.body
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return found


def walks(page: str) -> dict[str, list[str]]:
    """The numbered lines of each walk, by its title."""
    parts = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    return {
        title: [line for line in text.splitlines() if re.match(r"\d", line)]
        for title, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def wrong_steps(lines: list[str], repository: Path) -> list[str]:
    """The lines that are no step, have the wrong number, or name what is not there."""
    wrong = []
    for number, line in enumerate(lines, 1):
        step = STEP.match(line)
        is_there = step is not None and step[3] in definitions(repository / step[2])
        if step is None or int(step[1]) != number or not is_there:
            wrong.append(line)
    return wrong


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "design.md").read_text("utf-8")


@pytest.mark.parametrize("title", WALKS)
def test_every_step_of_a_walk_is_there(title: str, page: str, repository: Path) -> None:
    lines = walks(page)[title]
    assert len(lines) > 8
    assert wrong_steps(lines, repository) == []


def test_every_file_and_folder_that_is_named_is_there(page: str, repository: Path) -> None:
    assert [*walks(page)] == [*WALKS]
    assert [name for name in FILE.findall(page) if not (repository / name).is_file()] == []
    assert [name for name in FOLDER.findall(page) if not (repository / name).is_dir()] == []


def test_a_step_that_is_not_there_is_found(repository: Path) -> None:
    here = "`tests/unit/project/test_design_page.py`"
    good = f"1. {here}: `wrong_steps` finds them."
    bad = [
        f"2. {here}: `no_function` is nowhere.",
        "3. `tests/unit/no_file.py`: `wrong_steps` is not there.",
        f"5. {here}: `walks` has the wrong number.",
        "5. a step that names nothing.",
        f"6. {here}: `Path.walks` is no method of a class here.",
    ]
    assert wrong_steps([good, *bad], repository) == bad
    assert walks(f"## One\n\n{good}\ntext\n## Two\n") == {"One": [good], "Two": []}
