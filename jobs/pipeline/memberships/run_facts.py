"""What a run did: a row of the table ``runs``, and the lines that a person reads at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa
from pyspark.sql import Row, SparkSession

from jobs.pipeline.exchange import Tasks
from jobs.pipeline.memberships.problem_rows import (
    UNRESOLVED,
    ProblemTask,
    SliceWork,
    WrittenProblems,
    first_rows,
)
from jobs.pipeline.stages.batch_begin import Missing
from jobs.pipeline.stages.level_loop import LevelReport
from jobs.pipeline.stages.unchanged_sets import TakenOver
from jobs.pipeline.subscriptions.graph_slices import Graph
from jobs.pipeline.subscriptions.named_references import BoundSlice
from jobs.pipeline.table_places import lake_table
from schemas.errors import SpapsError
from schemas.membership import (
    COMMIT,
    FINISHED_AT,
    MEMBERSHIPS_TABLE,
    RUN_ID,
    RUNS_TABLE,
    VERSION,
)
from world.lake.bulk_tables import KIND, PROBLEMS, PROBLEMS_TABLE, REASON, RUNS, WHERE, in_output
from world.lake.lake_tables import LakeTable, NewFile, lake_errors
from world.lake.scratch import Scratch
from world.memberships.run_commits import note_generation
from world.subscriptions.jsonl_fast_path import RowPlaces
from world.versions.removal import compact_small_files, remove_files

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
    # What the run read: the state of the world's table of entities, and of the subscriptions.
    world_commit: int | None = None
    snapshot: str = ""
    # What was taken over from an earlier version instead of being resolved.
    taken_over: TakenOver = TakenOver()  # noqa: RUF009 - it never changes

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
                yield f"{title}: {row[WHERE]}: {row[REASON]}"
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
        self.table.replace_version(self.version, self.files, in_output(PROBLEMS), [VERSION])
        return Problems(self.counts, self.first)


def find_problems(  # noqa: PLR0913  where everything lies
    tasks: Tasks,
    scratch: Scratch,
    table: LakeTable,
    version: int,
    graph: Graph,
    places: RowPlaces,
    missing: Sequence[Missing],
    *,
    bound: Mapping[int, BoundSlice],
) -> FoundProblems:
    """Return the problems of the subscriptions, in files that are not committed yet.

    ``missing`` are the files of references that the version does not have, ``bound`` those of
    keys, names and places.
    """
    written: list[WrittenProblems] = []
    named = {each.number: each.path for each in bound.values() if each.with_problems}
    if graph.bad or graph.remarks or missing or named:
        task = ProblemTask(scratch, table, version, places, LISTED_IN_RUN)
        lacking: dict[int, list[str]] = {}
        for each in missing:
            lacking.setdefault(each.slice, []).append(each.path)
        work = [
            SliceWork(facts.descriptors, lacking.get(facts.number, []), named.get(facts.number, ""))
            for facts in graph.slices
            if facts.bad or facts.remarks or facts.number in {*lacking, *named}
        ]
        written = tasks.run(task, work, "list problems")
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


def write_run(spark: SparkSession, folder: str, facts: RunFacts) -> None:
    """Add the row of a run that is complete."""
    problems = facts.problems

    def listed(rows: list[Row]) -> list[dict[str, object]]:
        return [{name: row[name] for name in PROBLEMS.names} for row in rows]

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
        "worldCommit": facts.world_commit,
        "snapshot": facts.snapshot,
    }  # fmt: skip
    table = lake_table(spark, f"{folder}/{RUNS_TABLE}")
    table.append_rows(pa.Table.from_pylist([row], RUNS))
    for name in (RUNS_TABLE, PROBLEMS_TABLE):
        grown = lake_table(spark, f"{folder}/{name}").opened()
        if grown is not None:
            with lake_errors(f"{folder}/{name}"):
                compact_small_files(grown)
    # Each run replaces files of its version. Who has begun to read them has a day to end.
    memberships = lake_table(spark, f"{folder}/{MEMBERSHIPS_TABLE}")
    with lake_errors(memberships.uri):
        if (written := memberships.opened()) is not None:
            remove_files(written)


def note_in_runs(
    spark: SparkSession, memberships: str, run: str, generation: int, say: Callable[[str], None]
) -> None:
    """Note in the table ``runs`` which generation a push of a run has put in force."""
    runs = lake_table(spark, f"{memberships.rpartition('/')[0]}/{RUNS_TABLE}")
    try:
        with lake_errors(runs.uri):
            note_generation(runs.opened(), run, generation)
    except SpapsError as error:  # it is in force without that too
        say(f"note: the table {RUNS_TABLE} does not name generation {generation}: {error}")
