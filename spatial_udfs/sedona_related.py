"""Related pairs: which entities share a point, and with which DE-9IM matrix.

Sedona's index-backed join finds the pairs. Most matrices follow from cheaper questions: what
lies inside an area and away from its boundary has a matrix that its shape alone decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import shapely
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from schemas.entity import GEOMETRY, PEID
from schemas.related import CATEGORY_SET, ENTITY, PAIR_KIND, REFERENCE
from spatial_udfs.sedona_entities import SHAPE
from spatial_udfs.sedona_pair_kinds import AREA, SHAPES, pair_kind, shape_pair, transposed
from spatial_udfs.shared_line_ends import SharedLineEnds

CHANGED: Final = "changed"
# Both ends of a pair, the larger one first.
FIRST: Final = "first_"
SECOND: Final = "second_"
MATRIX: Final = "matrix"

_EXTENT: Final = "extent"
_PARTS: Final = "parts"
_SIMPLE: Final = "simple"
_CARRIED: Final = (PEID, SHAPE, CATEGORY_SET, GEOMETRY)


def intersecting_pairs(entities: DataFrame) -> DataFrame:
    """Each pair that shares a point and has a changed end, once, with its matrix.

    ``entities`` are placed entities with a Boolean column CHANGED. The matrix is null where
    Sedona's must not be trusted: see ``needs_second_opinion``.
    """
    sized = _with_sizes(entities)
    left = sized.where(CHANGED).select(*[F.col(name).alias(f"l_{name}") for name in sized.columns])
    right = sized.select(*[F.col(name).alias(f"r_{name}") for name in sized.columns])
    # Of a pair with two changed ends, the join finds both orders.
    once = ~F.col(f"r_{CHANGED}") | _left_is_first()
    joined = left.join(
        right,
        on=F.expr(f"ST_Intersects(l_{GEOMETRY}, r_{GEOMETRY})")
        & (F.col(f"l_{PEID}") != F.col(f"r_{PEID}"))
        & once,
        how="inner",
    )
    names = (*_CARRIED, _PARTS, _SIMPLE)
    ordered = joined.select(
        *[_either(_left_is_first(), "l_", "r_", name).alias(f"{FIRST}{name}") for name in names],
        *[_either(_left_is_first(), "r_", "l_", name).alias(f"{SECOND}{name}") for name in names],
    )
    return ordered.select(
        *[f"{end}{name}" for end in (FIRST, SECOND) for name in (PEID, SHAPE, CATEGORY_SET)],
        _matrix().alias(MATRIX),
    )


def needs_second_opinion() -> Column:
    """Pairs with a line that meets itself: there Sedona's ST_Relate can be wrong.

    It stands on the older of JTS's two algorithms, which rounds the points where lines cross
    and then misses that two of them run along each other.
    """
    return F.col(MATRIX).isNull()


def with_second_opinion(pairs: DataFrame, entities: DataFrame) -> DataFrame:
    """The same pairs, all with a matrix; ``entities`` are the placed entities they are of."""
    doubtful = pairs.where(needs_second_opinion()).drop(MATRIX)
    for end in (FIRST, SECOND):
        ends = entities.select(
            F.col(PEID).alias(f"{end}{PEID}"),
            F.expr(f"ST_AsBinary({GEOMETRY})").alias(f"{end}{GEOMETRY}"),
        )
        doubtful = doubtful.join(ends, on=f"{end}{PEID}", how="inner")
    kept = [name for name in pairs.columns if name != MATRIX]
    ordered = doubtful.select(*kept, f"{FIRST}{GEOMETRY}", f"{SECOND}{GEOMETRY}")
    judged = ordered.mapInArrow(_second_opinion, pairs.schema)
    return pairs.where(~needs_second_opinion()).unionByName(judged)


def _second_opinion(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """Matrices by GEOS for rows whose last two columns are the geometries as WKB."""
    for batch in batches:
        *kept, first, second = batch.columns
        count = batch.num_rows
        geometries: Any = shapely.from_wkb([*first.to_pylist(), *second.to_pylist()])
        firsts, seconds = geometries[:count], geometries[count:]
        matrices = shapely.relate(firsts, seconds).astype(object)
        places = np.arange(2 * count, dtype=np.int32)
        ends = SharedLineEnds(geometries)
        ends.repair(matrices, firsts, seconds, places[:count], places[count:])
        yield pa.RecordBatch.from_arrays(
            [*kept, pa.array(matrices.tolist(), pa.string())],
            names=[*batch.schema.names[:-2], MATRIX],
        )


def both_directions(pairs: DataFrame) -> DataFrame:
    """Rows (reference, entity, pair kind, category set of the entity), two for each pair."""
    kind = pair_kind(F.col(MATRIX), shape_pair(F.col(f"{FIRST}{SHAPE}"), F.col(f"{SECOND}{SHAPE}")))
    forward = pairs.select("*", kind.alias(PAIR_KIND))
    ways = F.array(
        _direction(FIRST, SECOND, F.col(PAIR_KIND)),
        _direction(SECOND, FIRST, transposed(F.col(PAIR_KIND))),
    )
    return forward.select(F.inline(ways))


def _direction(reference: str, entity: str, kind: Column) -> Column:
    return F.struct(
        F.col(f"{reference}{PEID}").alias(REFERENCE),
        F.col(f"{entity}{PEID}").alias(ENTITY),
        kind.alias(PAIR_KIND),
        F.col(f"{entity}{CATEGORY_SET}").alias(CATEGORY_SET),
    )


def _with_sizes(entities: DataFrame) -> DataFrame:
    """Areas count by the extent of their boxes; everything else is smaller than any area."""
    is_area = F.col(SHAPE) == AREA
    extent = F.when(is_area, F.expr(f"ST_Area(ST_Envelope({GEOMETRY}))")).otherwise(-1.0)
    is_line = F.expr(f"ST_Dimension({GEOMETRY}) = 1")
    return entities.select(
        *_CARRIED,
        CHANGED,
        extent.alias(_EXTENT),
        F.expr(f"ST_NumGeometries({GEOMETRY})").alias(_PARTS),
        (~is_line | F.expr(f"ST_IsSimple({GEOMETRY})")).alias(_SIMPLE),
    )


def _left_is_first() -> Column:
    left, right = F.col(f"l_{_EXTENT}"), F.col(f"r_{_EXTENT}")
    earlier = F.col(f"l_{PEID}") < F.col(f"r_{PEID}")
    return (left > right) | ((left == right) & earlier)


def _either(condition: Column, when_true: str, when_false: str, name: str) -> Column:
    return F.when(condition, F.col(f"{when_true}{name}")).otherwise(F.col(f"{when_false}{name}"))


def _matrix() -> Column:
    first, second = f"{FIRST}{GEOMETRY}", f"{SECOND}{GEOMETRY}"
    # A geometry of several parts may lie inside with one and outside with another.
    inside = (
        (F.col(f"{FIRST}{SHAPE}") == AREA)
        & (F.col(f"{SECOND}{_PARTS}") == 1)
        & ~F.expr(f"ST_Intersects(ST_Boundary({first}), {second})")
    )
    trusted = F.col(f"{FIRST}{_SIMPLE}") & F.col(f"{SECOND}{_SIMPLE}")
    by_shape = F.array(*[F.lit(_inner_matrix(place)) for place in range(len(SHAPES))])
    return F.when(inside, F.get(by_shape, F.col(f"{SECOND}{SHAPE}"))).when(
        trusted, F.expr(f"ST_Relate({first}, {second})")
    )


def _inner_matrix(place: int) -> str:
    """The matrix of (area, entity in its interior, away from its boundary)."""
    shape = SHAPES[place]
    return f"{shape.dimension}{shape.boundary}2FF1FF2"
