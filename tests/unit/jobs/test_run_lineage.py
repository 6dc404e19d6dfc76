"""From a run to its commit: which one it wrote, and that two runs cannot both write one version."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from schemas.errors import EXIT_BUSY, RunBusyError, WorldError, exit_code_of
from schemas.generation import GenerationFacts, GenerationState
from schemas.membership import VERSION
from spatial_udfs.incremental.member_rows import MemberRows
from world.lake.bulk_tables import PROBLEMS, in_output
from world.lake.lake_tables import LakeTable, NewFile
from world.locks import output_lock
from world.memberships.membership_table import SCHEMA, memberships_path, write_memberships
from world.memberships.resolved_sets import ResolvedSets
from world.memberships.run_commits import (
    RUN_KEY,
    RunMark,
    append_run,
    chosen_run,
    marks_of,
    new_run_id,
    newest_run,
    note_generation,
    read_marks,
    version_files,
)

FILE_SCHEMA = pa.schema([field for field in SCHEMA if field.name != VERSION])


@pytest.fixture(params=[True, False], ids=["disk", "any store"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> LakeTable:
    return LakeTable((tmp_path / "memberships").as_uri(), on_disk=request.param)


def files(table: LakeTable, sub_id: int, version: int = 1) -> list[NewFile]:
    (Path(table.uri.removeprefix("file://"))).mkdir(exist_ok=True)
    columns = {"subId": [sub_id] * 3, "peid": [1, 2, 3], "stageNo": [1, 1, 1]}
    batch = pa.RecordBatch.from_pydict(columns, schema=FILE_SCHEMA)
    return table.write(version, None, iter([batch]), FILE_SCHEMA)


def replace(table: LakeTable, sub_id: int | None, version: int = 1, **options: object) -> int:
    new = [] if sub_id is None else files(table, sub_id, version)
    return table.replace_version(version, new, SCHEMA, [VERSION], **options)  # type: ignore[arg-type]


def subscribers(table: LakeTable, commit: int | None = None, version: int = 1) -> set[int]:
    opened = table.opened(commit)
    assert opened is not None
    rows = opened.to_pyarrow_table(filters=[(VERSION, "=", version)])
    return set(rows.column("subId").to_pylist())


def test_each_commit_is_numbered_and_carries_its_run(table: LakeTable) -> None:
    numbers = [replace(table, sub_id, run=f"run-{sub_id}") for sub_id in (1, 2, 3)]
    assert [subscribers(table, number) for number in numbers] == [{1}, {2}, {3}]
    opened = table.opened()
    assert opened is not None
    told = {entry["version"]: entry.get(RUN_KEY) for entry in opened.history()}
    assert [told[number] for number in numbers] == ["run-1", "run-2", "run-3"]


def test_a_version_that_becomes_empty_has_a_commit_too(table: LakeTable) -> None:
    nothing = replace(table, None, run="nothing yet")
    assert subscribers(table, nothing) == set()
    first = replace(table, 1)
    emptied = replace(table, None, run="nothing left")
    assert emptied == first + 1
    assert (subscribers(table, first), subscribers(table, emptied)) == ({1}, set())


@pytest.mark.parametrize("first_write", [True, False])
def test_of_two_runs_at_once_the_second_is_refused(table: LakeTable, first_write: bool) -> None:
    if not first_write:
        replace(table, 9, run="earlier")
    before = table.paths(1)  # as both runs saw it when they began
    replace(table, 1, run="the-first", before=before)
    with pytest.raises(RunBusyError, match=r"run the-first wrote world version 1 while this run"):
        replace(table, 2, run="the-second", before=before)
    assert subscribers(table) == {1}


def test_a_commit_between_opening_and_committing_is_seen(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other run commits at the last moment, when the table of this one is open already."""
    replace(table, 5, version=7)
    made, others = LakeTable._made, [1]

    def open_and_lose(self: LakeTable, *arguments: object) -> DeltaTable:
        opened = made(self, *arguments)  # type: ignore[arg-type]
        if others:
            replace(self, others.pop(), run="the-first")
        return opened

    monkeypatch.setattr(LakeTable, "_made", open_and_lose)
    with pytest.raises(RunBusyError, match="run the-first wrote"):
        replace(table, 2, run="the-second")
    assert subscribers(table) == {1}


