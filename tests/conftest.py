"""What all tests share: the Spark session, programs from the system, the data beside the clone.

A test that needs something the machine lacks is skipped with its reason where a person runs
it, and fails under ``CI=true``: there a skip would hide that nothing was proven.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# No test has a time limit of its own: a busy machine is not a defect.
settings.register_profile("spaps", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("spaps")

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED_DATA = REPOSITORY.parent / "shared" / "data"

# Program -> the Debian package that brings it, for the line that says what to install.
DEBIAN_PACKAGES = {
    "chromium": "chromium",
    "java": "openjdk-17-jre-headless",
    "mosquitto": "mosquitto",
    "mosquitto_passwd": "mosquitto",
    "mosquitto_pub": "mosquitto-clients",
    "mosquitto_sub": "mosquitto-clients",
    "node": "nodejs",
    "npm": "npm",
    "openssl": "openssl",
    "pg_ctl": "postgresql-postgis",
    "redis-cli": "redis-tools",
    "redis-server": "redis-server",
}
# Debian keeps these off the PATH of an ordinary user.
EXTRA_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/usr/lib/postgresql/*/bin")


def find_program(name: str) -> Path | None:
    """The program on the PATH or in the folders where Debian hides servers."""
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    folders = (folder for pattern in EXTRA_FOLDERS for folder in Path("/").glob(pattern[1:]))
    return next((folder / name for folder in sorted(folders) if (folder / name).is_file()), None)


@pytest.fixture(scope="session")
def program() -> Callable[[str], Path]:
    """``program("redis-server")`` gives its path, or skips the test and says what to install."""

    def require(name: str) -> Path:
        path = find_program(name)
        if path is None:
            package = DEBIAN_PACKAGES.get(name, name)
            pytest.skip(f"{name} is not installed (Debian: apt install {package})")
        return path

    return require


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the clone."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real data beside the clone; tests that use it carry the marker ``shared_data``."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"no data at {SHARED_DATA}")
    return SHARED_DATA


@pytest.fixture(scope="session")
def monaco_world(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The sample world, imported once for all tests; nobody may add a version to it."""
    from world.importing import import_world  # noqa: PLC0415  not for tests without a world

    world = str(tmp_path_factory.mktemp("monaco") / "world")
    import_world([REPOSITORY / "data" / "monaco.osm.pbf"], world)
    return world


@pytest.fixture(scope="session")
def spark(program: Callable[[str], Path]) -> Iterator[Any]:
    """One Spark session for the whole run: starting it costs more than most tests."""
    program("java")
    from jobs.session import spark_session  # noqa: PLC0415  tests without Spark never load it

    session = spark_session("spaps-tests")
    yield session
    session.stop()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Under CI a skip is a failure, but for tests of data that may not be in the repository."""
    outcome: Any = yield
    report = outcome.get_result()
    allowed = item.get_closest_marker("shared_data") is not None or hasattr(report, "wasxfail")
    if report.skipped and os.environ.get("CI") == "true" and not allowed:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"skipped under CI, where everything must run: {reason}"
