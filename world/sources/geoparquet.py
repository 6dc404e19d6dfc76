"""Reads GeoParquet: attributes in columns, geometry as WKB, the CRS in the metadata."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyproj import CRS
from pyproj.exceptions import CRSError

from schemas import entity
from schemas.errors import SourceError
from spatial_udfs.entity_table import Geometries, Int64s
from world.imports.projection import WGS84
from world.long_work import in_threads
from world.sources.candidates import Candidates, Problem
from world.sources.geoparquet_columns import (
    GeoParquetLayout,
    decoded_geometries,
    faultless_rows,
    row_locator,
    values_of,
)
from world.sources.raw_rows import RawRows
from world.sources.source_files import parquet_files

BATCH_ROWS: Final = 65_536
# The usual name of a column of identifiers.
ID: Final = "id"


def read_layout(path: Path, *, id_field: str | None, category: str | None) -> GeoParquetLayout:
    """Return the layout of a source; SourceError if it is not GeoParquet that can be imported."""
    layouts = {_layout_of_file(path, file, id_field, category) for file in parquet_files(path)}
    if len(layouts) > 1:
        raise SourceError(f"{path}: its files differ in their columns or their CRS")
    return layouts.pop()


def row_count(path: Path) -> int:
    """Return the number of rows, from the footers of the files."""
    return sum(pq.read_metadata(file).num_rows for file in parquet_files(path))


def read_batches(
    path: Path, layout: GeoParquetLayout
) -> Iterator[tuple[Candidates, list[Problem]]]:
    """Yield the rows of a source, some thousands at a time."""
    try:
        yield from in_threads(
            lambda numbered: batch_candidates(numbered[0], layout, numbered[1]),
            _numbered_batches(path, layout),
        )
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{path}: {' '.join(str(error).split())}") from error


def _numbered_batches(
    path: Path, layout: GeoParquetLayout
) -> Iterator[tuple[pa.RecordBatch, Int64s]]:
    first = 0
    for file in parquet_files(path):
        with pq.ParquetFile(file) as parquet:
            for batch in parquet.iter_batches(BATCH_ROWS, columns=layout.columns()):
                yield batch, np.arange(first, first + batch.num_rows)
                first += batch.num_rows


def batch_candidates(
    batch: pa.RecordBatch, layout: GeoParquetLayout, ordinals: Int64s
) -> tuple[Candidates, list[Problem]]:
    """Return the usable rows of one batch, and the problems of the others."""
    geometries, faults = decoded_geometries(
        batch.column(layout.geometry).to_numpy(zero_copy_only=False)
    )
    problems: list[Problem] = []
    try:
        rows = faultless_rows(batch, layout, ordinals, geometries)
    except UnicodeDecodeError:
        rows = None
    if rows is None:
        rows, problems = _raw_rows(batch, layout, ordinals, geometries).candidates()
    reason = "geometry cannot be read as the WKB of a point, line or area"
    readable, unreadable = rows.without(
        {int(ordinals[position]): (kind, reason) for position, kind in faults.items()}
    )
    return readable, problems + unreadable


def _raw_rows(
    batch: pa.RecordBatch, layout: GeoParquetLayout, ordinals: Int64s, geometries: Geometries
) -> RawRows:
    nothing = [None] * batch.num_rows
    return RawRows(
        source=layout.source,
        locator=row_locator,
        ordinals=ordinals,
        peids=values_of(batch.column(layout.peid)) if layout.peid else None,
        keys=values_of(batch.column(layout.key)) if layout.key else None,
        categories=values_of(batch.column(layout.categories)) if layout.categories else nothing,
        names=values_of(batch.column(layout.name)) if layout.name else nothing,
        geometries=geometries,
        default_category=layout.category,
    )


def _layout_of_file(
    source: Path, file: Path, id_field: str | None, category: str | None
) -> GeoParquetLayout:
    try:
        schema = pq.read_schema(file)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{file}: not Parquet: {' '.join(str(error).split())}") from error
    column, facts = _primary_column(file, schema)
    peid, key = _identity(file, schema, id_field)
    categories = entity.CATEGORIES if entity.CATEGORIES in schema.names else None
    if categories is None and category is None:
        raise SourceError(
            f"{file}: no column {entity.CATEGORIES!r}; give one category to all rows with "
            "--category"
        )
    if categories is not None and not _is_list_of_strings(schema.field(categories).type):
        raise SourceError(f"{file}: column {categories!r} must be a list of strings")
    return GeoParquetLayout(
        source=str(source),
        crs=_crs(file, facts),
        geometry=column,
        peid=peid,
        key=key,
        categories=categories,
        name=entity.NAME if entity.NAME in schema.names else None,
        category=category,
    )


def _identity(file: Path, schema: pa.Schema, id_field: str | None) -> tuple[str | None, str | None]:
    """Return the columns of peids and of keys; at least one is there."""
    if id_field is not None and id_field not in schema.names:
        raise SourceError(f"{file}: no column {id_field!r} that --id-field names")
    peid = entity.PEID if entity.PEID in schema.names else None
    chosen = (entity.KEY, ID) if id_field in (None, entity.PEID) else (id_field,)
    key = next((name for name in chosen if name in schema.names), None)
    if peid is None and key is None:
        raise SourceError(
            f"{file}: no column {entity.PEID!r}, {entity.KEY!r} or {ID!r}; name a column that is "
            "different in each row with --id-field"
        )
    return peid, key


def _primary_column(file: Path, schema: pa.Schema) -> tuple[str, dict[str, Any]]:
    written = (schema.metadata or {}).get(b"geo")
    if written is None:
        raise SourceError(f"{file}: Parquet without 'geo' metadata is not GeoParquet")
    try:
        geo = json.loads(written)
        column = geo["primary_column"]
        facts = geo["columns"][column]
        encoding = facts["encoding"]
    except (ValueError, KeyError, TypeError) as error:
        raise SourceError(f"{file}: its 'geo' metadata cannot be read") from error
    if encoding != "WKB":
        raise SourceError(f"{file}: geometry encoding {encoding!r:.40} is not supported, only WKB")
    if column not in schema.names:
        raise SourceError(f"{file}: its geometry column {column!r:.40} is not there")
    if not _is_binary(schema.field(column).type):
        raise SourceError(f"{file}: its geometry column {column!r:.40} does not hold bytes")
    return column, facts


def _crs(file: Path, facts: dict[str, Any]) -> CRS:
    """Return the CRS; without one it is WGS 84, and null (unknown) is an error."""
    if "crs" not in facts:
        return WGS84
    if facts["crs"] is None:
        raise SourceError(f"{file}: its geometry has no CRS")
    try:
        return CRS.from_user_input(facts["crs"])
    except CRSError as error:
        raise SourceError(f"{file}: its CRS cannot be understood") from error


def _is_list_of_strings(kind: pa.DataType) -> bool:
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_list_view)
    if not any(test(kind) for test in lists):
        return False
    item = (
        kind.value_type.value_type if pa.types.is_dictionary(kind.value_type) else kind.value_type
    )
    strings = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(item) for test in strings)


def _is_binary(kind: pa.DataType) -> bool:
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    return any(test(kind) for test in tests)
