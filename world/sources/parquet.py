"""Reads Parquet files and Delta tables, which consist of Parquet files.

The metadata of GeoParquet name geometry and CRS; any other file has a column of WKB or WKT.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyproj import CRS
from pyproj.exceptions import CRSError

from schemas.errors import SourceError
from world.imports.projection import WGS84
from world.sources.candidates import Candidates, Problem
from world.sources.column_rows import read_batches
from world.sources.source_fields import ColumnLayout, GeometryColumn
from world.sources.source_files import delta_files, opened_delta, parquet_files
from world.sources.source_options import SourceOptions
from world.versions.delta_tables import TABLE_ERRORS, arrow_schema, delta_rows, table_reason

BATCH_ROWS: Final = 65_536
# Usual names of a column of WKB or WKT.
GEOMETRY_NAMES: Final = ("geometry", "geom", "wkb_geometry", "the_geom", "wkb", "wkt", "shape")
METADATA: Final = b"geo"


def parquet_layout(path: Path, options: SourceOptions) -> ColumnLayout:
    """Return the layout of a source; SourceError if it cannot be imported."""
    layouts = [_layout_of_file(path, file, options) for file in parquet_files(path)]
    if any(layout != layouts[0] for layout in layouts):
        raise SourceError(f"{path}: its files differ in their columns or their CRS")
    return layouts[0]


def row_count(path: Path) -> int:
    """Return the number of rows, from the footers of the files."""
    return sum(pq.read_metadata(file).num_rows for file in parquet_files(path))


def parquet_rows(path: Path, layout: ColumnLayout) -> Iterator[tuple[Candidates, list[Problem]]]:
    """Yield the rows of a source, some thousands at a time."""
    try:
        yield from read_batches(_batches(path, layout), layout)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{path}: {' '.join(str(error).split())}") from error


def _batches(path: Path, layout: ColumnLayout) -> Iterator[pa.RecordBatch]:
    for file in parquet_files(path):
        with pq.ParquetFile(file) as parquet:
            yield from parquet.iter_batches(BATCH_ROWS, columns=layout.columns())


def delta_layout(path: Path, options: SourceOptions) -> ColumnLayout:
    """Return the layout of the newest state of a Delta table."""
    try:
        schema = arrow_schema(opened_delta(path))
        files = delta_files(path)
        # Writers give all files the same metadata, or none.
        metadata = (pq.read_schema(files[0]).metadata if files else None) or {}
    except TABLE_ERRORS as error:
        raise SourceError(f"{path}: {table_reason(error)}") from error
    geometry = geometry_column(str(path), schema, metadata, options)
    return ColumnLayout.of_schema(str(path), str(path), schema, geometry, options)


def delta_table_rows(
    path: Path, layout: ColumnLayout
) -> Iterator[tuple[Candidates, list[Problem]]]:
    """Yield the rows of a Delta table, some thousands at a time, in the order of its files."""
    try:
        rows = delta_rows(opened_delta(path), layout.columns())
        yield from read_batches(rows.to_batches(BATCH_ROWS), layout)
    except (*TABLE_ERRORS, pa.ArrowException) as error:
        raise SourceError(f"{path}: {table_reason(error)}") from error


def _layout_of_file(source: Path, file: Path, options: SourceOptions) -> ColumnLayout:
    try:
        schema = pq.read_schema(file)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{file}: not Parquet: {' '.join(str(error).split())}") from error
    geometry = geometry_column(str(file), schema, schema.metadata or {}, options)
    return ColumnLayout.of_schema(str(source), str(file), schema, geometry, options)


def geometry_column(
    where: str, schema: pa.Schema, metadata: Mapping[bytes, bytes], options: SourceOptions
) -> GeometryColumn:
    """Return the column of geometries; SourceError if there is none, or it names no CRS."""
    written = metadata.get(METADATA)
    column, facts = (None, {}) if written is None else _primary_column(where, written)
    column = options.geometry_field or column
    if column is None:
        column = next((name for name in GEOMETRY_NAMES if name in schema.names), None)
    if column is None:
        raise SourceError(
            f"{where}: no column of geometries: Parquet without 'geo' metadata needs a column of "
            f"WKB or WKT that --geometry-field names, or that is called {GEOMETRY_NAMES[0]!r}"
        )
    if column not in schema.names:
        raise SourceError(f"{where}: its geometry column {column!r:.40} is not there")
    kind = schema.field(column).type
    # GeoParquet has WKB; a column of text is WKT.
    is_text = _is_text(kind) and written is None
    if not is_text and not _is_binary(kind):
        raise SourceError(f"{where}: its geometry column {column!r:.40} does not hold bytes")
    return GeometryColumn(column, is_text, _crs(where, written is not None, facts, options))


def _primary_column(where: str, written: bytes) -> tuple[str, dict[str, Any]]:
    try:
        geo = json.loads(written)
        column = geo["primary_column"]
        facts = geo["columns"][column]
        encoding = facts["encoding"]
    except (ValueError, KeyError, TypeError) as error:
        raise SourceError(f"{where}: its 'geo' metadata cannot be read") from error
    if encoding != "WKB":
        raise SourceError(f"{where}: geometry encoding {encoding!r:.40} is not supported, only WKB")
    return column, facts


def _crs(where: str, has_metadata: bool, facts: Mapping[str, Any], options: SourceOptions) -> CRS:
    """Return the CRS: GeoParquet without one has WGS 84; null and no metadata mean unknown."""
    if has_metadata and "crs" not in facts:
        return WGS84
    if facts.get("crs") is None:
        if options.crs is None:
            raise SourceError(f"{where}: its geometry has no CRS: name it with --crs EPSG:CODE")
        return options.crs
    try:
        return CRS.from_user_input(facts["crs"])
    except CRSError as error:
        raise SourceError(f"{where}: its CRS cannot be understood") from error


def _is_binary(kind: pa.DataType) -> bool:
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    return any(test(kind) for test in tests)


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in tests)
