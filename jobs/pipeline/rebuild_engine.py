"""Rebuilds a large world on Spark: import, comparison of versions, resolution and push.

The module is imported only if Spark is the engine, because a small world needs no Java. The driver
gets counts; of the subscriptions it gets those whose members are different, as arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.pipeline.bulk_run import resolve_batch
from jobs.pipeline.engine_choice import import_sources
from jobs.pipeline.memberships.change_feed import rows_of
from jobs.pipeline.memberships.memberships_table import CommitChoice
from jobs.pipeline.memberships.problem_rows import UNRESOLVED
from jobs.pipeline.session import spark_session
from jobs.pipeline.spark_messages import described, spark_errors_as
from jobs.pipeline.spark_push import push_generation
from jobs.pipeline.subscriptions.snapshot import open_registered
from jobs.pipeline.table_places import lake_table
from jobs.pipeline.world_tables import change_counts, open_world
from rebuild.bulk_engine import BulkResult
from redis_link.generation.generation_push import PushReport, PushSource
from redis_link.generation.generation_store import SubscriptionChanges
from redis_link.generation.quality_gate import QualityGate
from redis_link.generation.sweep import Retention
from redis_link.sets.pair_arrays import Int64s
from schemas.errors import WorldError
from schemas.generation import GenerationFacts
from schemas.membership import PEID, RUNS_TABLE, SUB_ID, VERSION
from world.imports.world_import import ImportReport
from world.lake.bulk_tables import KIND, PROBLEMS_TABLE
from world.lake.lake_tables import lake_errors
from world.memberships.membership_table import memberships_path
from world.memberships.run_commits import RunMark, chosen_run, read_marks
from world.versions.delta_tables import delta_rows

SOURCE: Final = "registered subscriptions"


class SparkRebuild:
    """Does the steps of a rebuild in the active session, or in a session of its own."""

    def __init__(self, world: str, out: str, say: Callable[[str], None]) -> None:
        self._world = world
        self._out = out
        self._say = say
        self._own: SparkSession | None = None

    def close(self) -> None:
        """Stop the session, if one was started here."""
        if self._own is not None:
            self._own.stop()
            self._own = None

    def import_version(self, sources: Sequence[str], options: Mapping[str, Any]) -> ImportReport:
        """Import the sources as one more version; what Spark cannot read, one process imports."""
        given = dict(options)
        strict = bool(given.pop("strict", False))
        return import_sources(
            sources, self._world, given, strict=strict, force=False, session=self._session
        )

    def change_counts(self, old: int, new: int) -> dict[str, int]:
        """Return how many entities are different in two versions, by kind of change."""
        with spark_errors_as(WorldError, "Spark failed"):
            spark = self._session()
            versions = [open_world(spark, self._world, number) for number in (old, new)]
            return change_counts(*versions)

    def resolve_all(
        self, version: int, redis_url: str, run: str, *, incremental: bool
    ) -> BulkResult:
        """Write the memberships of all registered subscriptions, which tasks read, into Delta.

        ``incremental``: sets that the change since an earlier version cannot reach are taken over.
        """
        with spark_errors_as(WorldError, "Spark failed"):
            subscriptions, coverage = open_registered(redis_url)
            facts = resolve_batch(
                self._session(), self._world, version, subscriptions, SOURCE, self._out, self._say,
                run=run, incremental=incremental,
            )  # fmt: skip
        for line in facts.lines():
            self._say(line)
        return BulkResult(
            facts.rows, facts.commit, facts.subscriptions, facts.descriptors,
            facts.problems.unresolved_count, coverage, facts.taken_over.descriptors,
            facts.taken_over.base,
        )  # fmt: skip

    def changed_subscriptions(
        self, old: GenerationFacts, version: int, commit: int
    ) -> SubscriptionChanges:
        """Return what is different for each subscription that a generation had.

        Subscriptions without a result are listed too.
        """
        with spark_errors_as(WorldError, "Spark failed"):
            # Of another output folder the commit would be one of another table.
            runs = lake_table(self._session(), f"{self._out.rstrip('/')}/{RUNS_TABLE}")
            before = chosen_run(read_marks(runs.opened()), runs.uri, old.version, old.run)
            now = RunMark(version, "", commit, 0)
            sub_ids, gained, lost = self._differences(before, now, old.coverage.up_to)
        lacking = self._unresolved(version, old.coverage.up_to)
        every = np.union1d(sub_ids, lacking)
        places = np.searchsorted(every, sub_ids)
        counts = np.zeros((2, len(every)), np.int64)
        counts[0, places], counts[1, places] = gained, lost
        return SubscriptionChanges(every, counts[0], counts[1], np.isin(every, lacking))

    def push(
        self,
        source: PushSource,
        redis_url: str,
        retention: Retention,
        before_switch: Callable[[int], None],
        gate: QualityGate | None = None,
    ) -> PushReport:
        """Push all memberships of the version into Redis; executors write them."""
        with spark_errors_as(WorldError, "Spark failed"):
            return push_generation(
                self._session(), memberships_path(self._out),
                CommitChoice(source.version, source.run or None), redis_url,
                coverage=source.coverage, world=source.world, retention=retention, say=self._say,
                before_switch=before_switch, gate=gate,
            )  # fmt: skip

    def _differences(self, old: RunMark, new: RunMark, up_to: int) -> tuple[Int64s, Int64s, Int64s]:
        """Return the subscriptions whose entities are different, with their gains and losses.

        An entity in several stages of a neighborhood counts once.
        """
        spark, table = self._session(), memberships_path(self._out)

        def pairs(mark: RunMark, side: int) -> DataFrame:
            rows = rows_of(spark, table, mark).where(F.col(SUB_ID) <= up_to)
            return rows.select(SUB_ID, PEID).distinct().withColumn("side", F.lit(side))

        both = pairs(old, -1).unionByName(pairs(new, 1))
        sums = both.groupBy(SUB_ID, PEID).agg(F.sum("side").alias("side"))
        counts = (
            sums.where(F.col("side") != 0)
            .groupBy(SUB_ID)
            .agg(F.count_if(F.col("side") > 0), F.count_if(F.col("side") < 0))
            .orderBy(SUB_ID)
        )
        with described(spark, "compare memberships"):
            found = counts.toArrow()
        sub_ids, gains, losses = (column.to_numpy() for column in found.columns)
        return sub_ids, gains, losses

    def _unresolved(self, version: int, up_to: int) -> Int64s:
        """Return the subscriptions without a result on the version, by the table of problems."""
        table = lake_table(self._session(), f"{self._out.rstrip('/')}/{PROBLEMS_TABLE}")
        with lake_errors(table.uri):
            opened = table.opened()
            if opened is None:
                return np.empty(0, np.int64)
            wanted = (ds.field(VERSION) == version) & (ds.field(SUB_ID) <= up_to)
            rows = delta_rows(opened, [SUB_ID, KIND], wanted)
        without = rows.filter(pc.is_in(rows.column(KIND), pa.array(UNRESOLVED, pa.string())))
        return np.unique(without.column(SUB_ID).to_numpy())

    def _session(self) -> SparkSession:
        if self._own is None:
            there = SparkSession.getActiveSession()
            if there is not None:
                return there
            self._own = spark_session("spaps-rebuild")
        return self._own
