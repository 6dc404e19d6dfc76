"""Writes GeoParquet 1.1: WKB in the CRS of the world, with the metadata that readers need."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely
from pyproj import CRS

from schemas import entity

VERSION: Final = "1.1.0"
TYPE_NAMES: Final = {
    0: "Point", 1: "LineString", 3: "Polygon", 4: "MultiPoint", 5: "MultiLineString",
    6: "MultiPolygon",
}  # fmt: skip


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
        "version": VERSION,
        "primary_column": entity.GEOMETRY,
        "columns": {entity.GEOMETRY: column},
    }
