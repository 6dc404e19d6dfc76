"""A push whose executor or Python worker is killed while it writes: the same generation."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from redis_link.connection.client import connect
from redis_link.generation import generation_store
from redis_link.sets.pair_arrays import Tally, sorted_distinct, tally_of
from schemas.generation import GenerationFacts
from schemas.membership import MEMBERSHIPS_TABLE
from tests.conftest import REPOSITORY
from tests.servers.redis_server import running_redis
from tests.servers.spark_processes import children, executors_of, kill, workers_of
from tests.servers.spark_settings import NO_PAGES, events_in, quick_executors, words_of
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


@dataclass(frozen=True)
class Push:
    """What a push wrote whose tasks were killed, and what the table holds."""

    facts: GenerationFacts | None
    table: Tally
    failures: list[str]


@pytest.fixture(scope="module")
def push(program: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Push:
    """Kill one executor, and the Python workers of the other, while both write."""
    program("java")
    folder = tmp_path_factory.mktemp("killed")
    peids, sub_ids = write_pairs(folder / MEMBERSHIPS_TABLE)
    (folder / "events").mkdir()
    log = folder / "log"
    with running_redis(folder / "redis") as server:
        client = connect(server.url)
        arguments = [
            *("--master", "local-cluster[2,1,1024]"),
            *words_of({**events_in(folder / "events"), **quick_executors(), **NO_PAGES}),
            REPOSITORY / "jobs" / "push_to_redis.py",
            *("--memberships", folder, "--redis", server.url, "--grace", "0"),
        ]
        with submitted(arguments, log) as job:
            while client.dbsize() < BEGUN_KEYS:
                assert job.poll() is None, log.read_text()
                time.sleep(0.005)
            executor, other = executors_of(job.pid)
            for pid in [executor, *workers_of(other)]:
                kill(pid)
            assert job.wait(WAIT_SECONDS) == 0, log.read_text()
        facts = generation_store.current_generation(client)
        client.close()
    tally = tally_of(peids, sub_ids, len(np.unique(peids)))
    return Push(facts, tally, failures_in(folder / "events"))


@pytest.mark.parametrize(
    ("victim", "failure"), [("executor", "ExecutorLostFailure"), ("worker", "ExceptionFailure")]
)
def test_a_killed_task_is_repeated(victim: str, failure: str, push: Push) -> None:
    assert failure in push.failures, f"the kill of the {victim} hit no task"
    assert push.facts is not None
    assert (push.facts.pairs, push.facts.peids) == (push.table.pairs, push.table.peids)
    assert push.facts.checksum == push.table.checksum()


def failures_in(events: Path) -> list[str]:
    """Return why tasks ended, of those that did not succeed."""
    [log] = events.iterdir()
    found = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    ends = [each for each in found if each["Event"] == "SparkListenerTaskEnd"]
    reasons = [end["Task End Reason"]["Reason"] for end in ends]
    return [reason for reason in reasons if reason != "Success"]


def test_a_process_that_has_ended_has_no_children() -> None:
    assert children(2**22 + 1) == []
