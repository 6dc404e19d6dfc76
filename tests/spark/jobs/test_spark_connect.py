"""The bulk job on Spark Connect: in the process of spark-submit, and with a server elsewhere."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from redis_link.connection.client import connect
from tests.conftest import REPOSITORY
from tests.scenes.bulk_scene import bulk_rows, exact_rows_of
from tests.scenes.rebuild_scene import NEIGHBORHOODS, RebuildScene, grid_town
from tests.servers.redis_server import running_redis
from tests.servers.submitted_job import (
    SHORT_LIVED_JVM,
    WAIT_SECONDS,
    kill_group,
    submitted,
)
from world.snapshot import load_snapshot

pytestmark = pytest.mark.spark

JOB = REPOSITORY / "jobs" / "resolve_neighborhoods.py"
REBUILD = REPOSITORY / "jobs" / "rebuild.py"
SAMPLES = REPOSITORY / "data" / "sample_subscriptions.jsonl"
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


def arguments(world: str, out: Path) -> list[str]:
    return ["--world", world, "--subscriptions", str(SAMPLES), "--out", str(out)]


def test_spark_submit_in_connect_mode(
    program: Callable[[str], Path],
    world: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program("java")
    monkeypatch.setenv("SPARK_API_MODE", "connect")
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    log = tmp_path / "log"
    command = ["--master", "local[2]", JOB, *arguments(world, tmp_path / "out")]
    with submitted(command, log) as job:
        assert job.wait(WAIT_SECONDS) == 0, log.read_text()
    assert bulk_rows(tmp_path / "out") == exact_rows_of(SAMPLES, load_snapshot(world))


def test_a_server_in_another_process(server: str, world: str, tmp_path: Path) -> None:
    run_on(server, JOB, *arguments(world, tmp_path / "out"))
    assert bulk_rows(tmp_path / "out") == exact_rows_of(SAMPLES, load_snapshot(world))


def test_rebuilds_on_connect(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Import, comparison, resolution and push; twice, so that there is something to compare.

    First by spark-submit, then with a server elsewhere.
    """
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    town: dict[int, tuple[list[str], Any]] = grid_town(4)
    with running_redis(tmp_path / "redis") as redis, closing(connect(redis.url)) as client:
        scene = RebuildScene(tmp_path, redis.url, client)
        scene.subscribe(NEIGHBORHOODS)
        places, log = scene.places, tmp_path / "log"
        monkeypatch.setenv("SPAPS_REBUILD_RECORDS", str(places.records))
        monkeypatch.setenv("SPAPS_REBUILD_GRACE_SECONDS", "0")
        command = [
            *(REBUILD, scene.source, "--engine", "spark", "--world", places.world),
            *("--out", places.out, "--redis", redis.url),
        ]
        scene.write_source(town)
        with monkeypatch.context() as submitting:
            submitting.setenv("SPARK_API_MODE", "connect")
            with submitted(["--master", "local[2]", *command], log) as job:
                assert job.wait(WAIT_SECONDS) == 0, log.read_text()
        scene.assert_in_force(1)
        del town[13]
        scene.write_source(town)
        run_on(server, *command)
        scene.assert_in_force(2)
        steps = scene.records()[-1]["steps"]
        assert steps["compare"]["changes"]["removed"] == 1
        assert len(scene.changes_of(steps["push"]["generation"])) > 0


def run_on(server: str, *command: object) -> None:
    """Run a job whose Spark is a server elsewhere."""
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        env={**os.environ, "SPARK_REMOTE": server, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.fixture
def world(monaco_world: str, tmp_path: Path) -> str:
    """A world of which no run has kept anything."""
    return str(shutil.copytree(monaco_world, tmp_path / "world"))


@pytest.fixture(scope="module")
def server(
    program: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A server that has never heard of this project; its URL."""
    program("java")
    with connect_server(tmp_path_factory.mktemp("server")) as url:
        yield url


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    programs = Path(sys.executable).parent
    elsewhere = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.ui.enabled": "false",
    }
    options = [part for item in settings.items() for part in ("--conf", "=".join(map(str, item)))]
    with (folder / "server-log").open("wb") as log:
        server = subprocess.Popen(
            [str(programs / "spark-submit"), "--master", "local[2]", "--class", SERVER,
             *options, "spark-internal"],
            cwd=folder, stdout=log, stderr=log, start_new_session=True,
            env={**elsewhere, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
                 "PYSPARK_PYTHON": sys.executable, "JDK_JAVA_OPTIONS": SHORT_LIVED_JVM},
        )  # fmt: skip
        try:
            _wait_for(port, server)
            yield f"sc://127.0.0.1:{port}"
        finally:
            kill_group(server)


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        assert server.poll() is None, "the server ended"
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("the server does not listen")
