"""An entity table as one GeoParquet file, in the columns that ``spaps import`` reads."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import shapely

from schemas.entity import CATEGORIES, GEOMETRY, NAME, PEID
from spatial_udfs.entity_table import EntityTable


def write_geoparquet(table: EntityTable, path: Path) -> None:
    """Write the file, with the CRS in its metadata as the GeoParquet standard asks."""
    categories = pa.DictionaryArray.from_arrays(
        pa.array(table.category_codes), pa.array(table.category_names, pa.string())
    ).cast(pa.string())
    columns = {
        PEID: pa.array(table.peids),
        CATEGORIES: pa.ListArray.from_arrays(
            pa.array(table.category_offsets.astype("int32")), categories
        ),
        NAME: pa.array(table.names, pa.string()),
        GEOMETRY: pa.array(shapely.to_wkb(table.geometries), pa.binary()),
    }
    geo = {
        "version": "1.1.0",
        "primary_column": GEOMETRY,
        "columns": {
            GEOMETRY: {
                "encoding": "WKB",
                # An empty list is the standard's way to say "any type".
                "geometry_types": [],
                "crs": pyproj.CRS.from_epsg(table.srid).to_json_dict(),
            }
        },
    }
    content = pa.table(columns).replace_schema_metadata({"geo": json.dumps(geo)})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(content, path)
