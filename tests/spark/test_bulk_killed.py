"""SIGKILL to bulk runs, JVM and all, at random moments: readers see one complete state each time.

A JVM takes long to start and dies only once, so each kill meets several runs at once, every one
with its own lake and database. What a kill left is where the next runs begin.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import shapely
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import SparkSession
from shapely import affinity

from jobs import resolve_neighborhoods
from jobs.run_facts import PROBLEMS_TABLE
from redis_link import generation_store
from redis_link.client import connect
from redis_link.push_lock import is_held
from schemas.descriptor_json import descriptor_json
from schemas.entity import RELATED_TABLE
from schemas.generation import GenerationState
from schemas.membership import MEMBERSHIPS_TABLE, RUNS_TABLE
from schemas.reading import read_neighborhood
from schemas.redis_keys import push_lock_key
from schemas.related import ENTITY, REFERENCE, RELATED_VERSIONS_TABLE, RESOLVED_SETS_TABLE
from spatial_udfs.entity_table import EntityTable
from tests.conftest import REPOSITORY
from tests.oracle.definition import entities_of
from tests.servers.killable_resolve import READY, RUNS, lane_folder, lane_url, quick_push, run_once
from tests.servers.redis_content import numbers_of_generations, pairs_in_redis
from tests.servers.redis_server import running_redis
from tests.spark.bulk_scene import Row, bulk_rows, exact_rows, write_world
from tests.spark.submitted_job import SHORT_LIVED_JVM, kill_group
from tests.strategies.drawn_city import ENTITIES, drawn_city
from tests.strategies.worlds import table_of

pytestmark = pytest.mark.spark

LANES = 5
KILLS = 4
# About as many lines as all lanes write in one and a half turns.
LINES = 80
WAIT_SECONDS = 600

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
    """One lane as a reader sees it, and what it has seen there before."""

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
            for table in (RELATED_TABLE, RELATED_VERSIONS_TABLE, RESOLVED_SETS_TABLE):
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
def lakes(tmp_path: Path) -> Iterator[list[Lake]]:
    wanted = {batch: [read_neighborhood(each) for each in texts] for batch, texts in WANTED.items()}
    for batch, neighborhoods in wanted.items():
        lines = [
            f'{{"subId": {number}, "descriptor": {descriptor_json(each)}}}\n'
            for number, each in enumerate(neighborhoods, start=1)
        ]
        (tmp_path / f"{batch}.jsonl").write_text("".join(lines))
    rows = {(version, batch): exact_rows(TABLES[version], wanted[batch]) for version, batch in RUNS}
    assert len({str(each) for each in rows.values()}) == len(RUNS), "states must differ"
    for lane in range(LANES):
        for table in TABLES.values():
            write_world(lane_folder(tmp_path, lane) / "world", table)
    with running_redis(tmp_path / "redis") as server:
        yield [
            Lake(lane_folder(tmp_path, lane), lane_url(server.url, lane), rows)
            for lane in range(LANES)
        ]


@contextmanager
def running_resolves(folder: Path, redis_url: str, turn: int) -> Iterator[tuple[Any, Path]]:
    """The process tree, and the file that everything it says goes into."""
    log = folder / f"turn{turn}.log"
    module = "tests.servers.killable_resolve"
    with log.open("wb") as written:
        process = subprocess.Popen(
            [sys.executable, "-m", module, str(folder), redis_url, str(LANES), str(turn)],
            cwd=REPOSITORY,
            env={**os.environ, "JDK_JAVA_OPTIONS": SHORT_LIVED_JVM},
            stdout=written,
            stderr=written,
            start_new_session=True,
        )
    try:
        yield process, log
    finally:
        kill_group(process)


def wait_for_lines(process: subprocess.Popen[bytes], log: Path, count: int) -> None:
    """Until the runs have said so much: moments that do not depend on the machine's speed."""
    _wait(process, log, lambda said: len(said.splitlines()) >= count)


def wait_for_words(process: subprocess.Popen[bytes], log: Path, words: str) -> None:
    """Until some run says these words once more."""
    before = log.read_text().count(words)
    _wait(process, log, lambda said: said.count(words) > before)


def _wait(process: subprocess.Popen[bytes], log: Path, condition: Callable[[str], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition(log.read_text().partition(f"{READY}\n")[2]):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)


def test_killed_at_random_moments(
    spark: Any,
    lakes: list[Lake],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: Callable[[str], Path],
) -> None:
    program("java")
    dice = random.Random(4)  # noqa: S311 - no secret, and the same moments each time
    redis_url = lakes[0].url.rpartition("/")[0]
    in_push = 0
    for kill in range(KILLS):
        for lane, lake in enumerate(lakes):
            lake.prepare(forget_related=(lane + kill) % 2 == 0)
        with running_resolves(tmp_path, redis_url, kill) as (process, log):
            # Each kill in another part of a turn: pairs, levels, tables, push.
            wait_for_lines(process, log, int(LINES * (kill + dice.random()) / KILLS))
            if kill == KILLS - 1:
                wait_for_words(process, log, "memberships of world version")
            time.sleep(dice.uniform(0, 0.5))
            assert process.poll() is None, log.read_text()
        for lake in lakes:
            lake.assert_one_state()
            with contextlib.closing(connect(lake.url)) as client:
                in_push += is_held(client)
    assert in_push, "no kill fell into a push"
    _assert_next_run_succeeds(spark, lakes, tmp_path, redis_url, monkeypatch)


def _assert_next_run_succeeds(
    spark: Any,
    lakes: list[Lake],
    folder: Path,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the session of the tests, all lanes at once; a second reader is Spark itself."""
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    monkeypatch.setattr(resolve_neighborhoods, "push_generation", quick_push)
    codes: dict[int, int] = {}

    def run(lane: int) -> None:
        codes[lane] = run_once(folder, redis_url, lane, 2, "b")

    for lake in lakes:
        lake.prepare(forget_related=False)
    threads = [threading.Thread(target=run, args=(lane,)) for lane in range(LANES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == dict.fromkeys(range(LANES), 0)
    for lake in lakes:
        lake.assert_one_state()
        expected = lake.rows[2, "b"]
        assert bulk_rows(lake.folder / "out", 2) == expected
        read = spark.read.format("delta").load(str(lake.folder / "out" / MEMBERSHIPS_TABLE))
        rows = read.where("version = 2").select("subId", "peid", "stageNo").collect()
        assert sorted(map(tuple, rows)) == expected
        with contextlib.closing(connect(lake.url)) as client:
            assert numbers_of_generations(client) == {generation_store.current_number(client)}