def test_a_run_on_another_version_is_no_reason_to_fail(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace(table, 5, version=7)
    made, others = LakeTable._made, [8]

    def open_and_be_overtaken(self: LakeTable, *arguments: object) -> DeltaTable:
        opened = made(self, *arguments)  # type: ignore[arg-type]
        if others:
            replace(self, 6, version=others.pop())
        return opened

    monkeypatch.setattr(LakeTable, "_made", open_and_be_overtaken)
    commit = replace(table, 2, run="mine")
    assert subscribers(table, commit) == {2}
    assert subscribers(table, commit, version=8) == {6}
    opened = table.opened(commit)
    assert opened is not None
    assert opened.history(1)[0][RUN_KEY] == "mine"


def test_a_rebuild_without_spark_leaves_the_same_marks(tmp_path: Path) -> None:
    def result(peids: list[int]) -> ResolvedSets:
        count = len(peids)
        rows = MemberRows(
            np.zeros(count, np.int32),
            np.ones(count, np.int32),
            np.ones(count, np.bool_),
            np.array(peids, np.int64),
        )
        return ResolvedSets(
            hashes=("h",), descriptors=("d",), resolved=np.array([True]), rows=rows,
            sub_ids=np.array([4]), set_of=np.array([0]), whole=True,
        )  # fmt: skip

    out = str(tmp_path / "lake")
    written = [write_memberships(out, 1, result(peids), run) for peids, run in (
        ([1, 2], "a"), ([], "b"), ([3], "c"))]  # fmt: skip
    assert [rows for rows, _ in written] == [2, 0, 1]
    marks = read_marks(DeltaTable(f"{out}/runs"))
    assert [(mark.run, mark.commit) for mark in marks] == [
        (run, commit) for run, (_, commit) in zip("abc", written, strict=True)
    ]
    for mark in marks:
        state = DeltaTable(memberships_path(out), version=mark.commit)
        assert state.to_pyarrow_table().num_rows == mark.rows
        assert len(version_files(state, 1)) == (1 if mark.rows else 0)


def test_which_run_is_read() -> None:
    rows = [
        {"version": 1, "runId": None, "commit": None, "finishedAt": 1, "rows": 1},
        {"version": 2, "runId": "b", "commit": 4, "finishedAt": 3, "rows": 5},
        {"version": 1, "runId": "a", "commit": 3, "finishedAt": 2, "rows": 5},
        {"version": 1, "runId": "c", "commit": 5, "finishedAt": 4, "rows": 5},
    ]
    marks = marks_of(rows)
    assert [mark.run for mark in marks] == ["a", "b", "c"]
    assert newest_run(marks, 1) == RunMark(1, "c", 5, 5)
    assert newest_run(marks, 3) is None
    assert chosen_run(marks, "t", None, "a").commit == 3
    with pytest.raises(WorldError, match=r"t has no complete run x; it has a \(world version 1\)"):
        chosen_run(marks, "t", None, "x")
    with pytest.raises(WorldError, match="no complete run a of world version 2"):
        chosen_run(marks, "t", 2, "a")
    assert len({new_run_id() for _ in range(100)}) == 100


def test_a_table_of_an_earlier_release_names_no_run(tmp_path: Path) -> None:
    from deltalake import write_deltalake  # noqa: PLC0415  for this test alone

    write_deltalake(str(tmp_path), pa.table({"version": [1, 2]}))
    assert read_marks(DeltaTable(str(tmp_path))) == []
    assert read_marks(None) == []


def test_facts_of_an_earlier_release_come_out_as_they_are() -> None:
    facts = GenerationFacts(3, 1, GenerationState.COMPLETE, "x", 1.0, "token")
    assert "run" not in facts.to_json()
    assert GenerationFacts.from_json(3, facts.to_json()) == facts
    marked = GenerationFacts(3, 1, GenerationState.COMPLETE, "x", 1.0, "t", run="r", commit=0)
    assert GenerationFacts.from_json(3, marked.to_json()) == marked


def test_a_run_gets_the_generation_of_its_push(tmp_path: Path) -> None:
    out = str(tmp_path / "lake")
    for number, run in enumerate("abc"):
        append_run(out, RunMark(1, run, number, 7))
    runs = DeltaTable(f"{out}/runs")
    append_run(out, RunMark(2, "d", 4, 7))  # after the table was opened
    note_generation(runs, "b", 5)
    note_generation(runs, "d", 6)
    note_generation(runs, "b", 8)  # pushed again
    note_generation(runs, "unknown", 9)
    note_generation(runs, "", 9)
    note_generation(None, "a", 9)
    table = DeltaTable(f"{out}/runs")
    rows = table.to_pyarrow_table(columns=["runId", "generation"]).to_pylist()
    told = {row["runId"]: row["generation"] for row in rows}
    assert told == {"a": None, "b": 8, "c": None, "d": 6}
    assert {mark.run for mark in read_marks(table)} == set("abcd")


def test_a_table_of_runs_without_that_column_gets_it(tmp_path: Path) -> None:
    from deltalake import write_deltalake  # noqa: PLC0415  for this test alone

    levels = [[{"level": 1, "seconds": 0.5}], []]
    rows = {"version": [1, 2], "runId": ["a", "b"], "levels": levels}
    write_deltalake(str(tmp_path), pa.table(rows))
    note_generation(DeltaTable(str(tmp_path)), "a", 3)
    found = DeltaTable(str(tmp_path)).to_pyarrow_table().sort_by("runId").to_pylist()
    assert [row["generation"] for row in found] == [3, None]
    assert [row["levels"] for row in found] == levels


def test_rows_are_found_by_their_texts(table: LakeTable) -> None:
    """Readers skip files by the statistics in the log, which must not hide what is there."""
    Path(table.uri.removeprefix("file://")).mkdir()
    texts = ["no reference", "ü" * 40, "z" * 400, ""]
    for version, text in enumerate(texts):
        rows = {"kind": [text], "where": [None], "subId": [version], "reason": [text]}
        batch = pa.RecordBatch.from_pydict(rows, schema=PROBLEMS)
        new = table.write(version, None, iter([batch]), PROBLEMS)
        table.replace_version(version, new, in_output(PROBLEMS), [VERSION])
    opened = table.opened()
    assert opened is not None
    for version, text in enumerate(texts):
        for name in ("kind", "reason"):
            found = opened.to_pyarrow_table(filters=[(name, "=", text)])
            assert found.column("subId").to_pylist() == [version]
        assert opened.to_pyarrow_table(filters=[("kind", "=", f"{text}!")]).num_rows == 0


HOLD = (
    "import sys; from world.locks import output_lock\n"
    "with output_lock(sys.argv[1], 'a bulk run'): print('held', flush=True); sys.stdin.read()"
)


def test_a_second_run_in_a_folder_says_who_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "lake"
    ran: list[str] = []

    def second() -> int:
        with output_lock(out.as_uri(), "another bulk run"):
            ran.append("second")
        return 0

    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"held\n"
        assert exit_code_of(second) == EXIT_BUSY
        said = capsys.readouterr().err
        assert said.startswith(
            f"error: another run writes into {out}: a bulk run, process {first.pid} on "
        )
        assert " since 20" in said
        first.kill()
    assert exit_code_of(second) == 0  # a killed run holds nothing
    assert ran == ["second"]


def test_an_object_store_has_no_lock() -> None:
    with output_lock("s3://bucket/lake", "one"), output_lock("s3://bucket/lake", "another"):
        pass
