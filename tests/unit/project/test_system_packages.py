"""System packages: one table, installed with apt where that is possible, else one line."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import system_packages
from system_packages import PROGRAMS, SetupError, find_program, install, packages_for

# It notes its arguments and whether packages may start their services at this moment.
APT_GET = """#!/bin/sh
if [ -e "$POLICY" ]; then services=$("$POLICY"; echo $?); else services=allowed; fi
echo "$services: $*" >> "$NOTES"
echo "E: no such thing" >&2
exit "$([ "$1" = update ] || echo "$APT_CODE")"
"""
APT_CACHE = """#!/bin/sh
case "$2" in old*) echo "  Candidate: (none)";; *) echo "  Candidate: 1.0";; esac
"""
PACKAGES = [("redis-server",), ("old-java", "new-java")]
ADVICE = (
    "tests need two: run `sudo apt install --no-install-recommends old-java redis-server` "
    "(Debian, Ubuntu) and retry"
)


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """A machine with an apt-get that installs nothing; returns what it was asked for."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in {"apt-get": APT_GET, "apt-cache": APT_CACHE}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    policy, notes = tmp_path / "policy-rc.d", tmp_path / "notes"
    monkeypatch.setattr(system_packages, "SERVICE_POLICY", str(policy))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    for name, value in {"POLICY": policy, "NOTES": notes, "APT_CODE": "0"}.items():
        monkeypatch.setenv(name, str(value))
    return lambda: notes.read_text().splitlines() if notes.exists() else []


def test_services_are_not_started_and_nothing_is_left_behind(
    apt: Callable[[], list[str]], tmp_path: Path
) -> None:
    install(PACKAGES, "tests need two")
    updated, installed = apt()
    assert updated == "allowed: update -q"
    assert installed.startswith("101: install ")
    assert installed.endswith(" redis-server new-java")
    assert not (tmp_path / "policy-rc.d").exists()


def test_a_policy_of_the_machine_stays(apt: Callable[[], list[str]], tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 7\n")
    policy.chmod(0o755)
    install(PACKAGES, "tests need two")
    assert apt()[1].startswith("7: install ")
    assert policy.read_text() == "#!/bin/sh\nexit 7\n"


def test_when_apt_fails_one_line_says_what_to_install(
    apt: Callable[[], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APT_CODE", "100")
    with pytest.raises(SetupError) as caught:
        install(PACKAGES, "tests need two")
    assert str(caught.value) == f"{ADVICE}; apt-get ended with: no such thing"
    assert len(apt()) == 2
    assert not (tmp_path / "policy-rc.d").exists()


@pytest.mark.parametrize("sudo", [None, "#!/bin/sh\nexit 1\n"], ids=["no sudo", "password"])
def test_a_user_who_may_not_install_gets_one_line(
    apt: Callable[[], list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sudo: str | None,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    if sudo is not None:
        (tmp_path / "bin" / "sudo").write_text(sudo)
        (tmp_path / "bin" / "sudo").chmod(0o755)
    with pytest.raises(SetupError) as caught:
        install(PACKAGES, "tests need two")
    assert str(caught.value) == ADVICE
    assert apt() == []


def test_sudo_installs_where_it_asks_for_no_password(
    apt: Callable[[], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    (tmp_path / "bin" / "sudo").write_text('#!/bin/sh\nshift\nexec "$@"\n')
    (tmp_path / "bin" / "sudo").chmod(0o755)
    install(PACKAGES, "tests need two")
    assert apt()[1].endswith(" redis-server new-java")


def test_programs_are_found_off_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = tmp_path / "15" / "bin" / "some-server"
    server.parent.mkdir(parents=True)
    server.touch()
    entry = system_packages.SystemProgram(("some",), "nothing", (f"{tmp_path}/*/bin",))
    assert find_program("some-server") is None
    monkeypatch.setitem(PROGRAMS, "some-server", entry)
    assert find_program("some-server") == server


def test_programs_of_the_environment_are_not_those_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An activated environment has a redis-server without TLS and Cluster."""
    environment, system = tmp_path / "environment", tmp_path / "system"
    for folder in (environment, system):
        folder.mkdir()
        (folder / "redis-server").touch(0o755)
    monkeypatch.setattr(system_packages, "ENVIRONMENT_PROGRAMS", environment)
    monkeypatch.setenv("PATH", f"{environment}:{system}")
    assert find_program("redis-server") == system / "redis-server"


def test_postgresql_without_the_library_of_postgis_is_not_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is there, and so are the scripts of the extension."""
    for file in ("lib/15/bin/pg_ctl", "share/15/extension/postgis.control", "lib/15/lib/x.so"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    entry = dataclasses.replace(PROGRAMS["postgis-3.so"], folders=(f"{tmp_path}/lib/*/lib",))
    monkeypatch.setitem(PROGRAMS, "postgis-3.so", entry)
    assert find_program("postgis-3.so") is None
    (tmp_path / "lib/15/lib/postgis-3.so").touch()
    assert find_program("postgis-3.so") == tmp_path / "lib/15/lib/postgis-3.so"


def test_a_package_is_named_once() -> None:
    assert packages_for(["mosquitto", "npm", "mosquitto_passwd"]) == [("mosquitto",), ("npm",)]


@pytest.mark.parametrize(
    "file",
    [".ci/run", "Makefile", "bootstrap.py", "tests/conftest.py", "testing/postgis_server.py"],
)
def test_no_other_file_has_a_table_of_packages(repository: Path, file: str) -> None:
    text = (repository / file).read_text("utf-8")
    names = {name for entry in PROGRAMS.values() for name in entry.packages if "-" in name}
    named = sorted(name for name in names if name in text and name not in PROGRAMS)
    assert named == []


def test_make_test_stops_in_one_line_where_nothing_can_be_installed(
    repository: Path, program: Callable[[str], Path], tmp_path: Path
) -> None:
    done = subprocess.run(
        [program("make"), "-s", "test", f"PYTHON={sys.executable}"],
        cwd=repository,
        env={"PATH": str(tmp_path)},  # no apt-get, no redis-server, no node
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert done.stdout == ""
    line, of_make = done.stderr.splitlines()
    assert line.startswith("setup: the tests need chromium, ")
    assert "run `sudo apt install --no-install-recommends chromium " in line
    assert line.endswith(" (Debian, Ubuntu) and retry; `make check` needs no servers")
    assert of_make.startswith("make: *** ")


def test_make_check_is_lint_and_the_unit_tests_and_installs_no_server(
    repository: Path, program: Callable[[str], Path]
) -> None:
    assert _commands_of("check", repository, program) == [
        "-m pytest tests/unit",
        "bootstrap.py",
        "lint",
    ]
    assert _commands_of("test", repository, program) == [
        "-m pytest",
        "bootstrap.py",
        "bootstrap.py tests",
        "lint",
    ]


def _commands_of(target: str, repository: Path, program: Callable[[str], Path]) -> list[str]:
    """What a target of the Makefile would run, in short and sorted; nothing is run."""
    shown = subprocess.run(
        [program("make"), "-s", "-n", target],
        cwd=repository,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = set()
    for line in shown.splitlines():
        if "-m pytest" in line:
            found.add("-m pytest tests/unit" if line.endswith(" tests/unit") else "-m pytest")
        elif "bootstrap.py" in line and "mypy" not in line:
            found.add("bootstrap.py tests" if line.endswith(" tests") else "bootstrap.py")
        elif "ruff check" in line or "lint-imports" in line:
            found.add("lint")
    return sorted(found)
