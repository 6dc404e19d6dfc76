"""What a run did: a row of the table ``runs``, and the lines that a person reads at the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses
from pyspark.storagelevel import StorageLevel

from jobs.delta_tables import append_row, is_table, replace_version
from jobs.level_loop import LevelReport
from jobs.problem_rows import KIND, PROBLEM_FIELDS, UNRESOLVED
from jobs.subscription_lines import WHERE
from schemas.membership import RUNS_TABLE, SUB_ID, VERSION

PROBLEMS_TABLE: Final = "problems"
_LISTED_TYPE: Final = "array<struct<kind:string,where:string,subId:bigint,reason:string>>"
_LEVEL_TYPE: Final = "array<struct<level:int,nodes:bigint,members:bigint,seconds:double>>"
_RUN_TYPES: Final = (
    "version bigint, startedAt timestamp, finishedAt timestamp, world string, source string, "
    "subscriptions bigint, resolved bigint, unresolvedCount bigint, remarkCount bigint, "
    "descriptors bigint, nodes bigint, rows bigint, related string, "
    f"levels {_LEVEL_TYPE}, seconds map<string:double>, "
    f"unresolved {_LISTED_TYPE}, remarks {_LISTED_TYPE}"
).replace("map<string:double>", "map<string,double>")
_PROBLEM_TYPES: Final = "kind string, where string, subId bigint, reason string"
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


def write_problems(folder: str, version: int, rows: DataFrame) -> Problems:
    """Replace the problems of the version, and give back what a summary needs of them."""
    path = f"{folder}/{PROBLEMS_TABLE}"
    kept = rows.select(F.lit(version).cast("bigint").alias(VERSION), *PROBLEM_FIELDS)
    kept.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        replace_version(kept.coalesce(1), path, version)
        counts = {row[KIND]: row["count"] for row in kept.groupBy(KIND).count().collect()}
        unresolved = F.col(KIND).isin(*UNRESOLVED)
        first = [
            row
            for chosen in (unresolved, ~unresolved)
            for row in kept.where(chosen)
            .orderBy(KIND, SUB_ID, WHERE)
            .limit(LISTED_IN_RUN)
            .collect()
        ]
    finally:
        kept.unpersist()
    return Problems(counts, tuple(first))


def no_problems(spark: SparkSession, folder: str, version: int) -> Problems:
    """See that the table says nothing of this version; it is written only if it has to be."""
    path = f"{folder}/{PROBLEMS_TABLE}"
    if is_table(spark, path):
        known = spark.read.format("delta").load(path).where(F.col(VERSION) == version)
        if known.isEmpty():
            return Problems({}, ())
    return write_problems(folder, version, spark.createDataFrame([], _PROBLEM_TYPES))


def write_run(spark: SparkSession, folder: str, facts: RunFacts) -> None:
    """Add the row of a run that is complete."""
    path = f"{folder}/{RUNS_TABLE}"
    problems = facts.problems

    def listed(rows: list[Row]) -> list[tuple[object, ...]]:
        return [tuple(row[name] for name in PROBLEM_FIELDS) for row in rows]

    row = (
        facts.version,
        facts.started_at,
        datetime.now(UTC),
        facts.world,
        facts.source,
        facts.subscriptions,
        facts.resolved,
        problems.unresolved_count,
        problems.remark_count,
        facts.descriptors,
        facts.nodes,
        facts.rows,
        facts.related,
        [(level.level, level.nodes, level.members, level.seconds) for level in facts.levels],
        facts.seconds,
        listed(problems.unresolved()),
        listed(problems.remarks()),
    )
    append_row(spark.createDataFrame([row], _RUN_TYPES), path)
