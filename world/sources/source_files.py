"""Source files: what kind each is, and the checksums by which an import knows them again."""

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
    """How a source is read."""

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
    """Return the kind by the name's ending; a folder is GeoParquet in several files."""
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
    """Return the files of a GeoParquet source in a fixed order: itself, or those in its folder."""
    if not path.is_dir():
        return [path]
    try:
        next(path.iterdir(), None)  # what cannot be listed would look empty below
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}") from error
    # Writers leave their own notes beside the data, with names that begin like these.
    files = sorted(
        file
        for file in path.rglob("*.parquet")
        if file.is_file() and not file.name.startswith(("_", "."))
    )
    if not files:
        raise SourceError(f"{path}: a folder without a .parquet file")
    return files


def describe(paths: Sequence[Path], progress: Progress) -> tuple[SourceFacts, ...]:
    """Return the facts of all sources; reads each of them once from end to end."""
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
    """Return the path as the version names it, so that a rebuild finds it from any folder."""
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
