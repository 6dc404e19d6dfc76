"""Finds the kind of each source file, and the checksum by which an import recognises it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from schemas.errors import SourceError
from schemas.world_places import stored_place
from world.long_work import Progress
from world.versions.version_tables import SourceFacts

CHUNK_BYTES: Final = 4 * 1024 * 1024


class SourceKind(StrEnum):
    """The kinds of sources, each with a reader of its own."""

    OSM = "osm"
    GEOJSON = "geojson"
    GEOPARQUET = "geoparquet"


SUFFIXES: Final = {
    ".osm.pbf": SourceKind.OSM,
    ".pbf": SourceKind.OSM,
    ".osm": SourceKind.OSM,
    ".osm.gz": SourceKind.OSM,
    ".geojson": SourceKind.GEOJSON,
    ".json": SourceKind.GEOJSON,
    ".parquet": SourceKind.GEOPARQUET,
    ".geoparquet": SourceKind.GEOPARQUET,
}


def kind_of(path: Path) -> SourceKind:
    """Return the kind by the file name's ending; a folder is GeoParquet in several files."""
    if not path.exists():
        raise SourceError(f"{path}: no such file")
    if path.is_dir():
        parquet_files(path)
        return SourceKind.GEOPARQUET
    for suffix, kind in SUFFIXES.items():
        if path.name.lower().endswith(suffix):
            return kind
    raise SourceError(f"{path}: cannot tell what this is; known endings: {', '.join(SUFFIXES)}")


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


def describe(paths: Sequence[Path], progress: Progress) -> tuple[SourceFacts, ...]:
    """Return the facts of all sources; reads each file completely once."""
    if not paths:
        raise SourceError("no source given")
    kinds = [kind_of(path) for path in paths]
    files = [parquet_files(path) if path.is_dir() else [path] for path in paths]
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
