"""The places among the references of a neighborhood, drawn like entities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from schemas.language.references import PLACE
from spatial_udfs.entity_table import EntityTable, Int64s
from spatial_udfs.place_geometries import projected_places

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
