"""Writes GeoJSON (RFC 7946): longitude and latitude on WGS 84, peids as text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import shapely
from pyproj import CRS

from schemas import entity
from schemas.membership import STAGE_NO
from spatial_udfs.entity_table import Geometries
from world.imports.projection import in_degrees

# Seven decimals of a degree are a centimetre on the ground.
DECIMALS: Final = 7
BATCH_ROWS: Final = 10_000


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
