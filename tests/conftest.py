"""What all tests share: the Spark session, programs from the system, the data beside the clone.

A test that needs something the machine lacks is skipped with its reason where a person runs
it, and fails under ``CI=true``: there a skip would hide that nothing was proven.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.servers.programs import require_program

# No test has a time limit of its own: a busy machine is not a defect.
settings.register_profile("spaps", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("spaps")

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED_DATA = REPOSITORY.parent / "shared" / "data"
TESTS = REPOSITORY / "tests"
# Long tests first: the short ones at the end even out what the processes have left.
FOLDERS = ("spark", "integration", "e2e", "property", "unit")
# Files whose tests start a Spark of their own; the others below tests/spark use the session.
SUBMITTING = {
    "test_bulk_submitted.py",
    "test_import_world_submit.py",
    "test_installed_wheels.py",
    "test_notebook.py",
    "test_own_delta_table.py",
    "test_push_killed_tasks.py",
    "test_quick_start.py",
    "test_separate_executors.py",
    "test_spark_connect.py",
}
# Files of one long test each, which starts a Spark of its own.
LONG = {"test_bulk_killed.py", "test_executor_loss.py"}


def group_of(nodeid: str) -> str:
    """Name the tests that one process of xdist runs one after the other.

    A file stays together for the sake of its fixtures. All files that use the Spark session are one
    group, so that one JVM gets warm instead of one in each process; files that start a Spark
    of their own are another, so that few of them run at the same time. The files that kill jobs
    and executors are each as long as all the others of that group: they have processes of their
    own.
    """
    file = Path(nodeid.partition("::")[0])
    if file.name in SUBMITTING:
        return "submit"
    uses_session = file.parts[:2] == ("tests", "spark") and file.name not in LONG
    return "session" if uses_session else str(file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let ``--dist loadfile`` keep the files of a group together, as if they were one file.

    xdist's own ``loadgroup`` does not work with pytest 9.2.
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415  not for a single process

    class GroupScheduling(LoadFileScheduling):
        """Puts the group before each name, where the scheduler looks for the file."""

        def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
            super().add_node_collection(node, [f"{group_of(one)}::{one}" for one in collection])

        def remove_node(self, node: Any) -> str | None:
            crashed = super().remove_node(node)
            return crashed and crashed.partition("::")[2]

    return GroupScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests by their folders."""
    items.sort(key=_place_of_folder)


def _place_of_folder(item: pytest.Item) -> int:
    folder = item.path.parts[len(TESTS.parts)] if item.path.is_relative_to(TESTS) else ""
    return FOLDERS.index(folder) if folder in FOLDERS else len(FOLDERS)


@pytest.fixture(scope="session")
def program() -> Callable[[str], Path]:
    """``program("openssl")`` returns its path, or skips the test and says what to install."""
    return require_program


@pytest.fixture(scope="session", autouse=True)
def own_state_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the folder of states of the user who runs the tests as it is."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session", autouse=True)
def pandas_for_arrow() -> None:
    """Let Arrow find pandas before a command hides it: some tests read tables with geopandas."""
    import pyarrow as pa  # noqa: PLC0415  not for the process that only distributes tests

    pa.array([0])


@pytest.fixture(autouse=True)
def own_log_handlers() -> Iterator[None]:
    """Undo what a command has set up for logs: its stream ends with the test that ran it."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


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
    """The sample world of this process; nobody may add a version to it.

    The first of the processes of xdist imports it, and the others copy it.
    """
    from world.imports.world_import import import_world  # noqa: PLC0415  not for tests without a world

    folder = tmp_path_factory.mktemp("monaco")
    is_shared = "PYTEST_XDIST_WORKER" in os.environ
    common = tmp_path_factory.getbasetemp().parent if is_shared else folder
    imported = common / "monaco-imported"
    with (common / "monaco.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not imported.exists():
            import_world([REPOSITORY / "data" / "monaco.osm.pbf"], str(folder / "imported"))
            (folder / "imported").rename(imported)
    shutil.copytree(imported, folder / "world")
    return str(folder / "world")


@pytest.fixture(scope="session")
def spark(program: Callable[[str], Path]) -> Iterator[Any]:
    """One Spark session for the whole run: starting it costs more than most tests."""
    program("java")
    from jobs.pipeline.session import spark_session  # noqa: PLC0415  tests without Spark never load it

    with pytest.MonkeyPatch.context() as starting:
        # Tests are many small plans: the JVM's second compiler takes more time than it saves.
        starting.setenv("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
        session = spark_session("spaps-tests", extra={"spark.ui.enabled": "false"})
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
        report.skipped_under_ci = True


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Count a test whose fixture lacks a program as failed: the fixture has no error."""
    return ("failed", "F", "FAILED") if hasattr(report, "skipped_under_ci") else None
