"""The notebook in deploy/: its form, and that its cells run from the first to the last."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.scenes.map_page import columns_of
from tests.servers.submitted_job import SHORT_LIVED_JVM, WAIT_SECONDS

pytestmark = pytest.mark.spark

NOTEBOOK = Path("deploy/notebook/from_world_to_map.ipynb")
CELL_KEYS = {
    "markdown": {"cell_type", "id", "metadata", "source"},
    "code": {"cell_type", "id", "metadata", "source", "execution_count", "outputs"},
}


def faults_of(notebook: dict[str, Any]) -> list[str]:
    """What breaks the rules of format 4.5, as far as this notebook uses them."""
    found = []
    if (notebook["nbformat"], notebook["nbformat_minor"]) != (4, 5):
        found.append("format")
    for cell in notebook["cells"]:
        if set(cell) != CELL_KEYS[cell["cell_type"]]:
            found.append(f"keys of {cell['id']}")
        if cell["cell_type"] == "code" and (cell["outputs"] or cell["execution_count"]):
            found.append(f"output of {cell['id']}")
        if not all(isinstance(line, str) for line in cell["source"]):
            found.append(f"source of {cell['id']}")
    numbers = [cell["id"] for cell in notebook["cells"]]
    return found + ["two cells of one id"] * (len(numbers) != len(set(numbers)))


def test_its_form(repository: Path) -> None:
    notebook = json.loads((repository / NOTEBOOK).read_text("utf-8"))
    assert faults_of(notebook) == []
    notebook["cells"][2]["outputs"] = [{}]
    del notebook["cells"][0]["id"]
    with pytest.raises(KeyError):
        faults_of(notebook)
    notebook["cells"][0]["id"] = "cell-1"
    assert faults_of(notebook) == ["output of cell-2", "two cells of one id"]


def test_its_cells_run(program: Callable[[str], Path], repository: Path, tmp_path: Path) -> None:
    program("java")
    cells = json.loads((repository / NOTEBOOK).read_text("utf-8"))["cells"]
    code = "\n\n".join("".join(each["source"]) for each in cells if each["cell_type"] == "code")
    (tmp_path / "data").symlink_to(repository / "data")
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(repository), "JDK_JAVA_OPTIONS": SHORT_LIVED_JVM},
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "version 1: 9,537 entities" in done.stdout
    assert "|    5|" in done.stdout
    page = tmp_path / "out" / "notebook" / "quarters.html"
    assert f"open {page}" in done.stdout
    assert "Larvotto" in columns_of(page.read_text("utf-8"))["names"]
