"""Entity tables written as worlds: as rows of a version, or as one GeoParquet file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import shapely

from schemas.entity import GEOMETRY
from spatial_udfs.entity_keys import key_at
from spatial_udfs.entity_table import EntityTable
from world.versions import version_tables


def entity_rows(table: EntityTable) -> pa.Table:
    """Return a table as the rows that ``WorldStore.write_version`` takes."""
    names = pa.array(table.category_names, pa.string())
    flat = names.take(pa.array(table.category_codes))
    offsets = pa.array(table.category_offsets.astype(np.int32))
    return pa.table(
        [
            pa.array(table.peids),
            pa.ListArray.from_arrays(offsets, flat),
            pa.array(table.names, pa.string()),
            pa.array(shapely.to_wkb(table.geometries, output_dimension=2), pa.binary()),
            pa.array([key_at(table, position) for position in range(len(table))], pa.string()),
        ],
        schema=version_tables.UNVERSIONED_ENTITIES,
    )


def write_geoparquet(table: EntityTable, path: Path) -> None:
    """Write a file that ``spaps import`` reads, with the CRS in its metadata."""
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
    content = entity_rows(table).replace_schema_metadata({"geo": json.dumps(geo)})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(content, path)
