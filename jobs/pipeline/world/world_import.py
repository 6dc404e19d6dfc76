"""An import of Parquet in which Spark reads, checks and writes.

The same steps as ``world.imports.world_import.import_world``, and the same version comes out: equal
checksum, equal problems.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pyproj import CRS
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that all of Spark's own pages use
from pyspark.storagelevel import StorageLevel

from jobs.pipeline.spark_messages import spark_errors_as
from jobs.pipeline.world import world_frames
from schemas import entity
from schemas.errors import SourceError
from world.imports.import_request import ImportRequest
from world.imports.projection import choose_crs, epsg_code, given_crs
from world.imports.world_import import (
    ImportReport,
    exclusive,
    refuse_if_empty,
    refuse_if_strict,
    same_version,
)
from world.long_work import Progress
from world.sources.candidates import Problem, ProblemKind, ProblemSummary
from world.sources.parquet import parquet_layout
from world.sources.source_fields import ColumnLayout
from world.versions import version_tables
from world.versions.store import WorldStore
from world.versions.version_tables import SourceFacts, VersionFacts

# Large enough that a file is worth opening, small enough that several can be read at once.
ROWS_PER_FILE: Final = 2_000_000


def import_parquet(
    spark: SparkSession,
    request: ImportRequest,
    world: str,
    *,
    strict: bool,
    force: bool,
    progress: Progress,
) -> ImportReport:
    """One more version of the world out of Parquet sources, or the newest if that is it."""
    store = WorldStore(world)
    facts = request.describe(progress)
    with exclusive(store):
        known = None if force else same_version(store, facts, request)
        if known is not None:
            return known_report(spark, store, known, strict=strict)
        layouts = [parquet_layout(source.path, source.options) for source in request.sources]
        kept: list[DataFrame] = []
        what = f"import into {world} failed in Spark"
        names = [source.path.name for source in request.sources]
        try:
            with spark_errors_as(SourceError, what, about=names):
                crs = _target_crs(spark, layouts, request.srid, progress)
                progress("checking and projecting", 0, None)
                draft = _draft(world_frames.checked_rows(spark, layouts, crs), layouts, crs, kept)
                return draft.write(store, facts, request, strict=strict, progress=progress)
        finally:
            for frame in kept:
                frame.unpersist()


@dataclass(frozen=True, slots=True)
class Draft:
    """Everything of a version before it is written."""

    entities: DataFrame
    problems: DataFrame
    crs: CRS

    def write(
        self,
        store: WorldStore,
        facts: tuple[SourceFacts, ...],
        request: ImportRequest,
        *,
        strict: bool,
        progress: Progress,
    ) -> ImportReport:
        """Write entities and problems, and the row that makes the version exist last."""
        summaries = _summaries(self.problems)
        refuse_if_strict(summaries, strict=strict)
        entity_count, checksum = world_frames.count_and_checksum(self.entities)
        refuse_if_empty(entity_count, summaries)
        tops = world_frames.top_categories(self.entities)
        extent = world_frames.extent_of_entities(self.entities, self.crs)
        version = store.next_version()
        store.create_tables()
        progress("writing", 0, None)
        files = max(1, entity_count // ROWS_PER_FILE)
        in_ranges = self.entities.repartitionByRange(files, entity.PEID)
        _replace(store, entity.ENTITIES_TABLE, version, in_ranges)
        if summaries:
            _replace(store, entity.PROBLEMS_TABLE, version, self.problems.coalesce(1))
        state = store.state()
        written = VersionFacts(
            version=version,
            srid=epsg_code(self.crs),
            created_at=datetime.now(UTC),
            sources=facts,
            rules_sha256=request.fingerprint(),
            entity_count=entity_count,
            problem_counts={summary.kind.value: summary.count for summary in summaries},
            checksum=checksum,
        )
        store.publish(written, state)
        return ImportReport(
            written, created=True, problems=summaries, top_categories=tops,
            extent=extent, warnings=_warnings(summaries),
        )  # fmt: skip


def _warnings(summaries: Sequence[ProblemSummary]) -> tuple[str, ...]:
    """Return what looks wrong about where the rows lie, by those that could not be projected."""
    outside = [each for each in summaries if each.kind is ProblemKind.OUTSIDE_PROJECTION]
    return tuple(
        f"{each.count:,} rows lie outside ±90° latitude or where the CRS is not defined: look "
        f"whether longitude and latitude are swapped (such as {each.example})"
        for each in outside
    )


def _draft(
    checked: DataFrame, layouts: list[ColumnLayout], crs: CRS, kept: list[DataFrame]
) -> Draft:
    """The frames of a version; those that several steps read are put aside, into ``kept``."""

    def keep(frame: DataFrame) -> DataFrame:
        kept.append(frame.persist(StorageLevel.DISK_ONLY))
        return frame

    rows = keep(checked)
    ranked = keep(world_frames.ranked_rows(rows))
    sources = [layout.source for layout in layouts]
    problems = world_frames.problems_of(rows, ranked, sources)
    entities = world_frames.entities_of(ranked)
    if any(layout.peid and layout.key for layout in layouts):
        ranked_keys = keep(world_frames.ranked_keys(entities))
        problems = problems.unionByName(world_frames.problems_of_keys(ranked_keys, sources))
        entities = world_frames.with_unique_keys(ranked_keys)
    columns = version_tables.UNVERSIONED_ENTITIES.names
    return Draft(entities.select(*columns), keep(problems), crs)


def _target_crs(
    spark: SparkSession, layouts: list[ColumnLayout], srid: int | None, progress: Progress
) -> CRS:
    if srid is not None:
        return given_crs(srid)
    progress("looking where the data lies", 0, None)
    return choose_crs(
        [layout.geometry.crs for layout in layouts],
        lambda: world_frames.zone_counts(spark, layouts),
    )


def known_report(
    spark: SparkSession, store: WorldStore, facts: VersionFacts, *, strict: bool
) -> ImportReport:
    """Return the report about a version that stands in the store; its rows stay with Spark."""

    def rows(table: str) -> DataFrame:
        every = spark.read.format("delta").load(_uri(store, table))
        return every.where(F.col(entity.VERSION) == facts.version)

    summaries = _summaries(rows(entity.PROBLEMS_TABLE))
    refuse_if_strict(summaries, strict=strict)
    tops = world_frames.top_categories(rows(entity.ENTITIES_TABLE))
    return ImportReport(facts, created=False, problems=summaries, top_categories=tops)


def _uri(store: WorldStore, table: str) -> str:
    folder = store.local_folder()
    return store.table_uri(table) if folder is None else f"file://{folder.resolve()}/{table}"


def _replace(store: WorldStore, table: str, version: int, rows: DataFrame) -> None:
    """Write a version's rows in place of any that a killed import left under its number."""
    versioned = rows.withColumn(entity.VERSION, F.lit(version).cast("long"))
    # Spark sorts by the partition column before it writes; sorted by it already, it leaves
    # the order by peid alone.
    ordered = versioned.sortWithinPartitions(entity.VERSION, entity.PEID)
    (
        ordered.select(entity.VERSION, *rows.columns)
        .write.format("delta")
        .mode("overwrite")
        .option("replaceWhere", f"{entity.VERSION} = {version}")
        .option("compression", "zstd")
        .save(_uri(store, table))
    )


def _summaries(problems: DataFrame) -> tuple[ProblemSummary, ...]:
    """One summary for each kind, in the order of ``ProblemKind``."""
    columns = [entity.SOURCE, entity.LOCATOR, entity.REASON, entity.PEID, entity.KEPT]
    rows = (
        problems.groupBy(entity.PROBLEM_KIND)
        .agg(
            F.count("*").alias("count"),
            F.sum(F.col(entity.KEPT).cast("long")).alias("kept"),
            F.min(F.struct(*columns)).alias("example"),
        )
        .collect()
    )
    summaries = [
        ProblemSummary(
            kind=ProblemKind(row[entity.PROBLEM_KIND]),
            count=row["count"],
            kept=row["kept"],
            example=Problem(kind=ProblemKind(row[entity.PROBLEM_KIND]), **row["example"].asDict()),
        )
        for row in rows
    ]
    return tuple(sorted(summaries, key=lambda summary: list(ProblemKind).index(summary.kind)))
