"""What is in the wheel works without the clone, and the small parts without large packages."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def installed(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built and unpacked: what pip would put into site-packages."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=repository, check=True, capture_output=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "unpacked")
    return folder / "unpacked"


def python(installed: Path, code: str, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, *options, "-c", code],
        cwd=installed.parent,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_small_parts_need_the_standard_library_alone(installed: Path) -> None:
    code = (
        "import schemas, spaps; from schemas.settings import load_settings; "
        "from schemas.reading import read_neighborhood; "
        "print(load_settings().world.dir, read_neighborhood('({1},{#},C)').refs, schemas.__file__)"
    )
    # -S: no site-packages at all.
    printed = python(installed, code, "-S").split(maxsplit=2)
    assert printed[:2] == ["lake/world", "(1,)"]
    assert printed[2].startswith(str(installed))


def test_commands_find_their_files_outside_a_clone(
    installed: Path, monaco_world: str, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    arguments = ["resolve", "--world", monaco_world, "--map", str(page), "--json"]
    code = (
        "import sys; from spaps import command_line; "
        f"assert command_line.__file__.startswith({str(installed)!r}); "
        f"sys.exit(command_line.run({[*arguments, '({4000000005986438},{zone/admin/+},T)']!r}))"
    )
    assert '"peids": [4000000002221178' in python(installed, code)
    assert "<canvas" in page.read_text("utf-8")
