"""The bulk job on executors that are processes of their own, as on a cluster."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from redis_link.connection.client import connect
from redis_link.generation import generation_store
from tests.scenes.bulk_scene import bulk_rows, exact_rows_of
from tests.servers.redis_content import pairs_in_redis
from tests.servers.redis_server import running_redis
from tests.servers.submitted_job import WAIT_SECONDS, submitted
from world.imports.world_import import import_world
from world.snapshot import load_snapshot

pytestmark = pytest.mark.spark

# Descriptions of jobs, as patterns: of steps that have no other beside them.
STEPS = ("bring references to their buckets", r"levels? [\d to]+ of \d+: [\d,]+ sets")


def test_resolve_and_push_from_two_executors(
    program: Callable[[str], Path], repository: Path, tmp_path: Path
) -> None:
    program("java")
    world = str(tmp_path / "world")
    import_world([repository / "data" / "monaco.osm.pbf"], world)
    samples = repository / "data" / "sample_subscriptions.jsonl"
    (tmp_path / "events").mkdir()
    with running_redis(tmp_path / "redis") as server:
        arguments = [
            *("--master", "local-cluster[2,1,1024]"),
            *_settings(tmp_path / "events"),
            repository / "jobs" / "resolve_neighborhoods.py",
            *("--world", world, "--subscriptions", samples, "--out", tmp_path / "out"),
            *("--redis", server.url),
        ]
        log = tmp_path / "log"
        with submitted(arguments, log) as job:
            assert job.wait(WAIT_SECONDS) == 0, log.read_text()
        expected = exact_rows_of(samples, load_snapshot(world))
        assert bulk_rows(tmp_path / "out") == expected
        client = connect(server.url)
        generation = generation_store.current_number(client)
        assert generation is not None
        assert pairs_in_redis(client, generation) == {(peid, sub) for sub, peid, _ in expected}
    events = _events(tmp_path / "events")
    tasks = Counter(event["Task Info"]["Executor ID"] for event in events["TaskEnd"])
    assert set(tasks) == {"0", "1"}, "the driver may run no task, and both executors some"
    assert "Traceback" not in log.read_text()
    # What the Spark UI shows of each job. The UI is on unless somebody switches it off.
    steps = {event["Properties"].get("spark.job.description", "") for event in events["JobStart"]}
    for step in STEPS:
        assert any(re.fullmatch(step, each) for each in steps), (step, steps)
    assert events["EnvironmentUpdate"]
    for environment in events["EnvironmentUpdate"]:
        assert environment["Spark Properties"].get("spark.ui.enabled", "true") == "true"


def _settings(events: Path) -> list[str]:
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    return [part for item in settings.items() for part in ("--conf", "=".join(item))]


def _events(folder: Path) -> dict[str, list[dict[str, Any]]]:
    [log] = folder.iterdir()
    found = defaultdict(list)
    for line in log.read_text("utf-8").splitlines():
        event = json.loads(line)
        found[event["Event"].removeprefix("SparkListener")].append(event)
    return found
