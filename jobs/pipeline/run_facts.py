"""What a run did: a row of the table ``runs``, and the lines that a person reads at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Row, SparkSession

from jobs.pipeline.lake_tables import LakeTable, NewFile, lake_table
from jobs.pipeline.problem_rows import (
    KIND,
    PROBLEM_FIELDS,
    PROBLEM_SCHEMA,
    UNRESOLVED,
    WrittenProblems,
    first_rows,
    problem_task,
)
from jobs.pipeline.stages.level_loop import LevelReport
from jobs.pipeline.subscriptions.batch_reader import ReadBatch
from jobs.pipeline.subscriptions.subscription_lines import WHERE
from jobs.pipeline.subscriptions.subscription_parts import Int64s
from schemas.entity import REFERENCE
from schemas.errors import NothingResolvedError
from schemas.membership import COMMIT, FINISHED_AT, RUN_ID, RUNS_TABLE, VERSION
from world.memberships.run_commits import TIME

PROBLEMS_TABLE: Final = "problems"
_PROBLEMS_SCHEMA: Final = pa.schema([pa.field(VERSION, pa.int64()), *PROBLEM_SCHEMA])
_LISTED: Final = pa.list_(pa.struct(list(PROBLEM_SCHEMA)))
_LEVELS: Final = pa.list_(
    pa.struct(
        {"level": pa.int32(), "nodes": pa.int64(), "members": pa.int64(), "seconds": pa.float64()}
    )
)
_RUN_SCHEMA: Final = pa.schema(
    {
        VERSION: pa.int64(), "startedAt": TIME, FINISHED_AT: TIME, "world": pa.string(),
        "source": pa.string(), "subscriptions": pa.int64(), "resolved": pa.int64(),
        "unresolvedCount": pa.int64(), "remarkCount": pa.int64(), "descriptors": pa.int64(),
        "nodes": pa.int64(), "rows": pa.int64(), "related": pa.string(), "levels": _LEVELS,
        "seconds": pa.map_(pa.string(), pa.float64()), "unresolved": _LISTED, "remarks": _LISTED,
        RUN_ID: pa.string(), COMMIT: pa.int64(),
    }
)  # fmt: skip
# The table ``problems`` has all of them.
LISTED_IN_RUN: Final = 1_000
SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class Problems:
    """How many of each kind there are, and the first of them."""

    counts: dict[str, int]
    first: tuple[Row, ...]

    @property
    def unresolved_count(self) -> int:
        """Subscriptions without result."""
        return sum(count for kind, count in self.counts.items() if kind in UNRESOLVED)

    @property
    def remark_count(self) -> int:
        """What was noted about subscriptions that were resolved."""
        return sum(self.counts.values()) - self.unresolved_count

    def unresolved(self) -> list[Row]:
        """The first subscriptions without result."""
        return [row for row in self.first if row[KIND] in UNRESOLVED]

    def remarks(self) -> list[Row]:
        """The first remarks."""
        return [row for row in self.first if row[KIND] not in UNRESOLVED]


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Everything about a run; the fields of ``runs`` in their order."""

    version: int
    started_at: datetime
    world: str
    source: str
    subscriptions: int
    descriptors: int
    rows: int
    related: str
    levels: tuple[LevelReport, ...]
    seconds: dict[str, float]
    problems: Problems
    run_id: str = ""
    # Of the table of memberships: its state after this run.
    commit: int | None = None

    @property
    def resolved(self) -> int:
        """Subscriptions with a result, also an empty one."""
        return self.subscriptions - self.problems.unresolved_count

    @property
    def nodes(self) -> int:
        """Distinct sets of entities that were resolved."""
        return sum(level.nodes for level in self.levels)

    def lines(self) -> Iterator[str]:
        """The summary: problems first, the result last, where a person looks."""
        problems = self.problems
        for title, count, rows in (
            ("unresolved", problems.unresolved_count, problems.unresolved()),
            ("remark", problems.remark_count, problems.remarks()),
        ):
            for row in rows[:SHOWN]:
                yield f"{title}: {row[WHERE]}: {row['reason']}"
            if count > SHOWN:
                yield f"{title}: {count - SHOWN:,} more, all of them in the table {PROBLEMS_TABLE}"
        steps = ", ".join(
            f"{step} {seconds:.1f}" for step, seconds in self.seconds.items() if step != "total"
        )
        yield f"seconds: {steps}"
        yield (
            f"{self.resolved:,} of {self.subscriptions:,} subscriptions resolved on world version "
            f"{self.version}: {self.rows:,} rows, {self.seconds['total']:.1f} s"
        )


