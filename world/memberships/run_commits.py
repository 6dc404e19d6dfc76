"""Commits of runs: each replaces the rows of one world version, and the table ``runs`` lists them.

Each commit carries the id of its run. Delta alone would let two runs that write a version for the
first time both add their rows. So the files of the version are compared with those that it had when
the run began, and a commit is never retried on top of a commit that it has not checked.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Field, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction

from schemas.errors import RunBusyError, WorldError
from schemas.membership import COMMIT, FINISHED_AT, GENERATION, RUN_ID, RUNS_TABLE, VERSION
from world.versions.delta_tables import delta_rows, open_table, table_errors
from world.versions.removal import compact_small_files

# Key in the commit information of Delta's log.
RUN_KEY: Final = "spapsRun"
# Other runs may write other versions at the same time: each of their commits costs one attempt.
ATTEMPTS: Final = 15

ROWS: Final = "rows"
TIME: Final = pa.timestamp("us", tz="UTC")
_SCHEMA: Final = pa.schema(
    {
        VERSION: pa.int64(), FINISHED_AT: TIME, ROWS: pa.int64(),
        RUN_ID: pa.string(), COMMIT: pa.int64(),
    }
)  # fmt: skip
_WRITTEN: Final = _SCHEMA.append(pa.field(GENERATION, pa.int64()))
SHOWN: Final = 5
# Of a text in the statistics, as Spark's Delta does it.
_LONGEST_BOUND: Final = 32
_LAST_CHARACTER: Final = "\U0010ffff"

# Tries one commit, and returns whether there was anything to commit.
Commit: TypeAlias = Callable[[DeltaTable, CommitProperties], bool]


def version_files(table: DeltaTable, version: int) -> frozenset[str]:
    """Return the paths of the files of a world version in this state of the table."""
    actions = pa.table(table.get_add_actions(flatten=True))
    if not actions.num_rows:
        return frozenset()
    paths = actions.column("path").to_pylist()
    owners = actions.column(f"partition.{VERSION}").to_pylist()
    found = zip(paths, owners, strict=True)
    return frozenset(path for path, of in found if of is not None and int(of) == version)


def commit_version(
    open_table: Callable[[], DeltaTable],
    version: int,
    commit: Commit,
    *,
    run: str = "",
    before: frozenset[str] | None = None,
) -> int:
    """Replace a version by ``commit``, and return the number of that commit.

    ``before`` are the files that the version had when the run began; None means those it has now.
    RunBusyError means that another run has replaced the version since, and nothing was committed.
    """
    metadata = {RUN_KEY: run} if run else None
    properties = CommitProperties(custom_metadata=metadata, max_commit_retries=0)
    for _ in range(ATTEMPTS):
        table = open_table()
        now = version_files(table, version)
        before = now if before is None else before
        if now != before:
            raise RunBusyError(
                f"{_path(table)}: {_last_writer(table)} wrote world version {version} while this "
                "run resolved it, and nothing of this run was written; start it again"
            )
        opened = table.version()
        try:
            # Without retries, it is the next commit or it fails.
            return opened + 1 if commit(table, properties) else opened
        except CommitFailedError:
            continue  # another run has committed since the table was opened
    raise RunBusyError(f"{_path(table)}: other runs keep committing to it; start this run again")


def replacement(
    version: int, actions: Sequence[AddAction], schema: pa.Schema, partition_by: list[str]
) -> Commit:
    """Return the commit that replaces all files of a version by the added ones."""

    def commit(table: DeltaTable, properties: CommitProperties) -> bool:
        if actions:
            filters = [(VERSION, "=", str(version))]
            table.create_write_transaction(
                [*actions], "overwrite", schema, partition_by, filters,
                commit_properties=properties,
            )  # fmt: skip
            return True
        if version_files(table, version):
            table.delete(f"{VERSION} = {version}", commit_properties=properties)
            return True
        return False  # nothing to change: the opened state is the result

    return commit


def _path(table: DeltaTable) -> str:
    return table.table_uri.removeprefix("file://").rstrip("/")


def _last_writer(table: DeltaTable) -> str:
    runs = [entry[RUN_KEY] for entry in table.history(ATTEMPTS) if entry.get(RUN_KEY)]
    return f"run {runs[0]}" if runs else "another run"


def statistics_of(footer: pq.FileMetaData) -> str:
    """Return a Parquet file's statistics for Delta's log, by which readers skip files.

    They are the number of rows, and for each column of integers or texts its nulls, minimum and
    maximum. Without the latter two, deltalake finds no row by a filter on a column whose nulls are
    given.
    """
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    content: dict[str, Any] = {
        "numRecords": footer.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {},
    }  # fmt: skip
    for place in range(footer.num_columns):
        found = [group.column(place).statistics for group in groups if group.num_rows]
        name = footer.schema.column(place).path
        if "." in name or not found or any(one is None for one in found):
            continue
        content["nullCount"][name] = sum(one.null_count or 0 for one in found)
        bounded = [one for one in found if one.has_min_max and type(one.min) in (int, str)]
        if bounded and len(bounded) == len(found):
            content["minValues"][name] = _low(min(one.min for one in bounded))
            content["maxValues"][name] = _high(max(one.max for one in bounded))
    return json.dumps(content, separators=(",", ":"))


def _low(value: int | str) -> int | str:
    return value[:_LONGEST_BOUND] if isinstance(value, str) else value


def _high(value: int | str) -> int | str:
    """Return the value, or for a long text a shorter one that is not below it."""
    rest = value[_LONGEST_BOUND:] if isinstance(value, str) else ""
    if rest and not rest.startswith(_LAST_CHARACTER):
        return f"{str(value)[:_LONGEST_BOUND]}{_LAST_CHARACTER}"
    return value


@dataclass(frozen=True, slots=True)
class RunMark:
    """A complete run: its world version, and the commit of its memberships."""

    version: int
    run: str
    commit: int
    rows: int


def new_run_id() -> str:
    """Return a unique run id; later ids sort after earlier ones."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"


