"""The change feed: all of its rows together are the memberships of its last run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from jobs.pipeline.memberships.change_feed import write_changes
from jobs.pipeline.memberships.memberships_table import CommitChoice
from schemas.errors import WorldError
from schemas.membership import CHANGES_TABLE, MEMBERSHIPS_TABLE, RUNS_TABLE
from spatial_udfs.incremental.member_rows import MemberRows
from world.memberships.membership_table import write_memberships
from world.memberships.resolved_sets import ResolvedSets
from world.memberships.run_commits import read_marks
from world.versions import removal
from world.versions.removal import compact_small_files

pytestmark = pytest.mark.spark

Rows = set[tuple[int, int, int]]


def write_run(folder: Path, version: int, run: str, rows: Rows) -> None:
    """Write memberships as a rebuild does; each subscription is a set of its own."""
    listed = sorted(rows)
    sub_ids = sorted({sub_id for sub_id, _, _ in listed})
    sets = np.array([sub_ids.index(sub_id) for sub_id, _, _ in listed], np.int32)
    members = MemberRows(
        sets,
        np.array([stage for _, _, stage in listed], np.int32),
        np.ones(len(listed), np.bool_),
        np.array([peid for _, peid, _ in listed], np.int64),
    )
    names = tuple(map(str, sub_ids))
    resolved = np.ones(len(sub_ids), np.bool_)
    numbers = np.array(sub_ids, np.int64)
    result = ResolvedSets(names, names, resolved, members, numbers, np.arange(len(sub_ids)))
    write_memberships(str(folder), version, result, run)


def feed_of(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        DeltaTable(str(folder / CHANGES_TABLE)).to_pyarrow_table().to_pylist()
    )
    return rows


def summed(feed: list[dict[str, Any]]) -> Rows:
    """What a reader of the feed from its begin has at the end."""
    counts: Counter[tuple[int, int, int]] = Counter()
    for row in feed:
        key = (row["subId"], row["peid"], row["stageNo"])
        counts[key] += 1 if row["change"] == "added" else -1
    assert set(counts.values()) <= {0, 1}
    return {key for key, count in counts.items() if count}


RUNS: tuple[tuple[int, str, Rows], ...] = (
    (1, "run-1", {(1, 10, 1), (1, 11, 2), (2, 10, 1)}),
    (1, "run-2", {(1, 10, 1), (1, 11, 2), (2, 10, 1)}),
    (2, "run-3", {(1, 10, 1), (1, 11, 1), (3, 12, 1)}),
)


def test_each_run_adds_what_it_changed(spark: Any, tmp_path: Path) -> None:
    said: list[str] = []
    for version, run, rows in RUNS:
        write_run(tmp_path, version, run, rows)
        write_changes(spark, str(tmp_path), CommitChoice(version, run), said.append)
        assert summed(feed_of(tmp_path)) == rows
    changes = {(row["change"], row["subId"], row["peid"], row["stageNo"])
               for row in feed_of(tmp_path) if row["runId"] == "run-3"}  # fmt: skip
    assert changes == {
        ("removed", 1, 11, 2), ("removed", 2, 10, 1), ("added", 1, 11, 1), ("added", 3, 12, 1),
    }  # fmt: skip
    [last] = {(row["version"], row["fromVersion"], row["fromRunId"], row["fromCommit"] is None)
              for row in feed_of(tmp_path) if row["runId"] == "run-3"}  # fmt: skip
    assert last == (2, 1, "run-1", False)
    assert said[-1] == (
        "membershipChanges: run run-3 added 2 rows and removed 2, against run run-1"
    )
    assert "added 0 rows and removed 0" in said[1]


def test_a_run_that_was_left_out_and_one_that_is_written_again(spark: Any, tmp_path: Path) -> None:
    for version, run, rows in RUNS:
        write_run(tmp_path, version, run, rows)
    for run in ("run-1", "run-3", "run-3"):
        write_changes(spark, str(tmp_path), CommitChoice(run=run), lambda _: None)
    assert summed(feed_of(tmp_path)) == RUNS[-1][2]
    assert len(feed_of(tmp_path)) == 3 + 4
    write_run(tmp_path, 2, "run-4", set())
    write_changes(spark, str(tmp_path), CommitChoice(run="run-4"), lambda _: None)
    assert summed(feed_of(tmp_path)) == set()


def test_what_cannot_be_added(spark: Any, tmp_path: Path) -> None:
    for version, run, rows in RUNS:
        write_run(tmp_path, version, run, rows)
    write_changes(spark, str(tmp_path), CommitChoice(run="run-3"), lambda _: None)
    with pytest.raises(WorldError, match="has no run before run-1; add runs in the order"):
        write_changes(spark, str(tmp_path), CommitChoice(run="run-1"), lambda _: None)
    commit = DeltaTable(str(tmp_path / MEMBERSHIPS_TABLE)).version()
    other = tmp_path / "other"
    write_deltalake(other / MEMBERSHIPS_TABLE,
                    pa.table({"subId": [1], "peid": [1], "stageNo": [1], "version": [1]}),
                    partition_by=["version"])  # fmt: skip
    with pytest.raises(WorldError, match="does not say which run wrote commit 0"):
        write_changes(spark, str(other), CommitChoice(1), lambda _: None)
    assert commit == len(RUNS)


@pytest.mark.parametrize(
    "row", ["1L, 1L, 0, 1L", "-1L, 1L, 1, 1L", "1L, -1L, 1, 1L", "null, 1L, 1, 1L"]
)
def test_rows_that_mean_nothing_are_refused_by_the_table(
    row: str, spark: Any, tmp_path: Path
) -> None:
    """Also when somebody else writes, by Spark or without it."""
    write_run(tmp_path, 1, "run-1", RUNS[0][2])
    table = tmp_path / MEMBERSHIPS_TABLE
    good = spark.sql("SELECT 5L subId, 6L peid, 1 stageNo, 1L version")
    good.write.format("delta").mode("append").save(str(table))
    sub_id, peid, stage, version = row.split(", ")
    text = f"SELECT {sub_id} subId, {peid} peid, {stage} stageNo, {version} version"
    with pytest.raises((PySparkException, Py4JJavaError), match=r"CONSTRAINT|NOT_NULL"):
        spark.sql(text).write.format("delta").mode("append").save(str(table))
    numbers = [None if each == "null" else int(each.rstrip("L")) for each in (sub_id, peid, stage)]
    arrow = pa.table(
        {
            "subId": pa.array(numbers[:1], pa.int64()), "peid": pa.array(numbers[1:2], pa.int64()),
            "stageNo": pa.array(numbers[2:], pa.int32()), "version": pa.array([1], pa.int64()),
        }
    )  # fmt: skip
    with pytest.raises(Exception, match="failed validation check"):
        write_deltalake(table, arrow, mode="append")
    assert DeltaTable(str(table)).to_pyarrow_dataset().count_rows() == len(RUNS[0][2]) + 1


def test_small_files_of_runs_are_joined(tmp_path: Path) -> None:
    for number in range(4):
        write_run(tmp_path, 1, f"run-{number}", {(1, number, 1)})
    table = DeltaTable(str(tmp_path / RUNS_TABLE))
    marks = read_marks(table)
    assert [mark.run for mark in marks] == ["run-0", "run-1", "run-2", "run-3"]
    assert not compact_small_files(table, most_files=4)
    assert compact_small_files(table, most_files=3)
    joined = DeltaTable(str(tmp_path / RUNS_TABLE))
    assert len(joined.file_uris()) == 1
    assert read_marks(joined) == marks
    before = DeltaTable(str(tmp_path / RUNS_TABLE), version=joined.version() - 1)
    assert len(before.file_uris()) == 4
    assert read_marks(before) == marks


def test_small_files_go_a_day_after_they_were_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        write_run(tmp_path, 1, f"run-{number}", {(1, number, 1)})
    folder = tmp_path / RUNS_TABLE
    monkeypatch.setattr(removal, "KEEP_FILES_HOURS", 0)
    assert compact_small_files(DeltaTable(str(folder)), most_files=3)
    assert len(list(folder.glob("*.parquet"))) == 1
    assert len(read_marks(DeltaTable(str(folder)))) == 4
