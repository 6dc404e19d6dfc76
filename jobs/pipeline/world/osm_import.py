"""An import of one OSM extract in which Spark reads, assembles, checks and writes.

The same version comes out as of ``world.imports.world_import.import_world``: equal checksum,
equal problems.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that all of Spark's own pages use
from pyspark.storagelevel import StorageLevel

from jobs.pipeline.spark_errors import spark_errors_as
from jobs.pipeline.world import osm_batches, osm_files, osm_frames
from jobs.pipeline.world.world_import import Draft, known_report
from schemas import entity
from schemas.errors import SourceError
from schemas.world_places import stored_place
from world.imports.import_request import ImportRequest
from world.imports.projection import WGS84, choose_crs, given_crs
from world.imports.world_import import ImportReport, exclusive, same_version
from world.long_work import Progress
from world.sources.osm.rules import Rules
from world.sources.source_files import SourceKind
from world.versions import version_tables
from world.versions.store import WorldStore
from world.versions.version_tables import SourceFacts


def import_osm(
    spark: SparkSession,
    source: str,
    request: ImportRequest,
    world: str,
    *,
    strict: bool,
    force: bool,
    progress: Progress,
) -> ImportReport:
    """Import an .osm.pbf as one more version of the world; return the newest if it is the same.

    ``source`` is a path or a URI that Spark and the deltalake package can read; the request has its
    options.
    """
    store = WorldStore(world)
    rules = request.sources[0].options.osm_rules()
    failed = f"import into {world} failed in Spark"
    progress("looking through the extract", 0, None)
    with spark_errors_as(SourceError, failed, about=[source]):
        file = osm_files.inspect(spark, source)
    facts = (SourceFacts(stored_place(source), SourceKind.OSM.value, file.sha256, file.bytes),)
    kept: list[DataFrame] = []

    def keep(frame: DataFrame) -> DataFrame:
        kept.append(frame.persist(StorageLevel.DISK_ONLY))
        return frame

    with exclusive(store):
        known = None if force else same_version(store, facts, request)
        if known is not None:
            return known_report(spark, store, known, strict=strict)
        try:
            with spark_errors_as(SourceError, failed), osm_files.settings_for(spark, file):
                found = _candidates(spark, source, rules, keep, progress)
                draft = _draft(found, source, request.srid, keep, progress)
                return draft.write(store, facts, request, strict=strict, progress=progress)
        finally:
            for frame in kept:
                frame.unpersist()


def _candidates(
    spark: SparkSession,
    source: str,
    rules: Rules,
    keep: osm_frames.Keep,
    progress: Progress,
) -> DataFrame:
    progress("reading elements, assembling areas", 0, None)
    elements = spark.read.format("osmpbf").load(osm_files.spark_path(source))
    rows = keep(osm_frames.candidates(elements, source, rules, keep))
    return osm_frames.with_own_peids(rows, source, keep)


def _draft(
    rows: DataFrame, source: str, srid: int | None, keep: osm_frames.Keep, progress: Progress
) -> Draft:
    if srid is not None:
        crs = given_crs(srid)
    else:
        crs = choose_crs([WGS84], lambda: osm_frames.zone_counts(rows))
    progress("checking and projecting", 0, None)
    checked = keep(rows.mapInArrow(osm_batches.projector(source, crs), osm_frames.CANDIDATE_TYPES))
    is_entity = F.col(entity.PROBLEM_KIND).isNull()
    entities = checked.where(is_entity).select(*version_tables.UNVERSIONED_ENTITIES.names)
    problems = checked.where(~is_entity).select(*version_tables.UNVERSIONED_PROBLEMS.names)
    return Draft(entities, problems, crs)
