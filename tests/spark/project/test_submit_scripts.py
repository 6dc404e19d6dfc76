"""The script for YARN, tried on executors in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from redis_link.connection.client import connect
from redis_link.generation.generation_store import current_generation
from tests.scenes.bulk_scene import bulk_rows, exact_rows_of
from tests.servers.redis_server import running_redis
from tests.servers.submitted_job import SHORT_LIVED_JVM, WAIT_SECONDS
from world.imports.world_import import import_world
from world.snapshot import load_snapshot

pytestmark = pytest.mark.spark


def test_on_two_executors(program: Callable[[str], Path], repository: Path, tmp_path: Path) -> None:
    program("java")
    import_world([repository / "data" / "monaco.osm.pbf"], str(tmp_path / "world"))
    samples = repository / "data" / "sample_subscriptions.jsonl"
    folder = Path(sys.executable).parent
    with running_redis(tmp_path / "redis") as server:
        done = subprocess.run(
            [repository / "deploy/yarn/submit.sh", "--changes"],
            cwd=repository,
            env={
                **os.environ,
                "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
                "JDK_JAVA_OPTIONS": SHORT_LIVED_JVM,
                "SPAPS_MASTER": "local-cluster[2,1,1024]",
                "SPAPS_PYTHON": sys.executable,
                "SPAPS_LAKE": str(tmp_path),
                "SPAPS_SUBSCRIPTIONS": str(samples),
                "SPAPS_REDIS_URL": server.url,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=WAIT_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        facts = current_generation(connect(server.url))
    expected = exact_rows_of(samples, load_snapshot(str(tmp_path / "world")))
    assert bulk_rows(tmp_path) == expected
    assert facts is not None
    assert facts.pairs == len({(peid, sub_id) for sub_id, peid, _ in expected})
    assert (
        f"added {len(expected):,} rows and removed 0, the first run of the feed"
        in done.stdout + done.stderr
    )