@dataclass(frozen=True, slots=True)
class FoundProblems(Problems):
    """The problems of a run before they are committed to the table ``problems``."""

    table: LakeTable
    version: int
    files: tuple[NewFile, ...]

    def commit(self) -> Problems:
        """Replace the problems of the version, and return what a summary needs of them.

        Where nothing is wrong, and the table says nothing else, it stays as it is.
        """
        self.table.replace_version(self.version, self.files, _PROBLEMS_SCHEMA, [VERSION])
        return Problems(self.counts, self.first)


def find_problems(
    spark: SparkSession, folder: str, version: int, read: ReadBatch, existing: Int64s
) -> FoundProblems:
    """Return the problems of the subscriptions, in files that are not committed yet.

    ``existing`` are the references of the batch that the version has, in order.
    """
    table = lake_table(spark, f"{folder}/{PROBLEMS_TABLE}")
    written: list[WrittenProblems] = []
    if read.bad_count or read.facts.remarks or _lacks_references(read, existing):
        task = problem_task(table, version, read.places, existing, LISTED_IN_RUN)
        # Few files: they are small.
        parts = read.descriptors.coalesce(spark.sparkContext.defaultParallelism)
        written = parts.mapPartitions(task).collect()
    first = [
        *first_rows([each.unresolved for each in written], LISTED_IN_RUN).to_pylist(),
        *first_rows([each.remarks for each in written], LISTED_IN_RUN).to_pylist(),
    ]
    counts: Counter[str] = sum((each.counts for each in written), Counter())
    return FoundProblems(
        dict(counts),
        tuple(Row(**row) for row in first),
        table,
        version,
        tuple(file for each in written for file in each.files),
    )


def subscription_count(read: ReadBatch, problems: Problems) -> int:
    """Return how many subscriptions were given, readable or not."""
    return read.facts.subscriptions + problems.counts.get("unreadable", 0)


def refuse_nothing(read: ReadBatch, problems: FoundProblems, folder: str) -> None:
    """Raise an error when subscriptions were given and not one of them can be resolved."""
    given = subscription_count(read, problems)
    if not given or problems.unresolved_count < given:
        return
    problems.commit()
    [first, *_] = problems.unresolved()
    raise NothingResolvedError(
        f"none of the {given:,} subscriptions could be resolved on world version "
        f"{problems.version}, and no memberships were written; such as {first[WHERE]}: "
        f"{first['reason']} (all of them: table {folder}/{PROBLEMS_TABLE})"
    )


def _lacks_references(read: ReadBatch, existing: Int64s) -> bool:
    return not np.isin(read.graph.references.column(REFERENCE).to_numpy(), existing).all()


def write_run(spark: SparkSession, folder: str, facts: RunFacts) -> None:
    """Add the row of a run that is complete."""
    problems = facts.problems

    def listed(rows: list[Row]) -> list[dict[str, object]]:
        return [{name: row[name] for name in PROBLEM_FIELDS} for row in rows]

    row = {
        VERSION: facts.version,
        "startedAt": facts.started_at,
        FINISHED_AT: datetime.now(UTC),
        "world": facts.world,
        "source": facts.source,
        "subscriptions": facts.subscriptions,
        "resolved": facts.resolved,
        "unresolvedCount": problems.unresolved_count,
        "remarkCount": problems.remark_count,
        "descriptors": facts.descriptors,
        "nodes": facts.nodes,
        "rows": facts.rows,
        "related": facts.related,
        "levels": [
            {
                "level": level.level, "nodes": level.nodes, "members": level.members,
                "seconds": level.seconds,
            }
            for level in facts.levels
        ],
        "seconds": facts.seconds,
        "unresolved": listed(problems.unresolved()),
        "remarks": listed(problems.remarks()),
        RUN_ID: facts.run_id,
        COMMIT: facts.commit,
    }  # fmt: skip
    table = lake_table(spark, f"{folder}/{RUNS_TABLE}")
    table.append_rows(pa.Table.from_pylist([row], _RUN_SCHEMA))
