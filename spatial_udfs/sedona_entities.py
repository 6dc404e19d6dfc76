"""Entities as the bulk engine works on them: geometry, shape and a number for the categories."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from schemas.entity import CATEGORIES, GEOMETRY, PEID
from schemas.related import CATEGORY_SET
from schemas.relations import Shape
from spatial_udfs.sedona_pair_kinds import SHAPES

SHAPE: Final = "shape"

UNUSABLE_GEOMETRY: Final = " has no geometry that relations are defined for"


def vocabulary_of(entities: DataFrame) -> list[list[str]]:
    """The distinct sets of categories in their own order: the same in every run.

    They are small however large the world is, so the driver holds them.
    """
    distinct = entities.select(_categories().alias(CATEGORIES)).distinct().collect()
    return sorted(row[CATEGORIES] for row in distinct if row[CATEGORIES] is not None)


def category_sets(spark: SparkSession, vocabulary: list[list[str]]) -> DataFrame:
    """The sets of categories with their numbers, which are their places."""
    numbers = pa.array(range(len(vocabulary)), pa.int32())
    names = pa.array(vocabulary, pa.list_(pa.string()))
    return spark.createDataFrame(pa.table({CATEGORY_SET: numbers, CATEGORIES: names}))


def placed_entities(entities: DataFrame, sets: DataFrame, *carried: str) -> DataFrame:
    """One row for each entity: peid, shape, category set, geometry (Sedona's type), carried."""
    geometry = F.expr(f"ST_GeomFromWKB({GEOMETRY})")
    read = entities.select(
        PEID, _categories().alias(CATEGORIES), geometry.alias(GEOMETRY), *carried
    )
    numbered = read.join(sets.select(CATEGORIES, CATEGORY_SET), on=CATEGORIES, how="inner")
    shape = _shape().cast("int").alias(SHAPE)
    return numbered.select(PEID, shape, CATEGORY_SET, GEOMETRY, *carried)


def _categories() -> Column:
    return F.array_sort(F.array_distinct(CATEGORIES))


def _shape() -> Column:
    """The place in ``SHAPES``; what the DE-9IM knows nothing about stops the run."""
    dimension = F.expr(f"ST_Dimension({GEOMETRY})")
    # Not ST_IsClosed: a multi-line can be without boundary although none of its parts is closed.
    has_boundary = ~F.expr(f"ST_IsEmpty(ST_Boundary({GEOMETRY}))")
    unusable = F.expr(f"ST_IsEmpty({GEOMETRY}) OR ST_GeometryType({GEOMETRY}) LIKE '%Collection'")
    return (
        F.when(unusable, F.raise_error(F.concat(F.lit("entity "), PEID, F.lit(UNUSABLE_GEOMETRY))))
        .when(dimension == 0, SHAPES.index(Shape.POINT))
        .when(dimension == 2, SHAPES.index(Shape.AREA))
        .when(has_boundary, SHAPES.index(Shape.LINE))
        .otherwise(SHAPES.index(Shape.CLOSED_LINE))
    )
