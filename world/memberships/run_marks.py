"""Which run wrote which commit of the memberships: the lineage part of the table ``runs``."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from schemas.errors import WorldError
from schemas.membership import COMMIT, FINISHED_AT, RUN_ID, RUNS_TABLE, VERSION
from world.versions.delta_tables import delta_rows, table_errors

ROWS: Final = "rows"
TIME: Final = pa.timestamp("us", tz="UTC")
_SCHEMA: Final = pa.schema(
    {
        VERSION: pa.int64(), FINISHED_AT: TIME, ROWS: pa.int64(),
        RUN_ID: pa.string(), COMMIT: pa.int64(),
    }
)  # fmt: skip
SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class RunMark:
    """A complete run: its world version, and the commit of the memberships that it wrote."""

    version: int
    run: str
    commit: int
    rows: int


def new_run_id() -> str:
    """Return an id that no other run has; later ones sort after earlier ones."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"


def append_run(out: str, mark: RunMark) -> None:
    """Note a run that is complete, in the table ``runs`` beside its memberships."""
    path = f"{out.rstrip('/')}/{RUNS_TABLE}"
    row = {
        VERSION: mark.version, FINISHED_AT: datetime.now(UTC), ROWS: mark.rows,
        RUN_ID: mark.run, COMMIT: mark.commit,
    }  # fmt: skip
    with table_errors(path):
        write_deltalake(
            path, pa.Table.from_pylist([row], _SCHEMA), mode="append", schema_mode="merge",
            commit_properties=CommitProperties(max_commit_retries=15),
        )  # fmt: skip


def read_marks(runs: DeltaTable | None) -> list[RunMark]:
    """Return the runs of a table ``runs``, the oldest first; none where there is no table."""
    wanted = set(_SCHEMA.names)
    if runs is None or not wanted <= {field.name for field in runs.schema().fields}:
        return []
    return marks_of(delta_rows(runs, sorted(wanted)).to_pylist())


def marks_of(rows: Iterable[Mapping[str, Any]]) -> list[RunMark]:
    """Return the runs of the table, the oldest first, as far as they say what they wrote.

    Runs of earlier releases do not.
    """
    told = [row for row in rows if row.get(RUN_ID) and row.get(COMMIT) is not None]
    told.sort(key=lambda row: (row[FINISHED_AT], row[COMMIT]))
    return [RunMark(row[VERSION], row[RUN_ID], row[COMMIT], row.get(ROWS) or 0) for row in told]


def chosen_run(marks: list[RunMark], where: str, version: int | None, run: str) -> RunMark:
    """Return the run of that id; a WorldError lists what is there when it is not."""
    fitting = [mark for mark in marks if mark.run == run and version in (None, mark.version)]
    if fitting:
        return fitting[-1]
    there = ", ".join(f"{mark.run} (world version {mark.version})" for mark in marks[-SHOWN:])
    of = "" if version is None else f" of world version {version}"
    raise WorldError(f"{where} has no complete run {run}{of}; it has {there or 'none'}")


def newest_run(marks: list[RunMark], version: int) -> RunMark | None:
    """Return the run that was the last to complete a world version."""
    return next((mark for mark in reversed(marks) if mark.version == version), None)
