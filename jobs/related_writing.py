"""Related pairs on their way into their tables, while the run goes on with those in memory.

Rows are written first and the row in ``relatedVersions`` last, so a killed run leaves nothing
that anybody would read.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.delta_tables import replace_version
from jobs.related_build import RelatedBuild
from jobs.world_tables import WorldVersion
from schemas.entity import CATEGORIES, RELATED_TABLE, VERSION
from schemas.related import (
    CATEGORY_SET,
    CATEGORY_SETS_TABLE,
    RELATED_COLUMNS,
    RELATED_VERSION_COLUMNS,
    RELATED_VERSIONS_TABLE,
)

# Raise it whenever pairs or kinds could come out differently from before.
CURRENT_METHOD: Final = 3

_VERSION_TYPES: Final = (
    "version bigint, checksum string, method int, pairCount bigint, pairKinds array<int>, "
    "heavyReferences array<bigint>, diameter double, derivedFrom bigint, createdAt timestamp"
)


class RelatedWriting:
    """Writes what a build has computed, in threads of its own."""

    def __init__(self, spark: SparkSession, world: WorldVersion, build: RelatedBuild) -> None:
        """Begin."""
        self._spark = spark
        self._world = world
        self._build = build
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="related-pairs")
        self._rows = [
            self._threads.submit(self._replace, build.pairs, RELATED_TABLE, RELATED_COLUMNS),
            self._threads.submit(
                self._replace,
                build.category_sets.coalesce(1),
                CATEGORY_SETS_TABLE,
                (VERSION, CATEGORY_SET, CATEGORIES),
            ),
        ]
        self._marker: Future[None] = self._threads.submit(self._mark)

    def finish(self) -> None:
        """Wait until all is written; what hindered it is raised here."""
        self._marker.result()

    def release(self) -> None:
        """Wait, and let Spark forget what was computed."""
        self._threads.shutdown()
        self._build.release()

    def _replace(self, rows: DataFrame, table: str, columns: tuple[str, ...]) -> None:
        version = F.lit(self._world.version).cast("bigint")
        stamped = rows.withColumn(VERSION, version).select(*columns)
        replace_version(stamped, self._world.table(table), self._world.version)

    def _mark(self) -> None:
        """Say that the rows are complete; the thread gets here when one writer is done."""
        for rows in self._rows:
            rows.result()
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
            datetime.now(UTC),
        )
        frame = self._spark.createDataFrame([tuple(marker)], _VERSION_TYPES).coalesce(1)
        table = self._world.table(RELATED_VERSIONS_TABLE)
        frame.write.format("delta").mode("append").save(table)
