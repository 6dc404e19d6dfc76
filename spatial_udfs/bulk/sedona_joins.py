"""Sedona's index-backed joins: entities with the tiles they reach into, and near pairs.

One join finds the disjoint pairs for all distances of a level. A reference is joined once, with its
widest reach. A node with a smaller reach takes the nearest of the pairs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from schemas.entity import CATEGORIES, ENTITY, GEOMETRY, PEID, REFERENCE
from spatial_udfs.bulk.world_tiles import Boxes

TILE: Final = "tile"
# Boolean: the entity is in the tiles that its pieces meet, not in all that its box meets.
LARGE: Final = "large"
# More corners than that make an entity large, as far as its WKB tells: two numbers for a corner,
# and little else. A piece has so few corners that its box is small.
LARGE_CORNERS: Final = 256
LARGE_BYTES: Final = 16 * LARGE_CORNERS
PIECE_CORNERS: Final = 32
# Up to so many bytes of geometries are copied to each of their pieces, which saves two joins.
MOST_COPIED_BYTES: Final = 64 << 20

_TILE_BOX: Final = "tileBox"
_PIECE: Final = "piece"
_SIDES: Final = ("west", "south", "east", "north")
_SHAPE: Final = f"ST_GeomFromWKB({GEOMETRY})"
# Rounding can move the border of a piece; its box is made wider than that.
_ROOM: Final = 0.001


def copied_bytes(sizes: NDArray[np.int64]) -> int:
    """Return how many bytes large ones of these geometries (WKB) have if each piece has them."""
    large = sizes[sizes > LARGE_BYTES]
    # A cut adds corners, so there are up to twice as many pieces as the corners alone would make.
    pieces = 2 * (large // (16 * PIECE_CORNERS) + 1)
    return int((large * pieces).sum())


def tiled(
    entities: DataFrame, tiles: Boxes, *, with_large: bool, may_copy: bool = False
) -> DataFrame:
    """Return each entity once for each tile that its box meets, with the number of the tile.

    With ``with_large`` entities of many corners are cut into pieces, which choose the tiles; one
    such entity can then come several times for a tile. With ``may_copy`` each piece brings the
    whole entity along (see ``copied_bytes``); else the pieces are joined with the entities.
    """
    if len(tiles) == 1:
        return entities.withColumns({TILE: F.lit(0), LARGE: F.lit(False)})  # noqa: FBT003 - a value
    # Finite, as Sedona's boxes must be; no entity lies that far out.
    sides = dict(zip(_SIDES, tiles.clip(-1e15, 1e15).T, strict=True))
    numbered = pa.table({TILE: pa.array(range(len(tiles)), pa.int32()), **sides})
    boxes = entities.sparkSession.createDataFrame(numbered).select(
        TILE, F.expr("ST_PolygonFromEnvelope(west, south, east, north)").alias(_TILE_BOX)
    )
    if not with_large:
        return _in_boxes(entities, boxes, f"ST_Envelope({_SHAPE})", large=False)
    size = F.octet_length(GEOMETRY)
    small = entities.where(size <= LARGE_BYTES)
    large = entities.where(size > LARGE_BYTES)
    # The tile of the lower left corner counts the entity, whether a piece meets it or not.
    corner = f"ST_Point(ST_XMin({_SHAPE}), ST_YMin({_SHAPE}))"
    cut = f"array_append(ST_SubDivide({_SHAPE}, {PIECE_CORNERS}), {corner})"
    widened = f"ST_Expand(ST_Envelope({_PIECE}), {_ROOM})"
    whole = _in_boxes(small, boxes, f"ST_Envelope({_SHAPE})", large=False)
    if may_copy:
        copies = large.withColumn(_PIECE, F.explode(F.expr(cut)))
        return whole.unionByName(_in_boxes(copies, boxes, widened, large=True).drop(_PIECE))
    pieces = large.select(PEID, F.explode(F.expr(cut)).alias(_PIECE))
    places = _in_boxes(pieces, boxes, widened, large=True).select(PEID, TILE, LARGE).distinct()
    return whole.unionByName(large.join(places, on=PEID, how="inner"))


def _in_boxes(rows: DataFrame, boxes: DataFrame, box: str, *, large: bool) -> DataFrame:
    # Boxes, not geometries: the point by which a pair belongs to a tile lies in both boxes.
    met = F.expr(f"ST_Intersects({_TILE_BOX}, {box})")
    joined = rows.join(F.broadcast(boxes), on=met, how="inner").drop(_TILE_BOX)
    return joined.withColumn(LARGE, F.lit(large))


REACH: Final = "reach"
DISTANCE: Final = "distance"

_ORIGIN: Final = "origin"
_TARGET: Final = "target"
# Closer pairs are tested for being disjoint, because rounding could hide it.
_SURELY_APART: Final = 0.001
# Boxes are widened by more than rounding can change; the exact distance decides afterwards.
_WIDENED: Final = f"{REACH} + 1e-6 + 1e-9 * {REACH}"


def near_pairs(
    asked: DataFrame, entities: DataFrame, categories: Iterable[str], *, few: bool
) -> DataFrame:
    """Return disjoint pairs (reference, entity, distance) within the reach that is asked for.

    ``asked`` has REFERENCE, REACH and GEOMETRY (WKB), each reference once. ``entities`` have PEID,
    CATEGORIES and GEOMETRY; of these, those with one of the ``categories`` are measured to.
    """
    geometry = F.expr(f"ST_GeomFromWKB({GEOMETRY})")
    origins = asked.select(REFERENCE, REACH, geometry.alias(_ORIGIN))
    wanted = F.array(*(F.lit(name) for name in sorted(categories)))
    targets = entities.where(F.arrays_overlap(F.col(CATEGORIES), wanted)).select(
        F.col(PEID).alias(ENTITY), geometry.alias(_TARGET)
    )
    met = F.expr(f"ST_DWithin({_ORIGIN}, {_TARGET}, {_WIDENED})")
    distance = F.expr(f"ST_Distance({_ORIGIN}, {_TARGET})")
    # Few origins: every task searches its entities for all. Many: both are divided.
    pairs = (F.broadcast(origins) if few else origins).join(targets, on=met, how="inner")
    measured = pairs.withColumn(DISTANCE, distance).where(F.col(DISTANCE) <= F.col(REACH))
    apart = (F.col(DISTANCE) > _SURELY_APART) | ~F.expr(f"ST_Intersects({_ORIGIN}, {_TARGET})")
    return measured.where(apart).select(REFERENCE, ENTITY, DISTANCE)
