"""Writes entities of a world version, or the members of a neighborhood, into one file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas import entity
from schemas.errors import SettingsError
from schemas.membership import STAGE_NO
from spatial_udfs.entity_table import Int64s
from world.exports.csv_file import write_csv
from world.exports.geojson_file import write_geojson
from world.exports.geoparquet_file import write_geoparquet
from world.versions.store import WorldStore

# The columns of an export, in their order; members of a neighborhood have their stage too.
COLUMNS: Final = (entity.PEID, entity.KEY, entity.NAME, entity.CATEGORIES, entity.GEOMETRY)
Writer = Callable[[pa.Table, int, Path], None]
WRITERS: Final[dict[str, Writer]] = {
    ".parquet": write_geoparquet,
    ".geoparquet": write_geoparquet,
    ".geojson": write_geojson,
    ".json": write_geojson,
    ".csv": write_csv,
}


@dataclass(frozen=True, slots=True)
class Members:
    """The members of a neighborhood: an entity once for each visible stage that it is in."""

    peids: Int64s
    stages: Int64s


def writer_of(path: Path) -> Writer:
    """Return the function that writes the format of a file; SettingsError for another ending."""
    for ending, writer in WRITERS.items():
        if path.name.lower().endswith(ending):
            return writer
    known = ", ".join(WRITERS)
    raise SettingsError(f"{path}: cannot tell the format; known endings: {known}")


def exported_rows(world: str, version: int, members: Members | None = None) -> pa.Table:
    """Return the rows to write, by peid; by stage and peid for members."""
    rows = WorldStore(world).entities(version, COLUMNS).sort_by(entity.PEID)
    missing_keys = rows.column(entity.PEID).cast(pa.string())
    keys = pc.coalesce(rows.column(entity.KEY), missing_keys)
    rows = rows.set_column(COLUMNS.index(entity.KEY), entity.KEY, keys)
    if members is None:
        return rows
    order = np.lexsort((members.peids, members.stages))
    places = np.searchsorted(rows.column(entity.PEID).to_numpy(), members.peids[order])
    stages = pa.array(members.stages[order].astype(np.int32))
    return rows.take(pa.array(places)).append_column(STAGE_NO, stages)
