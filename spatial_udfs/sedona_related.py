"""Related pairs: which entities share a point, and with which DE-9IM matrix.

Sedona's index-backed join brings together what reaches into the same tile. In each tile GEOS
finds the pairs and their matrices (docs/decisions/0041).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from pyspark.sql import DataFrame

from schemas.entity import PEID
from schemas.related import CATEGORY_SET
from spatial_udfs.sedona_entities import SHAPE
from spatial_udfs.sedona_pair_matrices import (
    CHANGED,
    DIRECTED_PAIR_TYPES,
    WKB,
    pairs_of_tiles,
)
from spatial_udfs.sedona_tiles import TILE, tiled
from spatial_udfs.world_tiles import Boxes

# How many tiles a task has at once, when there are enough for all tasks.
TILES_PER_TASK: Final = 4


def related_rows(entities: DataFrame, tiles: Boxes, parallel_tasks: int) -> DataFrame:
    """Rows of DIRECTED_PAIR_TYPES: pairs with a changed end, both ways.

    ``entities`` are placed entities with the columns WKB and CHANGED.
    """
    tasks = min(len(tiles), max(len(tiles) // TILES_PER_TASK, 4 * parallel_tasks))
    sent = tiled(entities, tiles).select(TILE, PEID, SHAPE, CATEGORY_SET, CHANGED, WKB)
    by_tile = sent.repartition(tasks, TILE)
    return by_tile.mapInArrow(partial(pairs_of_tiles, tiles=tiles), DIRECTED_PAIR_TYPES)
