"""Related pairs on their way into their tables, while the run goes on with those in memory.

Rows are written first and the row in ``relatedVersions`` last, so a killed run leaves nothing
that anybody would read.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.delta_tables import replace_version
from jobs.kept_frames import work_behind
from jobs.related_build import RelatedBuild
from jobs.world_tables import WorldVersion
from schemas.entity import RELATED_TABLE, VERSION
from schemas.related import (
    RELATED_COLUMNS,
    RELATED_VERSION_COLUMNS,
    RELATED_VERSIONS_TABLE,
)

# Raise it whenever pairs or kinds could come out differently from before.
CURRENT_METHOD: Final = 4

_VERSION_TYPES: Final = (
    "version bigint, checksum string, method int, pairCount bigint, pairKinds array<int>, "
    "heavyReferences array<bigint>, diameter double, derivedFrom bigint, "
    "categorySets array<array<string>>, createdAt timestamp"
)


class RelatedWriting:
    """Writes what a build has computed, in a thread of its own."""

    def __init__(self, spark: SparkSession, world: WorldVersion, build: RelatedBuild) -> None:
        """Begin."""
        self._spark = spark
        self._world = world
        self._build = build
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="related-pairs")
        self._written: Future[None] = self._thread.submit(self._write)

    def finish(self) -> None:
        """Wait until all is written; what hindered it is raised here."""
        self._written.result()

    def release(self) -> None:
        """Wait, and let Spark forget what was computed."""
        self._thread.shutdown()
        self._build.release()

    def _write(self) -> None:
        work_behind(self._spark)
        version = F.lit(self._world.version).cast("bigint")
        rows = self._build.pairs.withColumn(VERSION, version).select(*RELATED_COLUMNS)
        replace_version(rows, self._world.table(RELATED_TABLE), self._world.version)
        self._mark()

    def _mark(self) -> None:
        """Say that the rows are complete."""
        facts = self._build.facts
        marker = Row(*RELATED_VERSION_COLUMNS)(
            self._world.version,
            self._world.checksum,
            CURRENT_METHOD,
            facts.pair_count,
            list(facts.pair_kinds),
            list(facts.heavy),
            facts.diameter,
            facts.derived_from,
            self._build.vocabulary,
            datetime.now(UTC),
        )
        frame = self._spark.createDataFrame([tuple(marker)], _VERSION_TYPES).coalesce(1)
        table = self._world.table(RELATED_VERSIONS_TABLE)
        # An earlier release knew fewer columns.
        frame.write.format("delta").mode("append").option("mergeSchema", "true").save(table)
