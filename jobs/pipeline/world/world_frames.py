"""Rows of Parquet on their way to entities, as Spark frames."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from pathlib import Path
from typing import Final

from pyproj import CRS
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  the name that all of Spark's own pages use

from schemas import entity
from world.batches import parquet_batches
from world.batches.parquet_batches import (
    ATTRIBUTE,
    FILE,
    FIRST,
    ORDINAL,
    ROW_IN_FILE,
    SOURCE_NO,
)
from world.imports.extent import Extent
from world.sources.source_fields import ColumnLayout
from world.sources.source_files import parquet_files
from world.versions import version_tables

PROBLEM_TYPES: Final = (
    "kind string, kept boolean, peid long, source string, locator string, reason string"
)
CHECKED_TYPES: Final = (
    "sourceNo int, ordinal long, peid long, categories array<string>, name string, "
    "geometry binary, key string, kind string, kept boolean, source string, locator string, "
    "reason string"
)
ZONE_TYPES: Final = "zone int, entities long"
EXTENT_TYPES: Final = "west double, south double, east double, north double"
RANK: Final = "rank"
# A digest of 64 hexadecimal digits is summed up in four lanes.
LANES: Final = 4
LANE_DIGITS: Final = 16
WRAP: Final = 2**64


def raw_rows(spark: SparkSession, layout: ColumnLayout) -> DataFrame:
    """The rows of a source under fixed names, with the place where each stands."""
    files = [str(file.resolve()) for file in parquet_files(Path(layout.source))]
    return spark.read.parquet(*files).select(
        F.col("_metadata.file_path").alias(FILE),
        F.col("_metadata.row_index").alias(ROW_IN_FILE),
        _column(layout.peid, "long").alias(entity.PEID),
        _column(layout.categories, "array<string>").alias(entity.CATEGORIES),
        _column(layout.name, "string").alias(entity.NAME),
        _column(layout.key, "string").alias(entity.KEY),
        _column(layout.geometry.name, "binary").alias(entity.GEOMETRY),
        *(_column(name, "string").alias(f"{ATTRIBUTE}{tag}") for tag, name in layout.attributes),
    )


def zone_counts(spark: SparkSession, layouts: list[ColumnLayout]) -> Counter[int]:
    """How many usable geometries begin in each UTM zone."""
    counts: Counter[int] = Counter()
    for layout in layouts:
        rows = raw_rows(spark, layout).mapInArrow(parquet_batches.zone_counter(layout), ZONE_TYPES)
        for zone, entities in rows.groupBy("zone").agg(F.sum("entities")).collect():
            counts[zone] += entities
    return counts


def checked_rows(spark: SparkSession, layouts: list[ColumnLayout], target: CRS) -> DataFrame:
    """All rows of all sources in the target CRS: entities to be where ``kind`` is null."""
    frames = [
        raw_rows(spark, layout).mapInArrow(
            parquet_batches.checker(layout, number, target), CHECKED_TYPES
        )
        for number, layout in enumerate(layouts)
    ]
    return reduce(DataFrame.unionByName, frames)


def ranked_rows(checked: DataFrame) -> DataFrame:
    """The entities to be; ``rank`` 1 is the first row of its peid in source order."""
    order = Window.partitionBy(entity.PEID).orderBy(SOURCE_NO, ORDINAL)
    return (
        checked.where(F.col(entity.PROBLEM_KIND).isNull())
        .select(SOURCE_NO, ORDINAL, *version_tables.UNVERSIONED_ENTITIES.names)
        .withColumn(RANK, F.row_number().over(order))
    )


def entities_of(ranked: DataFrame) -> DataFrame:
    """The entities of the version, each peid once."""
    return ranked.where(F.col(RANK) == 1).drop(RANK)


def ranked_keys(entities: DataFrame) -> DataFrame:
    """The entities; ``rank`` 1 is the first row of its key in source order."""
    order = Window.partitionBy(entity.KEY).orderBy(SOURCE_NO, ORDINAL)
    return entities.withColumn(RANK, F.row_number().over(order))


def with_unique_keys(ranked: DataFrame) -> DataFrame:
    """The entities, with the decimal peid as the key of all but the first of a key."""
    own = F.when(F.col(RANK) == 1, F.col(entity.KEY))
    key = F.coalesce(own, F.col(entity.PEID).cast("string"))
    return ranked.withColumn(entity.KEY, key).drop(RANK)


def problems_of_keys(ranked: DataFrame, sources: list[str]) -> DataFrame:
    """A problem for each row that repeats a key."""
    first = ranked.where(F.col(RANK) == 1).select(
        entity.KEY, *[F.col(name).alias(FIRST + name) for name in (SOURCE_NO, ORDINAL)]
    )
    return (
        ranked.where(F.col(RANK) > 1)
        .select(SOURCE_NO, ORDINAL, entity.PEID, entity.KEY)
        .join(first, on=entity.KEY, how="inner")
        .mapInArrow(parquet_batches.repeated_key_namer(sources), PROBLEM_TYPES)
    )


def problems_of(checked: DataFrame, ranked: DataFrame, sources: list[str]) -> DataFrame:
    """All problems of peids: those of single rows, and the rows whose peid was taken."""
    columns = list(version_tables.UNVERSIONED_PROBLEMS.names)
    of_rows = checked.where(F.col(entity.PROBLEM_KIND).isNotNull()).select(*columns)
    later = ranked.where(F.col(RANK) > 1)
    if later.isEmpty():
        return of_rows
    first = ranked.where(F.col(RANK) == 1).select(
        entity.PEID,
        *[
            F.col(name).alias(FIRST + name)
            for name in (SOURCE_NO, ORDINAL, *version_tables.UNVERSIONED_ENTITIES.names[1:])
        ],
    )
    of_peids = later.join(first, on=entity.PEID, how="inner").mapInArrow(
        parquet_batches.duplicate_namer(sources), PROBLEM_TYPES
    )
    return of_rows.unionByName(of_peids.select(*columns))


def top_categories(entities: DataFrame) -> dict[str, int]:
    """How many entities stand under each first level of the hierarchy, most first."""
    tops = F.transform(entity.CATEGORIES, lambda category: F.substring_index(category, "/", 1))
    counts = entities.select(F.explode(F.array_distinct(tops)).alias("top")).groupBy("top").count()
    ordered = counts.orderBy(F.desc("count"), "top").collect()
    return {row["top"]: row["count"] for row in ordered}


def extent_of_entities(entities: DataFrame, crs: CRS) -> Extent | None:
    """Return the box around all entities, in degrees; None where there is none."""
    read = parquet_batches.extent_reader(crs)
    boxes = entities.select(entity.GEOMETRY).mapInArrow(read, EXTENT_TYPES)
    low, high = [F.min("west"), F.min("south")], [F.max("east"), F.max("north")]
    [row] = boxes.agg(*low, *high).collect()
    return None if row[0] is None else Extent(*row)


def _column(name: str | None, absent_type: str) -> Column:
    if name is None:
        return F.lit(None).cast(absent_type)
    return F.col(f"`{name.replace('`', '``')}`")


def count_and_checksum(entities: DataFrame) -> tuple[int, str]:
    """The number of rows, and the checksum of all of them as 64 hexadecimal digits.

    The checksum is that of ``world.versions.version_tables``, digit by digit.
    """
    digests = entities.select(F.sha2(F.encode(_row_text(), "UTF-8"), 256).alias("digest"))
    sums = [F.sum(_lane(lane)) for lane in range(LANES)]
    count, *lanes = digests.agg(F.count("*"), *sums).collect()[0]
    return count, "".join(f"{int(lane or 0) % WRAP:016x}" for lane in lanes)


def _lane(lane: int) -> Column:
    """One quarter of the digest as a number: decimal, because Spark has no unsigned 64 bits."""
    digits = F.substring("digest", lane * LANE_DIGITS + 1, LANE_DIGITS)
    return F.conv(digits, 16, 10).cast("decimal(20, 0)")


def _row_text() -> Column:
    """What ``world.versions.version_tables._row_texts`` writes."""
    categories = F.array_join(F.transform(entity.CATEGORIES, _with_length), "")
    name = F.coalesce(_with_length(F.col(entity.NAME)), F.lit(""))
    peid = F.col(entity.PEID).cast("string")
    has_own_key = F.col(entity.KEY) != peid
    key = F.when(has_own_key, _with_length(F.col(entity.KEY)))
    # A key that is null is left out by concat_ws.
    return F.concat_ws("|", peid, categories, name, F.hex(entity.GEOMETRY), key)


def _with_length(text: Column) -> Column:
    return F.concat(F.char_length(text).cast("string"), F.lit(":"), text)
