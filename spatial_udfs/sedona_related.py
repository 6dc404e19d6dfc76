"""Related pairs: which entities share a point, and with which DE-9IM matrix.

Sedona's index-backed join finds the pairs. What lies inside a large area and away from its
boundary has a matrix that its shape alone decides, and Sedona says so without a look at the
rest. All other matrices come from GEOS, in batches (docs/decisions/0041).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from schemas.entity import GEOMETRY, PEID
from schemas.related import CATEGORY_SET
from spatial_udfs.sedona_entities import SHAPE
from spatial_udfs.sedona_pair_kinds import AREA
from spatial_udfs.sedona_pair_matrices import DIRECTED_PAIR_TYPES, FIRST, SECOND, directed_pairs

CHANGED: Final = "changed"
# Of an area with more corners than this, a copy for each of its pairs is too much to send.
LARGE_AREA_POINTS: Final = 64

_EXTENT: Final = "extent"
_LARGE: Final = "large"
_WKB: Final = "wkb"  # carried along, because making it anew for each pair costs more
_CARRIED: Final = (PEID, SHAPE, CATEGORY_SET, GEOMETRY, _WKB, _LARGE)


def related_rows(entities: DataFrame) -> DataFrame:
    """Rows (reference, entity, pair kind, category set): pairs with a changed end, both ways.

    ``entities`` are placed entities with a Boolean column CHANGED.
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
    ordered = joined.select(
        *[_either(_left_is_first(), "l_", "r_", name).alias(f"{FIRST}{name}") for name in _CARRIED],
        *[
            _either(_left_is_first(), "r_", "l_", name).alias(f"{SECOND}{name}")
            for name in _CARRIED
        ],
    )
    unknown = ~_known_inside()
    sent = ordered.select(
        *[f"{end}{name}" for end in (FIRST, SECOND) for name in (PEID, SHAPE, CATEGORY_SET)],
        *[
            F.when(unknown, F.col(f"{end}{_WKB}")).alias(f"{end}{GEOMETRY}")
            for end in (FIRST, SECOND)
        ],
    )
    return sent.mapInArrow(directed_pairs, DIRECTED_PAIR_TYPES)


def _with_sizes(entities: DataFrame) -> DataFrame:
    """Areas count by the extent of their boxes; everything else is smaller than any area."""
    is_area = F.col(SHAPE) == AREA
    extent = F.when(is_area, F.expr(f"ST_Area(ST_Envelope({GEOMETRY}))")).otherwise(-1.0)
    large = is_area & (F.expr(f"ST_NPoints({GEOMETRY})") > LARGE_AREA_POINTS)
    return entities.select(
        PEID,
        SHAPE,
        CATEGORY_SET,
        GEOMETRY,
        F.expr(f"ST_AsBinary({GEOMETRY})").alias(_WKB),
        CHANGED,
        extent.alias(_EXTENT),
        large.alias(_LARGE),
    )


def _left_is_first() -> Column:
    left, right = F.col(f"l_{_EXTENT}"), F.col(f"r_{_EXTENT}")
    earlier = F.col(f"l_{PEID}") < F.col(f"r_{PEID}")
    return (left > right) | ((left == right) & earlier)


def _either(condition: Column, when_true: str, when_false: str, name: str) -> Column:
    return F.when(condition, F.col(f"{when_true}{name}")).otherwise(F.col(f"{when_false}{name}"))


def _known_inside() -> Column:
    """Whether the second lies in the interior of the first, a large area."""
    first, second = f"{FIRST}{GEOMETRY}", f"{SECOND}{GEOMETRY}"
    # A geometry of several parts may lie inside with one and outside with another.
    one_part = F.expr(f"ST_NumGeometries({second}) = 1")
    return (
        F.col(f"{FIRST}{_LARGE}")
        & one_part
        & ~F.expr(f"ST_Intersects(ST_Boundary({first}), {second})")
    )
