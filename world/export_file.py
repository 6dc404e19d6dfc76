"""Writes entities of a world version, or the members of a neighborhood, into one file.

The formats are GeoParquet 1.1 in the CRS of the world, and GeoJSON (RFC 7946) and CSV (RFC 4180)
in longitude and latitude on WGS 84. GeoJSON has peids as text.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import shapely
from pyproj import CRS

from schemas import entity
from schemas.errors import SettingsError
from schemas.membership import STAGE_NO
from spatial_udfs.entity_table import Geometries, Int64s
from world.imports.projection import in_degrees
from world.versions.store import WorldStore

# Seven decimals of a degree are a centimetre on the ground.
DECIMALS: Final = 7
BATCH_ROWS: Final = 10_000
WKT: Final = "wkt"
# A category can contain every printable character but + and #, so this is for people.
BETWEEN_CATEGORIES: Final = "; "
# Spreadsheets run a cell that begins so as a formula.
FORMULA_BEGINS: Final = ("=", "+", "-", "@", "\t", "\r")
GEOPARQUET_VERSION: Final = "1.1.0"
TYPE_NAMES: Final = {
    0: "Point", 1: "LineString", 3: "Polygon", 4: "MultiPoint", 5: "MultiLineString",
    6: "MultiPolygon",
}  # fmt: skip


def write_geojson(rows: pa.Table, srid: int, path: Path) -> None:
    """Write the rows as features, one on each line; ``srid`` is the CRS of their geometries."""
    crs = CRS.from_epsg(srid)
    with path.open("w", encoding="utf-8") as file:
        file.write('{"type": "FeatureCollection", "features": [')
        separator = "\n"
        for batch in rows.to_batches(BATCH_ROWS):
            shapes = degrees_of(batch.column(entity.GEOMETRY), crs)
            written = shapely.to_geojson(shapely.orient_polygons(shapes))
            attributes = batch.drop_columns([entity.GEOMETRY]).to_pylist()
            for row, geometry in zip(attributes, written.tolist(), strict=True):
                file.write(separator + _feature(row, geometry))
                separator = ",\n"
        file.write("\n]}\n")


def degrees_of(wkb: pa.Array, crs: CRS) -> Geometries:
    """Return geometries in longitude and latitude, rounded to a centimetre."""
    shapes = shapely.from_wkb(wkb.to_numpy(zero_copy_only=False))
    degrees: Geometries = shapely.transform(
        shapes, lambda points: in_degrees(points, crs).round(DECIMALS)
    )
    return degrees


def _feature(row: dict[str, Any], geometry: str) -> str:
    properties = {
        # JavaScript cannot hold larger whole numbers than 2^53.
        entity.PEID: str(row[entity.PEID]),
        entity.NAME: row[entity.NAME],
        entity.CATEGORIES: row[entity.CATEGORIES],
    }
    if STAGE_NO in row:
        properties[STAGE_NO] = row[STAGE_NO]
    key = json.dumps(row[entity.KEY], ensure_ascii=False)
    others = json.dumps(properties, ensure_ascii=False)
    return f'{{"type": "Feature", "id": {key}, "properties": {others}, "geometry": {geometry}}}'


def write_csv(rows: pa.Table, srid: int, path: Path) -> None:
    """Write the rows under a header; ``srid`` is the CRS of their geometries."""
    crs = CRS.from_epsg(srid)
    names = [name for name in rows.column_names if name != entity.GEOMETRY]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*names, WKT])
        for batch in rows.to_batches(BATCH_ROWS):
            shapes = degrees_of(batch.column(entity.GEOMETRY), crs)
            texts = shapely.to_wkt(shapes, rounding_precision=DECIMALS)
            for row, text in zip(batch.select(names).to_pylist(), texts, strict=True):
                writer.writerow([*(_cell(row[name]) for name in names), text])


def _cell(value: Any) -> Any:
    """Return a value as a cell that no spreadsheet takes for a formula."""
    if isinstance(value, list):
        value = BETWEEN_CATEGORIES.join(value)
    if isinstance(value, str) and value.lstrip().startswith(FORMULA_BEGINS):
        return f"'{value}"
    return value


def write_geoparquet(rows: pa.Table, srid: int, path: Path) -> None:
    """Write the rows; ``srid`` is the EPSG code of their geometries."""
    metadata = {b"geo": json.dumps(geo_metadata(rows, srid)).encode()}
    pq.write_table(rows.replace_schema_metadata(metadata), path, compression="zstd")


def geo_metadata(rows: pa.Table, srid: int) -> dict[str, Any]:
    """Return the content of the key ``geo`` of the file's metadata."""
    geometries = shapely.from_wkb(rows.column(entity.GEOMETRY).to_numpy())
    types = np.unique(shapely.get_type_id(geometries)).tolist()
    column: dict[str, Any] = {
        "encoding": "WKB",
        "geometry_types": [TYPE_NAMES[kind] for kind in types],
        "crs": CRS.from_epsg(srid).to_json_dict(),
    }
    if len(geometries):
        column["bbox"] = shapely.total_bounds(geometries).tolist()
    return {
        "version": GEOPARQUET_VERSION,
        "primary_column": entity.GEOMETRY,
        "columns": {entity.GEOMETRY: column},
    }


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
