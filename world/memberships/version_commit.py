"""Commits that replace the rows of one world version in a Delta table.

Each commit carries the id of its run. Delta itself lets two runs that write a version for the
first time both add their rows. So the files of the version are compared with those that were
there when the run began, and a commit is never moved behind one that it has not seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from schemas.errors import RunBusyError
from schemas.membership import VERSION

# In the commit information of Delta's log.
RUN_KEY: Final = "spapsRun"
# Others may write other versions at the same time: each of their commits costs one attempt.
ATTEMPTS: Final = 15

# Commits once, and returns whether there was anything to commit.
Commit: TypeAlias = Callable[[DeltaTable, CommitProperties], bool]


def version_files(table: DeltaTable, version: int) -> frozenset[str]:
    """Return the paths of the files that a state of the table has of a world version."""
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
    """Let ``commit`` replace a version, and return the number of that commit.

    ``before`` are the files that the version had when the run began; None: when it commits.
    RunBusyError: another run has replaced the version since then, and nothing was committed.
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
            # Without retries it is the next commit, or none.
            return opened + 1 if commit(table, properties) else opened
        except CommitFailedError:
            continue  # somebody else has committed since the table was opened
    raise RunBusyError(f"{_path(table)}: other runs write to it all the time; start it again")


def replacement(
    version: int, actions: Sequence[AddAction], schema: pa.Schema, partition_by: list[str]
) -> Commit:
    """Return the commit that makes these files all that the table has of a version."""

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
        return False  # the state that was opened is the one to read

    return commit


def _path(table: DeltaTable) -> str:
    return table.table_uri.removeprefix("file://").rstrip("/")


def _last_writer(table: DeltaTable) -> str:
    runs = [entry[RUN_KEY] for entry in table.history(ATTEMPTS) if entry.get(RUN_KEY)]
    return f"run {runs[0]}" if runs else "another run"


def statistics_of(footer: pq.FileMetaData) -> str:
    """Return what Delta's log keeps about a Parquet file, so that readers can leave it out.

    These are the rows, and the least and largest number of each column of numbers.
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
        bounded = [one for one in found if one.has_min_max and type(one.min) is int]
        if bounded and len(bounded) == len(found):
            content["minValues"][name] = min(one.min for one in bounded)
            content["maxValues"][name] = max(one.max for one in bounded)
    return json.dumps(content, separators=(",", ":"))