def append_run(out: str, mark: RunMark) -> None:
    """Add a complete run to the table ``runs`` beside its memberships."""
    path = f"{out.rstrip('/')}/{RUNS_TABLE}"
    row = {
        VERSION: mark.version, FINISHED_AT: datetime.now(UTC), ROWS: mark.rows,
        RUN_ID: mark.run, COMMIT: mark.commit, GENERATION: None,
    }  # fmt: skip
    with table_errors(path):
        write_deltalake(
            path, pa.Table.from_pylist([row], _WRITTEN), mode="append", schema_mode="merge",
            commit_properties=CommitProperties(max_commit_retries=ATTEMPTS),
        )  # fmt: skip
        compact_small_files(open_table(path))


def note_generation(runs: DeltaTable | None, run: str, generation: int) -> None:
    """Write into the row of a run which generation its push has put in force.

    A run that is not in the table, as after a push by commit, is left alone.
    """
    names = set() if runs is None else {field.name for field in runs.schema().fields}
    if runs is None or not run or RUN_ID not in names:
        return
    if GENERATION not in names:  # a table of an earlier release
        runs.alter.add_columns([Field(GENERATION, PrimitiveType("long"), nullable=True)])
    for _ in range(ATTEMPTS):
        runs.update_incremental()
        with suppress(CommitFailedError):  # another run has added its row meanwhile
            runs.update(updates={GENERATION: str(generation)}, predicate=f"{RUN_ID} = '{run}'")
            return


def read_marks(runs: DeltaTable | None) -> list[RunMark]:
    """Return the runs of a table ``runs``, oldest first; an empty list if there is no table."""
    wanted = set(_SCHEMA.names)
    if runs is None or not wanted <= {field.name for field in runs.schema().fields}:
        return []
    return marks_of(delta_rows(runs, sorted(wanted)).to_pylist())


def marks_of(rows: Iterable[Mapping[str, Any]]) -> list[RunMark]:
    """Return the runs that name their commit, oldest first; runs of earlier releases do not."""
    told = [row for row in rows if row.get(RUN_ID) and row.get(COMMIT) is not None]
    told.sort(key=lambda row: (row[FINISHED_AT], row[COMMIT]))
    return [RunMark(row[VERSION], row[RUN_ID], row[COMMIT], row.get(ROWS) or 0) for row in told]


def chosen_run(marks: list[RunMark], where: str, version: int | None, run: str) -> RunMark:
    """Return the run with that id; a WorldError lists the runs if it is missing."""
    fitting = [mark for mark in marks if mark.run == run and version in (None, mark.version)]
    if fitting:
        return fitting[-1]
    there = ", ".join(f"{mark.run} (world version {mark.version})" for mark in marks[-SHOWN:])
    of = "" if version is None else f" of world version {version}"
    raise WorldError(f"{where} has no complete run {run}{of}; it has {there or 'none'}")


def newest_run(marks: list[RunMark], version: int) -> RunMark | None:
    """Return the newest complete run of a world version; None if there is none."""
    return next((mark for mark in reversed(marks) if mark.version == version), None)
