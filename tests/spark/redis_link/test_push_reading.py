"""Which rows of Delta a push reads, and how."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from delta.tables import DeltaTable

from jobs.pipeline import spark_push
from jobs.pipeline.memberships.memberships_table import CommitChoice, open_memberships
from jobs.pipeline.spark_push import push_generation
from redis_link.connection.client import RedisClient
from redis_link.generation import generation_store
from schemas.errors import GenerationError, WorldError
from schemas.membership import MEMBERSHIPS_TABLE
from schemas.redis_keys import membership_key
from tests.scenes.pushed_lake import AT_ONCE, SCHEMA, pairs_in_delta, push
from tests.servers.redis_content import numbers_of_generations, pairs_in_redis
from tests.servers.redis_server import RedisServer
from world.lake.lake_tables import LakeTable
from world.memberships.membership_parts import read_parts
from world.memberships.run_commits import RunMark, append_run

pytestmark = pytest.mark.spark


def commits_of_runs(folder: Path, *runs: str) -> list[int]:
    """Write world version 5 once for each run, the run's place as its only subId."""
    table = LakeTable((folder / MEMBERSHIPS_TABLE).as_uri(), on_disk=True)
    columns = pa.schema([("subId", pa.int64()), ("peid", pa.int64()), ("stageNo", pa.int32())])
    commits = []
    for number, run in enumerate(runs):
        batch = pa.record_batch([[number], [1], pa.array([1], pa.int32())], columns)
        files = table.write(5, None, iter([batch]), columns)
        schema = columns.insert(0, pa.field("version", pa.int64()))
        commits.append(table.replace_version(5, files, schema, ["version"], run=run))
    return commits


def test_the_run_that_is_wanted_is_read_and_no_other(
    spark: Any, server: RedisServer, client: RedisClient, tmp_path: Path
) -> None:
    """Of three runs the last was killed before it was complete; the newest state is its."""
    commits = commits_of_runs(tmp_path, "a", "b", "killed")
    for run, commit in zip("ab", commits, strict=False):
        append_run(str(tmp_path), RunMark(5, run, commit, 1))

    def read(wanted: CommitChoice) -> tuple[int, str, set[int]]:
        opened = open_memberships(spark, str(tmp_path), wanted)
        assert opened.plain is not None
        found = read_parts(opened.plain.table, opened.plain.parts(5))
        return opened.state, opened.run, {int(each) for _, sub_ids in found for each in sub_ids}

    assert (
        read(CommitChoice())
        == read(CommitChoice(5))
        == read(CommitChoice(run="b"))
        == (commits[1], "b", {1})
    )
    assert (
        read(CommitChoice(5, run="a"))
        == read(CommitChoice(commit=commits[0]))
        == (commits[0], "a", {0})
    )
    assert read(CommitChoice(commit=commits[2])) == (commits[2], "", {2})
    with pytest.raises(WorldError, match=r"has no complete run killed; it has a .*, b "):
        read(CommitChoice(run="killed"))
    with pytest.raises(WorldError, match="has no commit 99, or its log does not have it any more"):
        read(CommitChoice(commit=99))
    generation = push(spark, tmp_path, None, server.url)
    facts = generation_store.current_generation(client)
    assert facts is not None
    assert (facts.generation, facts.run, facts.commit) == (generation, "b", commits[1])
    assert pairs_in_redis(client, generation) == {(1, 1)}


@pytest.mark.parametrize("row", ["null, 1", "1, null", "-1, 1", "1, -1"])
def test_rows_that_are_no_pairs_are_refused(
    row: str, spark: Any, server: RedisServer, client: RedisClient, tmp_path: Path
) -> None:
    numbers = [None if text == "null" else int(text) for text in row.split(", ")]
    rows = [(*numbers, 1, 3), (4, 4, 1, 3)]
    frame = spark.createDataFrame(rows, SCHEMA)
    frame.write.format("delta").partitionBy("version").save(str(tmp_path / "m"))
    with pytest.raises(GenerationError, match=r"^the push failed: 1 rows of memberships lack"):
        push(spark, tmp_path / "m", 3, server.url)
    assert numbers_of_generations(client) == set()


def test_a_popular_entity_and_rows_that_stand_in_several_files(
    spark: Any, server: RedisServer, client: RedisClient, tmp_path: Path
) -> None:
    """One entity has 100,000 subscriptions; every row comes twice, in different files."""
    table = str(tmp_path / MEMBERSHIPS_TABLE)
    rows = spark.range(100_000).selectExpr(
        "id AS subId", "IF(id % 50 < 40, 7, id * 1000003) AS peid", "1 AS stageNo", "3L AS version"
    )
    popular = spark.range(100_000).selectExpr("id", "7L", "2", "3L")
    for frame in (rows, rows.unionAll(popular)):
        frame.repartition(2).write.format("delta").mode("append").partitionBy("version").save(table)
    generation = push(spark, tmp_path, 3, server.url)
    assert client.scard(membership_key(generation, 7)) == 100_000
    assert pairs_in_redis(client, generation) == pairs_in_delta(spark, tmp_path, 3)


