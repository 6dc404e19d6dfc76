"""What the page of a neighborhood draws beside its members: other entities in grey, and places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray

from schemas.language.references import PLACE
from spatial_udfs.entity_table import EntityTable, Int64s, Positions
from spatial_udfs.place_geometries import projected_places

# The page of a city of this size has a few megabytes, and a browser moves it smoothly.
MOST_GREY: Final = 250_000
# How much of the result's own width is shown around it.
MARGIN: Final = 0.4
LEAST_MARGIN_METRES: Final = 250.0


def grey_positions(
    table: EntityTable, drawn: Positions, most: int = MOST_GREY
) -> tuple[Positions, str]:
    """Return positions for the background, and a sentence about those left out ('' if none).

    A small world is drawn whole, of a large one what is around the result.
    """
    is_grey = np.ones(len(table), bool)
    is_grey[drawn] = False
    grey = np.flatnonzero(is_grey)
    if len(grey) <= most:
        return grey.astype(np.int32), ""
    boxes = shapely.bounds(table.geometries)
    near = grey[_overlap(boxes[grey], _around(boxes[drawn] if len(drawn) else boxes))]
    if len(near) <= most:
        said = f"Of {len(grey):,} other entities the page shows the {len(near):,} around the result"
        return near.astype(np.int32), f"{said}."
    # At this scale small entities are invisible: the largest ones make the picture.
    size = np.maximum(boxes[near, 2] - boxes[near, 0], boxes[near, 3] - boxes[near, 1])
    largest = near[np.sort(np.argsort(-size, kind="stable")[:most])]
    said = f"Of {len(grey):,} other entities the page shows the {most:,} largest around the result"
    return largest.astype(np.int32), f"{said}."


def _around(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    west, south = np.nanmin(boxes[:, :2], axis=0)
    east, north = np.nanmax(boxes[:, 2:], axis=0)
    margin = max(LEAST_MARGIN_METRES, MARGIN * max(east - west, north - south))
    return np.array([west - margin, south - margin, east + margin, north + margin])


def _overlap(boxes: NDArray[np.float64], window: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.asarray(
        (boxes[:, 0] <= window[2])
        & (boxes[:, 2] >= window[0])
        & (boxes[:, 1] <= window[3])
        & (boxes[:, 3] >= window[1])
    )


CATEGORY: Final = "place"


def with_places(table: EntityTable, places: Sequence[str]) -> tuple[EntityTable, Int64s]:
    """Return the table with the places in front, and the numbers that stand for their peids.

    The name of a place is what a neighborhood says in the place of a peid; the script shows it.
    """
    geometries, lacking = projected_places(places, table.srid)
    held = [place for place in places if place not in lacking]
    count = len(held)
    numbers = np.arange(-count, 0, dtype=np.int64)
    if not count:
        return table, numbers
    names = np.array([f"{PLACE}:{place}" for place in held], dtype=object)
    keys = table.keys
    if keys is not None:
        keys = pa.concat_arrays([pa.array([""] * count, keys.type), keys])
    with_category = tuple(dict.fromkeys((*table.category_names, CATEGORY)))
    code = with_category.index(CATEGORY)
    return (
        replace(
            table,
            peids=np.concatenate([numbers, table.peids]),
            geometries=np.concatenate([geometries, table.geometries]),
            names=np.concatenate([names, table.names]),
            category_names=with_category,
            category_offsets=np.concatenate([np.arange(count), table.category_offsets + count]),
            category_codes=np.concatenate([np.full(count, code, np.int32), table.category_codes]),
            keys=keys,
        ),
        numbers,
    )
