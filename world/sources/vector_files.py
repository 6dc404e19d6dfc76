"""Reads Shapefile and GeoPackage with pyogrio, the reader of GDAL."""

from __future__ import annotations

from collections.abc import Iterator
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyproj import CRS
from pyproj.exceptions import CRSError

from schemas.errors import SourceError
from world.sources.candidates import Candidates, Problem
from world.sources.column_rows import read_batches
from world.sources.parquet import BATCH_ROWS
from world.sources.raw_values import printable
from world.sources.source_fields import ColumnLayout, GeometryColumn
from world.sources.source_files import SourceKind, kind_of
from world.sources.source_options import SourceOptions

if TYPE_CHECKING:
    import types

# The name that GDAL gives to the geometries of a format that has no name for them.
GEOMETRY: Final = "wkb_geometry"


def read_layer(
    path: Path, options: SourceOptions
) -> tuple[ColumnLayout, Iterator[tuple[Candidates, list[Problem]]]]:
    """Return the layout of a layer, and its rows, some thousands at a time."""
    ogr = _ogr(path)
    try:
        layer = _layer(ogr, path, options)
        # The ids of a GeoPackage belong to its rows; those of a Shapefile are line numbers.
        has_ids = kind_of(path) is SourceKind.GEOPACKAGE
        found, table = ogr.raw.read_arrow(path, layer=layer, return_fids=has_ids)
    except (ogr.errors.DataSourceError, ogr.errors.DataLayerError, ValueError) as error:
        raise SourceError(f"{path}: {_reason(error, path)}") from error
    table = pa.table(table)
    geometry = found.get("geometry_name") or GEOMETRY
    if geometry not in table.column_names:
        raise SourceError(f"{path}: layer {layer!r} has no geometry")
    column = GeometryColumn(geometry, False, _crs(path, found.get("crs"), options))  # noqa: FBT003
    layout = ColumnLayout.of_schema(str(path), str(path), table.schema, column, options)
    return layout, _batches(path, table, layout)


def _batches(
    path: Path, table: pa.Table, layout: ColumnLayout
) -> Iterator[tuple[Candidates, list[Problem]]]:
    batches = table.select(layout.columns()).combine_chunks().to_batches(BATCH_ROWS)
    try:
        yield from read_batches(batches, layout)
    except pa.ArrowException as error:
        raise SourceError(f"{path}: {' '.join(str(error).split())}") from error


def _ogr(path: Path) -> types.ModuleType:
    """Return pyogrio, which is loaded only when a file needs it: GDAL takes half a second."""
    try:
        import pyogrio  # noqa: PLC0415
        import pyogrio.raw  # noqa: PLC0415
    except ImportError as error:
        raise SourceError(
            f"{path}: needs the Python package pyogrio, which is not there"
        ) from error
    return pyogrio


def _layer(ogr: Any, path: Path, options: SourceOptions) -> str:
    """Return the layer to read: the one that is named, or the only one with geometries."""
    layers = {str(name): kind for name, kind in ogr.list_layers(path)}
    shown = ", ".join(map(printable, layers))
    if options.layer is not None:
        if options.layer not in layers:
            raise SourceError(f"{path}: no layer {options.layer!r} (its layers: {shown})")
        return options.layer
    spatial = [name for name, kind in layers.items() if kind is not None]
    if len(spatial) != 1:
        what = "several layers" if spatial else "no layer with geometries"
        raise SourceError(f"{path}: has {what}: name one with --layer (its layers: {shown})")
    return spatial[0]


def _crs(path: Path, written: str | None, options: SourceOptions) -> CRS:
    if written is None:
        if options.crs is None:
            raise SourceError(
                f"{path}: nothing says its CRS (no .prj file?): name it with --crs EPSG:CODE"
            )
        return options.crs
    try:
        return CRS.from_user_input(written)
    except CRSError as error:
        raise SourceError(f"{path}: its CRS cannot be understood") from error


def _reason(error: BaseException, path: Path) -> str:
    """Return GDAL's words on one line, without the path that stands before them already."""
    if path.suffix.lower() == ".shp" and (lacking := _missing_parts(path)):
        return f"{lacking} must stand beside it: they belong to the Shapefile"
    words = " ".join(str(error).split()).replace(f"'{path}'", "the file").replace(str(path), "it")
    return words.split("; It might help")[0]


def _missing_parts(path: Path) -> str:
    """Return the files without which a Shapefile cannot be read and that are not there."""
    there = {file.suffix.lower() for file in path.parent.glob(f"{escape(path.stem)}.*")}
    return " and ".join(part for part in (".shx", ".dbf") if part not in there)