UNUSUAL = {
    "deletion vectors": ("delta.enableDeletionVectors", "true"),
    "renamed columns": ("delta.columnMapping.mode", "name"),
}


@pytest.mark.parametrize("case", UNUSUAL)
def test_a_table_whose_files_are_not_its_rows_is_read_by_spark(
    case: str, spark: Any, server: RedisServer, client: RedisClient, tmp_path: Path
) -> None:
    table = tmp_path / MEMBERSHIPS_TABLE
    setting, value = UNUSUAL[case]
    spark.sql(
        f"CREATE TABLE delta.`{table}` (peid LONG, subId LONG, stageNo INT, version LONG) "
        f"USING delta PARTITIONED BY (version) TBLPROPERTIES ('{setting}' = '{value}')"
    )
    frame = spark.range(1_000).selectExpr(
        "id % 9 AS peid", "id AS subId", "1 stageNo", "4L version"
    )
    frame.coalesce(1).write.format("delta").mode("append").save(str(table))
    # As somebody else's session does it: Delta marks deleted rows in adaptive plans only.
    theirs = spark.newSession()
    theirs.conf.set("spark.sql.adaptive.enabled", "true")
    DeltaTable.forPath(theirs, str(table)).delete("subId < 100")
    assert open_memberships(spark, str(table), CommitChoice(4)).plain is None
    before = spark.conf.get(spark_push.BATCH_SETTING)
    generation = push(spark, tmp_path, 4, server.url)
    assert spark.conf.get(spark_push.BATCH_SETTING) == before
    assert pairs_in_redis(client, generation) == pairs_in_delta(spark, tmp_path, 4)
    assert len(pairs_in_redis(client, generation)) == 900


def test_files_that_a_task_cannot_open_are_read_by_spark(
    spark: Any, lake: Path, server: RedisServer, client: RedisClient, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """As on a store that the driver has the keys of and the executors do not."""
    opened = open_memberships(spark, str(lake), CommitChoice(2))
    assert opened.plain is not None
    table = replace(opened.plain.table, uri=tmp_path.as_uri())
    elsewhere = replace(opened, plain=replace(opened.plain, table=table))
    monkeypatch.setattr(spark_push, "open_memberships", lambda *_: elsewhere)
    said: list[str] = []
    report = push_generation(spark, str(lake), 2, server.url, retention=AT_ONCE, say=said.append)
    assert pairs_in_redis(client, report.generation) == pairs_in_delta(spark, lake, 2)
    assert any("cannot be read" in line and "Spark reads the table" in line for line in said)


def test_files_with_other_rows_than_the_log_says_are_refused(
    spark: Any,
    lake: Path,
    server: RedisServer,
    client: RedisClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = open_memberships(spark, str(lake), CommitChoice(2))
    assert opened.plain is not None
    rows = sum(part.rows for part in opened.plain.parts(2))
    first, *others = opened.plain.files[2]
    files = {2: (replace(first, rows=10**6 - 1), *others)}
    wrong = replace(opened, plain=replace(opened.plain, files=files))
    monkeypatch.setattr(spark_push, "open_memberships", lambda *_: wrong)
    with pytest.raises(GenerationError, match=rf"received {rows:,} rows instead of the 1,0"):
        push(spark, lake, 2, server.url)
    assert numbers_of_generations(client) == set()


@pytest.mark.parametrize("statistics", [True, False])
def test_rows_are_counted_by_the_log_or_by_the_files(
    statistics: bool, spark: Any, tmp_path: Path
) -> None:
    setting = "spark.databricks.delta.stats.collect"
    before = spark.conf.get(setting, "true")
    spark.conf.set(setting, str(statistics).lower())
    try:
        rows = spark.range(100).selectExpr("id AS subId", "id AS peid", "1 stageNo", "3L version")
        frame = rows.repartition(3).write.format("delta").partitionBy("version")
        frame.save(str(tmp_path / MEMBERSHIPS_TABLE))
    finally:
        spark.conf.set(setting, before)
    plain = open_memberships(spark, str(tmp_path), CommitChoice(3)).plain
    assert plain is not None
    assert [file.rows is not None for file in plain.files[3]] == [statistics] * 3
    parts = plain.parts(3)
    assert sum(part.rows for part in parts) == 100
    # As a disk is read, and as an object store is, by the deltalake package.
    for on_disk in (True, False):
        table = replace(plain.table, on_disk=on_disk)
        found = [peid for peids, _ in read_parts(table, parts) for peid in peids.tolist()]
        assert sorted(found) == list(range(100))
        assert replace(plain, table=table).parts(3) == parts
