"""An import of one OSM extract in which Spark reads, assembles, checks and writes.

The same version comes out as of ``world.imports.world_import.import_world``: equal checksum,
equal problems.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs as pa_fs
from deltalake.fs import DeltaStorageHandler
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that all of Spark's own pages use
from pyspark.storagelevel import StorageLevel

from jobs.pipeline.session import PARTITIONS_SETTING, session_settings
from jobs.pipeline.spark_messages import spark_errors_as
from jobs.pipeline.world import osm_frames
from jobs.pipeline.world.world_import import Draft, known_report
from schemas import entity
from schemas.errors import SourceError
from schemas.storage_credentials import storage_credentials
from schemas.world_places import stored_place
from world.batches import osm_batches
from world.batches.parquet_batches import Batches
from world.imports.import_request import ImportRequest
from world.imports.projection import WGS84, choose_crs, given_crs
from world.imports.world_import import ImportReport, exclusive, same_version
from world.long_work import Progress
from world.sources.osm.rules import Rules
from world.sources.osm.spark_extract import ExtractFile, look_through
from world.sources.source_files import SourceKind
from world.versions import version_tables
from world.versions.store import WorldStore
from world.versions.version_tables import SourceFacts

FACT_TYPES: Final = "sha256 string, bytes long, lastBlock long"
FACTS: Final = pa.schema(
    [("sha256", pa.string()), ("bytes", pa.int64()), ("lastBlock", pa.int64())]
)
# What a task reads of an extract at once, and how much of it becomes one partition in joins.
SPLIT_BYTES: Final = 16 * 1024 * 1024
SPLIT_STEP: Final = 4 * 1024
PARTITION_BYTES: Final = 8 * 1024 * 1024
# Relations and ways are long rows: a batch of as many stays far below what a worker may take.
ROWS_PER_BATCH: Final = 10_000
_PATTERN: Final = re.compile(r"[\\*?\[\]{}]")


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
        file = inspect(spark, source)
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
            settings = settings_for(spark, file)
            with spark_errors_as(SourceError, failed), session_settings(spark, settings):
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
    elements = spark.read.format("osmpbf").load(spark_path(source))
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


def inspect(spark: SparkSession, source: str) -> ExtractFile:
    """Return the facts of an extract, found by one task that reads it from end to end."""
    keys = dict(storage_credentials(lambda name: spark.conf.get(name, None)))
    # Executors run in folders of their own.
    place = source if "://" in source else stored_place(source)

    def look(batches: Batches) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            with _opened(place, keys) as stream:
                found = look_through(stream, source)
            values = [[found.sha256], [found.bytes], [found.last_block]]
            yield pa.RecordBatch.from_arrays([pa.array(each) for each in values], schema=FACTS)

    [row] = spark.range(0, 1, 1, 1).mapInArrow(look, FACT_TYPES).collect()
    return ExtractFile(*row)


def spark_path(source: str) -> str:
    """Return the extract as Spark has to be told of it, which would take some names as patterns."""
    place = source if "://" in source else f"file://{stored_place(source)}"
    return _PATTERN.sub(r"\\\g<0>", place)


def settings_for(spark: SparkSession, file: ExtractFile) -> dict[str, str]:
    """Return how large the parts of an extract are, as settings for its import."""
    split = str(split_bytes(file, SPLIT_BYTES))
    partitions = max(int(spark.conf.get(PARTITIONS_SETTING) or 0), file.bytes // PARTITION_BYTES)
    return {
        "spark.sql.files.maxPartitionBytes": split,
        "spark.sql.files.openCostInBytes": split,
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_PER_BATCH),
        PARTITIONS_SETTING: str(partitions),
        # Spark takes the bytes of the packed file for the size of all nodes, and would have the
        # driver send them to every task.
        "spark.sql.autoBroadcastJoinThreshold": "-1",
    }


def split_bytes(file: ExtractFile, wanted: int) -> int:
    """Return the size of splits: about the wanted one, so that a block begins in the last split.

    Sedona 1.8.0 looks for the first block of a split, and reads nonsense where none follows.
    """
    size = wanted
    while (file.bytes - 1) // size * size > file.last_block:
        size += SPLIT_STEP
    return size


def _opened(source: str, keys: Mapping[str, str]) -> Any:
    try:
        if "://" not in source:
            return Path(source).open("rb")
        parent, name = source.rsplit("/", 1)
        store = pa_fs.PyFileSystem(DeltaStorageHandler(parent, dict(keys)))
        return store.open_input_stream(name)
    except OSError as error:
        raise SourceError(f"{source}: {error.strerror or error}") from error
