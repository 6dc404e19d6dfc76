"""The scripts of jobs/ by their path: their folder stands first on Python's path."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

MOST_FILES = 15
MOST_MODULES = 35
MOST_LINES = 250
SCRIPTS = ("import_world", "resolve_neighborhoods", "push_to_redis", "rebuild")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_finds_our_packages(name: str, repository: Path) -> None:
    script = repository / "jobs" / f"{name}.py"
    shown = subprocess.run(
        [sys.executable, str(script), "--help"], capture_output=True, text=True, check=False
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith(f"usage: {name}.py")


def test_no_script_hides_a_library(repository: Path) -> None:
    """Whatever lies in the folder is found before any package: also by libraries themselves."""
    found = [path for path in (repository / "jobs").iterdir() if path.suffix in ("", ".py")]
    names = {path.stem for path in found if path.stem != "__init__"}
    elsewhere = {name for name in names if not name.startswith("__") and find_spec(name)}
    # The one package of ours with that name: its script takes its own folder off the path.
    assert elsewhere == {"rebuild"}


def test_four_short_scripts_and_nothing_else(repository: Path) -> None:
    files = {path.stem: path for path in (repository / "jobs").glob("*.py")}
    assert set(files) == {*SCRIPTS, "__init__"}
    lengths = {name: len(path.read_text("utf-8").splitlines()) for name, path in files.items()}
    assert {name: count for name, count in lengths.items() if count > 100} == {}


def test_folders_of_the_pipeline_stay_small(repository: Path) -> None:
    pipeline = repository / "jobs" / "pipeline"
    folders = [pipeline, *(path for path in pipeline.iterdir() if (path / "__init__.py").exists())]
    counts = {each.name: len(list(each.glob("*.py"))) for each in folders}
    assert {"pipeline", "stages", "world"} <= set(counts)
    assert {name: count for name, count in counts.items() if count > MOST_FILES} == {}


def test_modules_are_few_and_short(repository: Path) -> None:
    """At most half of the 71 modules that there once were."""
    modules = [path for path in (repository / "jobs").rglob("*.py") if path.stem != "__init__"]
    assert len(modules) <= MOST_MODULES
    lengths = {path.name: len(path.read_text("utf-8").splitlines()) for path in modules}
    assert {name: count for name, count in lengths.items() if count > MOST_LINES} == {}
