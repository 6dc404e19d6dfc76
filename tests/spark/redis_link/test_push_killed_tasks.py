"""A push whose executor or Python worker is killed while it writes: the same generation."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from redis_link.connection.client import connect
from redis_link.generation import generation_store
from redis_link.sets.pair_arrays import sorted_distinct, tally_of
from schemas.membership import MEMBERSHIPS_TABLE
from tests.conftest import REPOSITORY
from tests.servers.redis_server import running_redis
from tests.servers.spark_processes import children, executors_of, kill, workers_of
from tests.servers.submitted_job import WAIT_SECONDS, submitted

pytestmark = pytest.mark.spark

PAIRS, ENTITIES, FILES = 3_000_000, 20_000, 6
BEGUN_KEYS = 2_000


def write_pairs(folder: Path) -> tuple[Any, Any]:
    """Write random memberships of world version 1, and return their distinct pairs."""
    random = np.random.default_rng(3)
    peids, sub_ids = random.integers(0, ENTITIES, PAIRS), random.integers(1, 60_000, PAIRS)
    for part in np.array_split(np.arange(PAIRS), FILES):
        ones = np.ones(len(part), np.int64)
        rows = {
            "subId": sub_ids[part], "peid": peids[part], "stageNo": ones.astype(np.int32),
            "version": ones,
        }  # fmt: skip
        write_deltalake(folder, pa.table(rows), mode="append", partition_by=["version"])
    return sorted_distinct(peids, sub_ids)


@pytest.mark.parametrize("victim", ["executor", "worker"])
def test_a_killed_task_is_repeated(
    victim: str, program: Callable[[str], Path], tmp_path: Path
) -> None:
    program("java")
    pairs = write_pairs(tmp_path / MEMBERSHIPS_TABLE)
    (tmp_path / "events").mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (tmp_path / "events").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    log = tmp_path / "log"
    with running_redis(tmp_path / "redis") as server:
        client = connect(server.url)
        arguments = [
            *("--master", "local-cluster[2,1,1024]"),
            *(part for item in settings.items() for part in ("--conf", "=".join(item))),
            REPOSITORY / "jobs" / "push_to_redis.py",
            *("--memberships", tmp_path, "--redis", server.url, "--grace", "0"),
        ]
        with submitted(arguments, log) as job:
            while client.dbsize() < BEGUN_KEYS:
                assert job.poll() is None, log.read_text()
                time.sleep(0.005)
            executor = executors_of(job.pid)[0]
            for pid in [executor] if victim == "executor" else workers_of(executor):
                kill(pid)
            assert job.wait(WAIT_SECONDS) == 0, log.read_text()
        facts = generation_store.current_generation(client)
        assert facts is not None
        tally = tally_of(*pairs, len(np.unique(pairs[0])))
        assert (facts.pairs, facts.peids) == (tally.pairs, tally.peids)
        assert facts.checksum == tally.checksum()
        client.close()
    assert failed_tasks(tmp_path / "events"), "the kill hit no task"


def failed_tasks(events: Path) -> list[str]:
    """Return why tasks ended, of those that did not succeed."""
    [log] = events.iterdir()
    found = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    ends = [each for each in found if each["Event"] == "SparkListenerTaskEnd"]
    reasons = [end["Task End Reason"]["Reason"] for end in ends]
    return [reason for reason in reasons if reason != "Success"]


def test_a_process_that_has_ended_has_no_children() -> None:
    assert children(2**22 + 1) == []
