"""Source files for import tests, written with nothing of ours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import shapely
from pyproj import CRS

Row = Mapping[str, Any]


def feature(geometry: Any, **properties: Any) -> dict[str, Any]:
    """A GeoJSON feature; the geometry is a shapely object or whatever shall stand there."""
    written = (
        shapely.geometry.mapping(geometry) if isinstance(geometry, shapely.Geometry) else geometry
    )
    return {"type": "Feature", "properties": properties, "geometry": written}


def write_geojson(path: Path, features: Sequence[Mapping[str, Any]], **members: Any) -> Path:
    """A FeatureCollection."""
    document = {"type": "FeatureCollection", "features": list(features), **members}
    path.write_text(json.dumps(document))
    return path


def write_geoparquet(
    path: Path,
    rows: Sequence[Row],
    *,
    crs: int | str | None = 25833,
    types: Mapping[str, pa.DataType] | None = None,
    geo: Mapping[str, Any] | bytes | None = None,
    geometry_column: str = "geometry",
    row_group_size: int | None = None,
) -> Path:
    """GeoParquet with one column for each key; geometry as shapely object or as bytes.

    ``crs``: an EPSG code, "absent" for a file that leaves it out, None for one that says null.
    """
    kinds = {
        "peid": pa.int64(),
        "categories": pa.list_(pa.string()),
        "name": pa.string(),
        geometry_column: pa.binary(),
        **(types or {}),
    }
    keys = list(dict.fromkeys(key for row in rows for key in row)) or list(kinds)
    columns = {
        key: pa.array([_bytes(row.get(key)) for row in rows], kinds.get(key)) for key in keys
    }
    column_facts: dict[str, Any] = {"encoding": "WKB", "geometry_types": []}
    if crs != "absent":
        column_facts["crs"] = None if crs is None else CRS.from_epsg(crs).to_json_dict()
    written = (
        geo
        if geo is not None
        else {
            "version": "1.1.0",
            "primary_column": geometry_column,
            "columns": {geometry_column: column_facts},
        }
    )
    table = pa.table(columns)
    if written:
        text = written if isinstance(written, bytes) else json.dumps(written).encode()
        table = table.replace_schema_metadata({b"geo": text})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=row_group_size)
    return path


def _bytes(value: Any) -> Any:
    return shapely.to_wkb(value) if isinstance(value, shapely.Geometry) else value
