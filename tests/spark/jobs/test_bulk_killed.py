"""SIGKILL to ``spark-submit jobs/resolve_neighborhoods.py --redis``, JVM and all, twenty times.

After each kill readers of Delta and of Redis see one complete state, and what it left is where
the next run begins.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import shapely
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import SparkSession
from shapely import affinity

from jobs import resolve_neighborhoods
from jobs.pipeline import bulk_job
from jobs.pipeline.spark_push import push_generation
from redis_link.connection.client import connect
from redis_link.generation import generation_store
from redis_link.generation.push_lock import is_held
from redis_link.generation.sweep import Retention
from schemas.entity import ENTITY, REFERENCE, RELATED_TABLE, RELATED_VERSIONS_TABLE
from schemas.generation import GenerationState
from schemas.language.notation import read_neighborhood
from schemas.membership import MEMBERSHIPS_TABLE, RUNS_TABLE
from schemas.redis_keys import push_lock_key
from spatial_udfs.entity_table import EntityTable
from tests.conftest import REPOSITORY
from tests.oracle.definition import entities_of
from tests.scenes.bulk_scene import Row, bulk_rows, exact_rows, write_world
from tests.servers.redis_content import numbers_of_generations, pairs_in_redis
from tests.servers.redis_server import running_redis
from tests.servers.spark_settings import NO_PAGES, words_of
from tests.servers.submitted_job import WAIT_SECONDS, submitted
from tests.strategies.drawn_city import ENTITIES, drawn_city
from tests.strategies.worlds import table_of
from world.lake.bulk_tables import PROBLEMS_TABLE
from world.versions.removal import DERIVED_TABLES

pytestmark = pytest.mark.spark

JOB = REPOSITORY / "jobs" / "resolve_neighborhoods.py"
KILLS = 20
# World version and subscriptions of each run, over and over.
RUNS = ((1, "a"), (1, "b"), (2, "a"), (2, "b"))
# What a run says when it has begun, and at its end.
BEGUN, PUSHING, SERVING = "world ", "memberships of world version", " is current"

NOWHERE = 999
WANTED = {
    "a": ["({1},{road/#},C) • 2(Prev,{road/#},T)", "({1},{#},NOT DW1.5)"],
    "b": [
        "({14},{transport/#},T OR DW2.5)",
        "({1},{road/#},C) • 2(Prev,{road/#},T)",
        f"({{{NOWHERE}}},{{#}},I)",
    ],
}


def second_version() -> EntityTable:
    """One entity is gone and one has moved."""
    rows = [
        (peid, names, affinity.translate(shape, -1, -1) if peid == 33 else shape)
        for peid, names, shape in ENTITIES
        if peid != 43
    ]
    return table_of(rows, 2)


TABLES = {1: drawn_city(), 2: second_version()}


@dataclass(slots=True)
class Lake:
    """What readers see, and what they have seen before."""

    folder: Path
    url: str
    rows: dict[tuple[int, str], list[Row]]
    seen: dict[str, Any] = field(default_factory=dict)

    def versions(self, place: str) -> set[int]:
        """The world versions of which a table has rows; no table has none."""
        try:
            table = DeltaTable(str(self.folder / place))
        except TableNotFoundError:
            return set()
        return set(table.to_pyarrow_table(columns=["version"]).column(0).to_pylist())

    def assert_one_state(self) -> None:
        """Whatever is there is whole, and what was there has not gone."""
        written = self.versions(f"out/{MEMBERSHIPS_TABLE}")
        for version in written:
            found = bulk_rows(self.folder / "out", version)
            assert found in [self.rows[version, batch] for batch in WANTED]
        assert written >= self.seen.get("written", set())
        self.seen["written"] = written
        # Run facts are the last to be written: nothing may be missing that they vouch for.
        assert self.versions(f"out/{RUNS_TABLE}") <= written
        self.assert_problems()
        self.assert_related()
        self.assert_redis()

    def assert_problems(self) -> None:
        for version in self.versions(f"out/{PROBLEMS_TABLE}"):
            rows = DeltaTable(str(self.folder / "out" / PROBLEMS_TABLE)).to_pyarrow_table(
                filters=[("version", "=", version)], columns=["subId"]
            )
            assert rows.column(0).to_pylist() in ([], [3])

    def assert_related(self) -> None:
        """Pairs that are vouched for are all pairs, also while others are being written."""
        for version in self.versions(f"world/{RELATED_VERSIONS_TABLE}"):
            pairs = DeltaTable(str(self.folder / "world" / RELATED_TABLE)).to_pyarrow_table(
                filters=[("version", "=", version)], columns=[REFERENCE, ENTITY]
            )
            found = list(zip(*(column.to_pylist() for column in pairs.columns), strict=True))
            assert sorted(found) == meeting(TABLES[version])

    def assert_redis(self) -> None:
        client = connect(self.url)
        facts = generation_store.current_generation(client)
        assert facts is not None or not self.seen.get("served")
        if facts is not None:
            assert facts.state is GenerationState.COMPLETE
            pairs = pairs_in_redis(client, facts.generation)
            assert pairs in [pairs_of(self.rows[facts.version, batch]) for batch in WANTED]
            self.seen["served"] = True
        client.close()

    def prepare(self, *, forget_related: bool) -> None:
        """As if the time of a dead push were over; and perhaps as an import leaves the world."""
        client = connect(self.url)
        client.delete(push_lock_key())
        client.close()
        if forget_related:
            for table in DERIVED_TABLES:
                shutil.rmtree(self.folder / "world" / table, ignore_errors=True)


def pairs_of(rows: list[Row]) -> set[tuple[int, int]]:
    return {(peid, sub_id) for sub_id, peid, _ in rows}


def meeting(table: EntityTable) -> list[tuple[int, int]]:
    """All pairs that share a point, in both directions, by brute force."""
    entities = entities_of(table)
    return sorted(
        (one.peid, other.peid)
        for one in entities
        for other in entities
        if one.peid != other.peid and shapely.intersects(one.geometry, other.geometry)
    )


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    wanted = {batch: [read_neighborhood(each) for each in texts] for batch, texts in WANTED.items()}
    for batch, neighborhoods in wanted.items():
        lines = [
            f'{{"subId": {number}, "descriptor": {each.to_json()}}}\n'
            for number, each in enumerate(neighborhoods, start=1)
        ]
        (tmp_path / f"{batch}.jsonl").write_text("".join(lines))
    rows = {(version, batch): exact_rows(TABLES[version], wanted[batch]) for version, batch in RUNS}
    assert len({str(each) for each in rows.values()}) == len(RUNS), "states must differ"
    for table in TABLES.values():
        write_world(tmp_path / "world", table)
    with running_redis(tmp_path / "redis") as server:
        yield Lake(tmp_path, server.url, rows)


def arguments(lake: Lake, version: int, batch: str) -> list[str]:
    own = lake.folder
    words = [
        *("--world", own / "world", "--version", version, "--out", own / "out"),
        *("--subscriptions", own / f"{batch}.jsonl", "--redis", lake.url),
    ]
    return [str(word) for word in words]


def wait_for_words(process: subprocess.Popen[bytes], log: Path, words: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while words not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.01)


def test_killed_at_random_moments(
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
    program: Callable[[str], Path],
    request: pytest.FixtureRequest,
) -> None:
    program("java")
    log = lake.folder / "log"
    job = [*words_of(NO_PAGES), JOB]
    with submitted([*job, *arguments(lake, 1, "a")], log) as process:
        wait_for_words(process, log, BEGUN)
        began = time.monotonic()
        wait_for_words(process, log, SERVING)
        span = time.monotonic() - began
    lake.assert_one_state()
    dice = random.Random(4)  # noqa: S311 - no secret, and the same moments each time
    in_push = before_push = 0
    for kill in range(KILLS):
        lake.prepare(forget_related=kill % 2 == 0)
        with submitted([*job, *arguments(lake, *RUNS[kill % len(RUNS)])], log) as process:
            wait_for_words(process, log, BEGUN)
            if kill == KILLS - 1:
                wait_for_words(process, log, PUSHING)
            else:  # each in another part of a run: pairs, levels, tables, push
                time.sleep(span * (kill + dice.random()) / KILLS)
            assert process.poll() is None, log.read_text()
        before_push += PUSHING not in log.read_text()
        with contextlib.closing(connect(lake.url)) as client:
            in_push += is_held(client)
        lake.assert_one_state()
    assert in_push, "no kill fell into a push"
    assert before_push, "all kills fell into a push"
    # Started here: beside the kills it would only be in the way.
    _assert_next_run_succeeds(request.getfixturevalue("spark"), lake, monkeypatch)


def _assert_next_run_succeeds(spark: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the session of the tests; a second reader is Spark itself."""
    quick_push = partial(push_generation, retention=Retention(grace_seconds=0.2))
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    monkeypatch.setattr(bulk_job, "push_generation", quick_push)
    lake.prepare(forget_related=False)
    assert resolve_neighborhoods.main(arguments(lake, 2, "b")) == 0
    lake.assert_one_state()
    expected = lake.rows[2, "b"]
    assert bulk_rows(lake.folder / "out", 2) == expected
    read = spark.read.format("delta").load(str(lake.folder / "out" / MEMBERSHIPS_TABLE))
    rows = read.where("version = 2").select("subId", "peid", "stageNo").collect()
    assert sorted(map(tuple, rows)) == expected
    with contextlib.closing(connect(lake.url)) as client:
        assert numbers_of_generations(client) == {generation_store.current_number(client)}
