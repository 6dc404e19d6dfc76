"""A small world to search in: names in several scripts, keys, and entities with two categories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import shapely

from schemas import entity
from spatial_udfs.entity_table import EntityTable
from testing.world_writers import entity_rows
from tests.strategies.worlds import table_of
from world.versions.store import WorldStore

CONTROL = "Bell\x07 \x1b[31mred"
# peid, name, categories; entity n lies at (1000 n, 0) from the corner of the town.
ENTITIES: tuple[tuple[int, str | None, tuple[str, ...]], ...] = (
    (1, "Été", ("shop/books",)),
    (2, "Café de l'Été", ("food/cafe", "food/bar")),
    (3, "Étend-Bar", ("food/bar",)),
    (4, "Grand été", ("zone/park",)),
    (5, "Pété Lane", ("road/minor",)),
    (6, None, ("road/major/ete", "road/minor")),
    (7, "ÉTÉ", ("zone/park",)),
    (8, CONTROL, ("road",)),
    (9, None, ("zone",)),
    (2**63 - 1, "Last Stop", ("transport/stop",)),
)
CORNER = (390_000.0, 5_800_000.0)


def key_of(peid: int) -> str:
    """Return the key of an entity of the town."""
    return f"way/{peid}#1"


def town() -> EntityTable:
    """Return the town as a table."""
    rows: list[tuple[int, tuple[str, ...], Any]] = [
        (peid, categories, shapely.Point(CORNER[0] + 1000 * number, CORNER[1]))
        for number, (peid, _, categories) in enumerate(ENTITIES)
    ]
    table = table_of(rows)
    table.names[:] = np.array([name for _, name, _ in ENTITIES], object)
    return table


def write_town(folder: Path) -> str:
    """Write the town as a world and return its folder."""
    table = town()
    rows = entity_rows(table)
    keys = pa.array([key_of(peid) for peid in table.peids.tolist()], pa.string())
    rows = rows.set_column(rows.schema.get_field_index(entity.KEY), entity.KEY, keys)
    WorldStore(str(folder)).write_version(rows, srid=table.srid)
    return str(folder)
