"""Finds the kind of each source file, and the checksum by which an import recognises it."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from glob import escape
from pathlib import Path
from typing import Final

from deltalake import DeltaTable

from schemas.errors import SourceError
from schemas.world_places import stored_place
from world.long_work import Progress
from world.versions import version_tables
from world.versions.delta_tables import (
    LOG_FOLDER,
    TABLE_ERRORS,
    open_table,
    table_files,
    table_reason,
)
from world.versions.version_tables import SourceFacts

CHUNK_BYTES: Final = 4 * 1024 * 1024


class SourceKind(StrEnum):
    """The kinds of sources, each with a reader of its own."""

    OSM = version_tables.OSM
    GEOJSON = "geojson"
    GEOJSON_LINES = "geojson-lines"
    GEOPARQUET = "geoparquet"
    DELTA = "delta"
    SHAPEFILE = "shapefile"
    GEOPACKAGE = "geopackage"
    # Names sources and their options.
    IMPORT_FILE = version_tables.IMPORT_FILE


SUFFIXES: Final = {
    ".osm.pbf": SourceKind.OSM,
    ".pbf": SourceKind.OSM,
    ".osm": SourceKind.OSM,
    ".osm.gz": SourceKind.OSM,
    ".geojson": SourceKind.GEOJSON,
    ".json": SourceKind.GEOJSON,
    ".geojsonl": SourceKind.GEOJSON_LINES,
    ".geojsons": SourceKind.GEOJSON_LINES,
    ".ndjson": SourceKind.GEOJSON_LINES,
    ".jsonl": SourceKind.GEOJSON_LINES,
    ".parquet": SourceKind.GEOPARQUET,
    ".geoparquet": SourceKind.GEOPARQUET,
    ".shp": SourceKind.SHAPEFILE,
    ".gpkg": SourceKind.GEOPACKAGE,
    ".toml": SourceKind.IMPORT_FILE,
}
# Endings of packed files. Of these only .osm.gz is read as it is.
PACKED: Final = (".gz", ".zip", ".bz2", ".xz", ".7z", ".tar", ".tgz", ".zst")
# An address that Path has made of it: one slash of two is gone.
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
# Files that belong to a Shapefile: geometries, their index, attributes, CRS, encoding.
SHAPEFILE_PARTS: Final = (".shp", ".shx", ".dbf", ".prj", ".cpg")


def kind_of(path: Path) -> SourceKind:
    """Return the kind by the file name's ending; a folder is a Delta table or files of Parquet."""
    if not path.exists():
        if _ADDRESS.match(str(path)):
            raise SourceError(f"{path}: an address is no source: download the file first")
        raise SourceError(f"{path}: no such file")
    if path.is_dir():
        if os.path.isdir(path / LOG_FOLDER):  # noqa: PTH112  false where it may not be read
            return SourceKind.DELTA
        parquet_files(path)
        return SourceKind.GEOPARQUET
    kind = kind_by_name(path)
    if kind is None:
        raise SourceError(
            f"{path}: cannot tell what this is; known endings: {', '.join(SUFFIXES)}; "
            f"{_advice(path)}"
        )
    return kind


def _advice(path: Path) -> str:
    if path.suffix.lower() in PACKED:
        return f"unpack a {path.suffix.lower()} first"
    return "QGIS and ogr2ogr convert other formats"


def kind_by_name(path: Path) -> SourceKind | None:
    """Return the kind of a file that need not be on this machine; None for another ending."""
    name = path.name.lower()
    return next((kind for suffix, kind in SUFFIXES.items() if name.endswith(suffix)), None)


def parquet_files(path: Path) -> list[Path]:
    """Return the file, or the files of a folder in a fixed order."""
    if not path.is_dir():
        return [path]
    try:
        next(path.iterdir(), None)  # rglob takes a folder that cannot be listed for an empty one
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}") from error
    # Writers leave files of their own beside the data, whose names begin with _ or a dot.
    files = sorted(
        file
        for file in path.rglob("*.parquet")
        if file.is_file() and not file.name.startswith(("_", "."))
    )
    if not files:
        raise SourceError(f"{path}: a folder without a .parquet file")
    return files


def opened_delta(path: Path) -> DeltaTable:
    """Return a Delta table that is a source, in its newest state."""
    return open_table(str(path.resolve()))


def delta_files(path: Path) -> list[Path]:
    """Return the files of the newest state of a Delta table, in a fixed order."""
    try:
        return [path / file for file in table_files(opened_delta(path))]
    except TABLE_ERRORS as error:
        raise SourceError(f"{path}: {table_reason(error)}") from error


def files_of(path: Path, kind: SourceKind) -> list[Path]:
    """Return the files whose bytes make up a source."""
    match kind:
        case SourceKind.GEOPARQUET:
            return parquet_files(path)
        case SourceKind.DELTA:
            return delta_files(path)
        case SourceKind.SHAPEFILE:
            there = {
                file.suffix.lower(): file for file in path.parent.glob(f"{escape(path.stem)}.*")
            }
            return [there[suffix] for suffix in SHAPEFILE_PARTS if suffix in there]
        case _:
            return [path]


def describe(paths: Sequence[Path], progress: Progress) -> tuple[SourceFacts, ...]:
    """Return the facts of all sources; reads each file completely once."""
    if not paths:
        raise SourceError("no source given")
    kinds = [kind_of(path) for path in paths]
    files = [files_of(path, kind) for path, kind in zip(paths, kinds, strict=True)]
    places = [_stored(path) for path in paths]
    try:
        total = sum(file.stat().st_size for group in files for file in group)
        done = 0
        facts = []
        for place, kind, group in zip(places, kinds, files, strict=True):
            digest = hashlib.sha256()
            size = 0
            for file in group:
                for chunk in _chunks(file):
                    digest.update(chunk)
                    size += len(chunk)
                    progress("checksums", done + size, total)
            done += size
            facts.append(SourceFacts(place, kind.value, digest.hexdigest(), size))
    except OSError as error:
        raise SourceError(f"{error.filename or 'source'}: {error.strerror or error}") from error
    return tuple(facts)


def _stored(path: Path) -> str:
    """Return the path that the version stores, so that a rebuild finds it from any folder."""
    try:
        stored = stored_place(str(path))
        stored.encode()
    except UnicodeEncodeError as error:
        raise SourceError(f"{path}: its name is not UTF-8 text; rename it") from error
    return stored


def _chunks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk
