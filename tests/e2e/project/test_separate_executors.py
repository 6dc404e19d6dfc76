"""The bulk job on executors that are processes of their own, as on a cluster.

One run shows all of it: the script for YARN starts the job of the installed wheel, on two executors
whose environment lacks spaPS, with a push and the change feed.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from redis_link.connection.client import connect
from redis_link.generation.generation_store import current_generation
from schemas.generation import GenerationFacts
from tests.e2e.conftest import Environment
from tests.scenes.bulk_scene import Row, bulk_rows, exact_rows_of
from tests.servers.redis_content import Pairs, pairs_in_redis
from tests.servers.redis_server import running_redis
from tests.servers.spark_settings import events_in, quick_executors, words_of
from tests.servers.submitted_job import SHORT_LIVED_JVM, WAIT_SECONDS
from world.snapshot import load_snapshot

pytestmark = pytest.mark.spark

# Descriptions of jobs, as patterns: of steps that have no other beside them.
STEPS = ("bring references to their buckets", r"levels? [\d to]+ of \d+: [\d,]+ sets")


@dataclass(frozen=True)
class Run:
    """What a run said and left."""

    lake: Path
    said: str
    events: dict[str, list[dict[str, Any]]]
    generation: GenerationFacts | None
    pairs: Pairs
    expected: list[Row]


@pytest.fixture(scope="module")
def run(
    program: Callable[[str], Path],
    server_environment: Environment,
    locked_packages: Path,
    monaco_world: str,
    tmp_path_factory: pytest.TempPathFactory,
    repository: Path,
) -> Run:
    """The only code of ours that the executors have is what was sent to them."""
    program("java")
    folder = tmp_path_factory.mktemp("executors")
    bare = Environment(folder / "bare", locked_packages)
    samples = repository / "data" / "sample_subscriptions.jsonl"
    lake, events = folder / "lake", folder / "events"
    events.mkdir()
    shutil.copytree(monaco_world, lake / "world")
    settings = {
        **events_in(events),
        **quick_executors(),
        "spark.pyspark.driver.python": str(server_environment.python),
    }
    submit = folder / "spark-submit"
    words = [str(locked_packages / "pyspark" / "bin" / "spark-submit"), *words_of(settings)]
    submit.write_text("#!/bin/sh\nexec " + " ".join(f"'{word}'" for word in words) + ' "$@"\n')
    submit.chmod(0o700)
    with running_redis(folder / "redis") as server:
        done = subprocess.run(
            [repository / "deploy/yarn/submit.sh", "--changes"],
            cwd=folder,
            env={
                **server_environment.variables,
                "JDK_JAVA_OPTIONS": SHORT_LIVED_JVM,
                "SPARK_SUBMIT": str(submit),
                "SPAPS_JOBS": str(server_environment.site / "jobs"),
                "SPAPS_MASTER": "local-cluster[2,1,1024]",
                "SPAPS_PYTHON": str(bare.python),
                "SPAPS_LAKE": str(lake),
                "SPAPS_SUBSCRIPTIONS": str(samples),
                "SPAPS_REDIS_URL": server.url,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=WAIT_SECONDS,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
        client = connect(server.url)
        generation = current_generation(client)
        pairs = set() if generation is None else pairs_in_redis(client, generation.generation)
        client.close()
    expected = exact_rows_of(samples, load_snapshot(monaco_world))
    return Run(lake, said, _events(events), generation, pairs, expected)


def _events(folder: Path) -> dict[str, list[dict[str, Any]]]:
    [log] = folder.iterdir()
    found = defaultdict(list)
    for line in log.read_text("utf-8").splitlines():
        event = json.loads(line)
        found[event["Event"].removeprefix("SparkListener")].append(event)
    return found


def test_the_wheel_brings_its_code_to_executors(run: Run) -> None:
    assert bulk_rows(run.lake) == run.expected
    assert "Traceback" not in run.said


def test_the_script_hands_on_where_to_push_and_more_options(run: Run) -> None:
    assert run.generation is not None
    assert run.pairs == {(peid, sub_id) for sub_id, peid, _ in run.expected}
    assert run.generation.pairs == len(run.pairs)
    assert f"added {len(run.expected):,} rows and removed 0, the first run of the feed" in run.said


def test_both_executors_work_and_the_driver_does_not(run: Run) -> None:
    tasks = Counter(event["Task Info"]["Executor ID"] for event in run.events["TaskEnd"])
    assert set(tasks) == {"0", "1"}, "the driver may run no task, and both executors some"


def test_the_spark_ui_shows_each_step(run: Run) -> None:
    """The UI is on unless somebody switches it off."""
    jobs = run.events["JobStart"]
    steps = {event["Properties"].get("spark.job.description", "") for event in jobs}
    for step in STEPS:
        assert any(re.fullmatch(step, each) for each in steps), (step, steps)
    assert run.events["EnvironmentUpdate"]
    for environment in run.events["EnvironmentUpdate"]:
        assert environment["Spark Properties"].get("spark.ui.enabled", "true") == "true"
