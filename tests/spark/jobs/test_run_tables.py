"""The tables ``problems`` and ``runs``: what stands there, and that older ones are carried on."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from deltalake import DeltaTable

from jobs.pipeline.exchange import Tasks
from jobs.pipeline.memberships import run_facts
from jobs.pipeline.memberships.run_facts import (
    FoundProblems,
    Problems,
    RunFacts,
    find_problems,
    write_run,
)
from jobs.pipeline.session import parallelism_of
from jobs.pipeline.stages.batch_begin import Missing
from jobs.pipeline.stages.level_loop import LevelReport
from jobs.pipeline.subscriptions.graph_slices import Graph, to_graph
from jobs.pipeline.subscriptions.snapshot import open_subscriptions, snapshot
from jobs.pipeline.table_places import lake_table
from world.lake.scratch import Scratch, new_scratch
from world.subscriptions.jsonl_fast_path import RowPlaces

pytestmark = pytest.mark.spark

PROBLEM_TYPES = "version bigint, kind string, where string, subId bigint, reason string"
# As an earlier release wrote it, with Spark.
RUN_TYPES = (
    "version bigint, startedAt timestamp, finishedAt timestamp, world string, source string, "
    "subscriptions bigint, resolved bigint, unresolvedCount bigint, remarkCount bigint, "
    "descriptors bigint, nodes bigint, rows bigint, related string, "
    "levels array<struct<level:int,nodes:bigint,members:bigint,seconds:double>>, "
    "seconds map<string,double>, "
    "unresolved array<struct<kind:string,where:string,subId:bigint,reason:string>>, "
    "remarks array<struct<kind:string,where:string,subId:bigint,reason:string>>"
)
NEW_RUN_TYPES = (
    f"{RUN_TYPES}, runId string, commit bigint, worldCommit bigint, snapshot string, "
    "generation bigint"
)
STARTED = datetime(2024, 5, 1, 12, 30, tzinfo=UTC)


def line(number: int, refs: list[int], condition: str = "C") -> str:
    stages = f'[{{"cats":["road/#"],"cond":"{condition}"}}]'
    return f'{{"subId": {number}, "descriptor": {{"refs": {refs}, "stages": {stages}}}}}\n'


class Read(NamedTuple):
    """What tasks left of a batch, and how its problems are found."""

    tasks: Tasks
    scratch: Scratch
    graph: Graph
    places: RowPlaces

    def problems(self, out: Path, version: int, existing: list[int]) -> FoundProblems:
        missing = []
        for facts in self.graph.slices:
            parts = self.scratch.get(facts.descriptors)
            refs = np.unique(np.concatenate([part.refs for part in parts]))
            lacking = refs[~np.isin(refs, existing)]
            if len(lacking):
                missing.append(Missing(facts.number, self.scratch.put("missing", lacking)))
        table = lake_table(self.tasks.spark, str(out / "problems"))
        return find_problems(
            self.tasks, self.scratch, table, version, self.graph, self.places, missing,
            bound={},
        )  # fmt: skip


def read_lines(spark: Any, path: Path, *lines: str) -> Read:
    path.write_text("".join(lines))
    tasks = Tasks(spark, parallelism_of(spark))
    scratch = new_scratch(lake_table(spark, f"{path}-read"), "29990101")
    read = snapshot(tasks, scratch, open_subscriptions(spark, str(path)))
    return Read(tasks, scratch, to_graph(tasks, scratch, read, 2), read.places)


@pytest.fixture
def troubled(spark: Any, tmp_path: Path) -> Read:
    return read_lines(
        spark, tmp_path / "s.jsonl",
        line(9, [1]), line(4, [1]), line(3, [1, 2, 50, 51, 52, 53, 54, 55]), "{no\n",
        line(11, [60, 61]), line(2, [60, 61]), line(9, [1]), line(7, []), line(8, [1], "C AND T"),
    )  # fmt: skip


EXISTING = [1, 2]
FOUND = [
    ("no reference", "subId 2", 2, "no reference exists in world version 5: 60, 61"),
    ("no reference", "subId 11", 11, "no reference exists in world version 5: 60, 61"),
    ("unreadable", "s.jsonl line 4", None, "not JSON"),
    ("unreadable", "s.jsonl line 7", 9, "subId 9 came before"),
    ("wrong descriptor", "subId 7", 7, "refs"),
    ("always empty", "subId 8", 8, "always empty"),
    ("missing reference", "subId 3", 3, "not in world version 5: 50, 51, 52, 53, 54 …"),
]


def rows(spark: Any, folder: Path, version: int) -> list[Any]:
    table = spark.read.format("delta").load(str(folder / "problems"))
    assert table.columns == ["version", "kind", "where", "subId", "reason"]
    assert table.dtypes[0] == ("version", "bigint")
    found: list[Any] = table.where(f"version = {version}").collect()
    return found


def test_problems_are_counted_listed_and_written(
    spark: Any, tmp_path: Path, troubled: Read
) -> None:
    problems = troubled.problems(tmp_path / "out", 5, EXISTING).commit()
    assert problems.counts == {
        "no reference": 2, "unreadable": 2, "wrong descriptor": 1, "always empty": 1,
        "missing reference": 1,
    }  # fmt: skip
    assert (problems.unresolved_count, problems.remark_count) == (5, 2)
    assert len(problems.first) == len(FOUND)
    for row, (kind, where, sub_id, reason) in zip(problems.first, FOUND, strict=True):
        assert (row["kind"], row["where"], row["subId"]) == (kind, where, sub_id)
        assert reason in row["reason"]
    written = rows(spark, tmp_path / "out", 5)
    assert {tuple(row)[1:] for row in written} == {tuple(row) for row in problems.first}
    assert len(written) == len(FOUND)


def test_only_the_first_are_listed(
    spark: Any, tmp_path: Path, troubled: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_facts, "LISTED_IN_RUN", 1)
    problems = troubled.problems(tmp_path / "out", 5, EXISTING).commit()
    assert [row["where"] for row in problems.first] == ["subId 2", "subId 8"]
    assert problems.unresolved_count == 5
    assert len(rows(spark, tmp_path / "out", 5)) == len(FOUND)


def test_a_table_of_an_earlier_release_is_carried_on(
    spark: Any, tmp_path: Path, troubled: Read
) -> None:
    path = str(tmp_path / "out" / "problems")
    old = [(4, "unreadable", "line 1", None, "old"), (5, "unreadable", "line 2", 3, "old")]
    frame = spark.createDataFrame(old, PROBLEM_TYPES)
    frame.write.format("delta").partitionBy("version").save(path)
    troubled.problems(tmp_path / "out", 5, EXISTING).commit()
    assert [row["where"] for row in rows(spark, tmp_path / "out", 4)] == ["line 1"]
    assert len(rows(spark, tmp_path / "out", 5)) == len(FOUND)
    assert DeltaTable(path).version() == 1


def test_nothing_wrong_changes_only_a_table_that_says_otherwise(
    spark: Any, tmp_path: Path, troubled: Read
) -> None:
    sound = read_lines(spark, tmp_path / "sound.jsonl", line(1, [1]), line(2, [2]))
    out, path = tmp_path / "out", str(tmp_path / "out" / "problems")
    assert sound.problems(out, 5, EXISTING).commit() == Problems({}, ())
    assert rows(spark, tmp_path / "out", 5) == []
    assert DeltaTable(path).version() == 0
    sound.problems(out, 5, EXISTING).commit()
    assert DeltaTable(path).version() == 0
    troubled.problems(out, 5, EXISTING).commit()
    sound.problems(out, 6, EXISTING).commit()
    assert DeltaTable(path).version() == 1
    assert len(rows(spark, tmp_path / "out", 5)) == len(FOUND)
    sound.problems(out, 5, EXISTING).commit()
    assert DeltaTable(path).version() == 2
    assert rows(spark, tmp_path / "out", 5) == []
    # A reference that the version lacks is enough.
    assert sound.problems(out, 5, [1]).counts == {"no reference": 1}


def facts(problems: Problems) -> RunFacts:
    return RunFacts(
        version=5, started_at=STARTED, world="w", source="s", subscriptions=9, descriptors=7,
        rows=3, related="kept", levels=(LevelReport(1, 2, 3, 0.5), LevelReport(2, 4, 6, 1.5)),
        seconds={"read": 0.5, "total": 2.5}, problems=problems, run_id="r-1", commit=4,
        world_commit=7, snapshot="9 subscriptions",
    )  # fmt: skip


@pytest.mark.parametrize("is_there", [True, False])
def test_a_run_is_one_more_row(spark: Any, tmp_path: Path, troubled: Read, is_there: bool) -> None:
    path = str(tmp_path / "out" / "runs")
    if is_there:
        old: tuple[Any, ...] = (
            1, STARTED, STARTED, "w", "s", 1, 1, 0, 0, 1, 1, 1, "r", [(1, 1, 1, 0.1)],
            {"total": 1.0}, [("k", "w", None, "r")], [],
        )  # fmt: skip
        spark.createDataFrame([old], RUN_TYPES).write.format("delta").save(path)
    problems = troubled.problems(tmp_path / "out", 5, EXISTING).commit()
    write_run(spark, str(tmp_path / "out"), facts(problems))
    table = spark.read.format("delta").load(path)
    assert table.schema == spark.createDataFrame([], NEW_RUN_TYPES).schema
    assert table.count() == 1 + is_there
    [run] = table.where("version = 5").collect()
    assert (run["subscriptions"], run["resolved"], run["nodes"]) == (9, 4, 6)
    assert (run["runId"], run["commit"]) == ("r-1", 4)
    assert (run["worldCommit"], run["snapshot"]) == (7, "9 subscriptions")
    assert [tuple(level) for level in run["levels"]] == [(1, 2, 3, 0.5), (2, 4, 6, 1.5)]
    assert run["seconds"] == {"read": 0.5, "total": 2.5}
    assert [row["where"] for row in run["unresolved"]] == [found[1] for found in FOUND[:5]]
    assert [row["kind"] for row in run["remarks"]] == ["always empty", "missing reference"]
    [times] = table.where("version = 5").selectExpr(
        "startedAt = timestamp'2024-05-01T12:30:00Z' AS same", "finishedAt > startedAt AS later"
    ).collect()  # fmt: skip
    assert times["same"]
    assert times["later"]
