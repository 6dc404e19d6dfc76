"""Entities in tiles: Sedona's index-backed join says which of them reach into which tile."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from schemas.entity import GEOMETRY
from spatial_udfs.bulk.world_tiles import Boxes

TILE: Final = "tile"

_TILE_BOX: Final = "tileBox"
_SIDES: Final = ("west", "south", "east", "north")


def tiled(entities: DataFrame, tiles: Boxes) -> DataFrame:
    """Each entity once for each tile that its box meets, with the number of the tile."""
    if len(tiles) == 1:
        return entities.withColumn(TILE, F.lit(0))
    # Finite, because a box of Sedona's must end somewhere; no entity lies out there.
    sides = dict(zip(_SIDES, tiles.clip(-1e15, 1e15).T, strict=True))
    numbered = pa.table({TILE: pa.array(range(len(tiles)), pa.int32()), **sides})
    frame = entities.sparkSession.createDataFrame(numbered).select(
        TILE, F.expr("ST_PolygonFromEnvelope(west, south, east, north)").alias(_TILE_BOX)
    )
    # Boxes, not geometries: the point by which a pair belongs to a tile lies in both boxes.
    met = F.expr(f"ST_Intersects({_TILE_BOX}, ST_Envelope(ST_GeomFromWKB({GEOMETRY})))")
    return entities.join(F.broadcast(frame), on=met, how="inner").drop(_TILE_BOX)
