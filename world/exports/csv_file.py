"""Writes CSV (RFC 4180) with the geometry as WKT in longitude and latitude on WGS 84."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import shapely
from pyproj import CRS

from schemas import entity
from world.exports.geojson_file import BATCH_ROWS, DECIMALS, degrees_of

WKT: Final = "wkt"
# A category can contain every printable character but + and #, so this is for people.
BETWEEN_CATEGORIES: Final = "; "
# Spreadsheets run a cell that begins so as a formula.
FORMULA_BEGINS: Final = ("=", "+", "-", "@", "\t", "\r")


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
