"""What is in the wheels: every file once, and the small parts work without large packages."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import zipfile
from collections.abc import Callable
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

from spaps import __version__


@pytest.fixture(scope="module")
def installed(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both wheels, unpacked: what pip would put into site-packages."""
    folder = tmp_path_factory.mktemp("wheel") / "unpacked"
    for wheel in wheels.values():
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(folder)
    return folder


def content(wheel: Path) -> set[str]:
    """The files of a wheel without those that describe it."""
    with zipfile.ZipFile(wheel) as packed:
        return {name for name in packed.namelist() if ".dist-info/" not in name}


def test_the_client_has_one_top_level_name_and_the_client_alone(wheels: dict[str, Path]) -> None:
    files = content(wheels["spaps-mqtt"])
    assert {"spaps/__init__.py", "spaps/py.typed", "spaps/client/spatial_client.py"} < files
    own = re.compile(r"spaps/(__init__\.py|py\.typed|version\.py|client/\w+\.py)")
    assert [name for name in files if not own.fullmatch(name)] == []


def test_every_file_is_in_exactly_one_wheel(wheels: dict[str, Path], repository: Path) -> None:
    client, server = content(wheels["spaps-mqtt"]), content(wheels["spaps-server"])
    assert not client & server
    rooms = (
        *("schemas", "spatial_udfs", "world", "redis_link", "rebuild", "jobs", "broker"),
        *("spaps", "conf"),
    )
    there = {
        file.relative_to(repository).as_posix()
        for room in rooms
        for file in (repository / room).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert client | server == there
    assert {name.split("/")[0] for name in server} == set(rooms)
    # One mark for each top-level package says that its types may be used; conf has no code.
    typed = {name.split("/")[0] for name in client | server if name.endswith("/py.typed")}
    assert typed == {*rooms} - {"conf"}


def test_the_client_needs_paho_alone_and_the_server_its_client(installed: Path) -> None:
    client, server = metadata(installed, "spaps_mqtt"), metadata(installed, "spaps_server")
    assert client["Version"] == server["Version"] == __version__
    needed = [one for one in client.get_all("Requires-Dist", []) if "extra ==" not in one]
    assert needed == ["paho-mqtt<3,>=2.1"]
    assert f"spaps-mqtt=={__version__}" in server.get_all("Requires-Dist", [])
    for one in (client, server):
        assert one["Requires-Python"] == ">=3.11"
        assert "Typing :: Typed" in one.get_all("Classifier", [])


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
        "from schemas.language.notation import read_neighborhood; "
        "print(load_settings().world.dir, read_neighborhood('({1},{#},C)').refs, schemas.__file__)"
    )
    # -S: no site-packages at all.
    printed = python(installed, code, "-S").split(maxsplit=2)
    assert printed[:2] == ["lake/world", "(1,)"]
    assert printed[2].startswith(str(installed))


def metadata(installed: Path, name: str) -> Message:
    """What a wheel says about itself."""
    (file,) = installed.glob(f"{name}-*.dist-info/METADATA")
    return message_from_string(file.read_text("utf-8"))


def test_the_shell_commands_need_no_geometry(
    installed: Path, tmp_path: Path, link_packages: Callable[[list[str], Path], None]
) -> None:
    """Without an extra: sub, pub, top and check run with typer, rich and paho alone."""
    asked_for = metadata(installed, "spaps_server").get_all("Requires-Dist", [])
    needed = [re.split("[=<>]", one)[0] for one in asked_for if "extra ==" not in one]
    assert sorted(needed) == ["rich", "spaps-mqtt", "typer"]
    link_packages(["paho-mqtt", "rich", "typer"], tmp_path)
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
    assert re.findall(r"pip install 'spaps-server\[(\w+)\]'", said) == ["world"], said


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
    assert '"peids": ["4000000002221178"' in python(installed, code)
    assert "<canvas" in page.read_text("utf-8")
