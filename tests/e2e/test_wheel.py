"""What is in the wheel works without the clone, and the small parts without large packages."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
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


def python(installed: Path, code: str, *options: str, beside: Path | None = None) -> str:
    """What the code prints, with the wheel and the packages ``beside`` it."""
    places = [str(place) for place in (installed, beside) if place is not None]
    done = subprocess.run(
        [sys.executable, *options, "-c", code],
        cwd=installed.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
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
        "from schemas.language.neighborhood_text import read_neighborhood; "
        "print(load_settings().world.dir, read_neighborhood('({1},{#},C)').refs, schemas.__file__)"
    )
    # -S: no site-packages at all.
    printed = python(installed, code, "-S").split(maxsplit=2)
    assert printed[:2] == ["lake/world", "(1,)"]
    assert printed[2].startswith(str(installed))


def link_with_all_it_needs(name: str, folder: Path, known: set[str]) -> None:
    """Put an installed package and, in turn, what it needs into a folder."""
    if name.lower() in known:
        return
    known.add(name.lower())
    try:
        package = distribution(name)
    except PackageNotFoundError:  # for another system or Python
        return
    for file in package.files or ():
        here = folder / file.parts[0]
        if file.parts[0] != ".." and not here.is_symlink():
            here.symlink_to(str(package.locate_file(file.parts[0])))
    for requirement in package.requires or ():
        needed = re.match(r"[\w.-]+", requirement)
        if needed is not None and "extra ==" not in requirement:
            link_with_all_it_needs(needed[0], folder, known)


def requirements_of(installed: Path, extra: str) -> list[str]:
    """The packages that pip would install for an extra, by what the wheel says."""
    (metadata,) = installed.glob("spaps-*.dist-info/METADATA")
    lines = re.findall(r"^Requires-Dist: ([\w.-]+)(.*)$", metadata.read_text(), re.MULTILINE)
    return [name for name, rest in lines if "extra ==" not in rest or f"'{extra}'" in rest]


def test_the_shell_commands_need_no_geometry(installed: Path, tmp_path: Path) -> None:
    """``spaps[cli]``: sub, pub, top and check run with typer, rich and paho alone."""
    needed = requirements_of(installed, "cli")
    assert sorted(needed) == ["paho-mqtt", "rich", "typer"]
    for name in needed:
        link_with_all_it_needs(name, tmp_path, set())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = str(taken.getsockname()[1])
    commands = [
        ["sub", "-h", "127.0.0.1", "-p", nobody, "-t", "a", "--neighborhood", "({1},{#},C)"],
        ["pub", "-h", "127.0.0.1", "-p", nobody, "-t", "a", "-m", "x", "--peid", "1"],
        ["top", "--http", f"127.0.0.1:{nobody}", "-n", "1"],
        ["check", "({1},{road/#},T)"],
        ["resolve", "--world", "nowhere", "({1},{road/#},T)"],
    ]
    code = (
        "import sys; sys.stderr = sys.stdout; from spaps.cli import command_line\n"
        f"for one in {commands!r}: print(one[0], command_line.run(one))"
    )
    said = python(installed, code, "-S", beside=tmp_path)
    # Nobody is there to talk to, which is what they say; none lacks a package.
    for command in ("sub", "pub", "top"):
        assert f"{command} 2" in said
    assert "check 0" in said
    assert re.findall(r"pip install 'spaps\[(\w+)\]'", said) == ["world"], said


def test_commands_find_their_files_outside_a_clone(
    installed: Path, monaco_world: str, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    arguments = ["resolve", "--world", monaco_world, "--map", str(page), "--json"]
    code = (
        "import sys; from spaps.cli import command_line; "
        f"assert command_line.__file__.startswith({str(installed)!r}); "
        f"sys.exit(command_line.run({[*arguments, '({4000000005986438},{zone/admin/+},T)']!r}))"
    )
    assert '"peids": [4000000002221178' in python(installed, code)
    assert "<canvas" in page.read_text("utf-8")
