"""Makes the request for an import out of options and sources, or out of an import file."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from schemas.errors import SettingsError, SourceError
from world.imports.projection import given_crs
from world.long_work import Progress
from world.sources.readings import Source
from world.sources.source_files import SourceKind, describe, kind_by_name
from world.sources.source_options import OPTION_NAMES, SourceOptions
from world.versions.version_tables import SourceFacts

# Raise it when the same sources and rules give other entities than before.
IMPORTER_GENERATION: Final = 2
FILE_KEYS: Final = frozenset({"srid", "snap", "source"})
PATH: Final = "path"
# Options that only some formats have a use for.
FORMATS_OF: Final = {
    "layer": (SourceKind.GEOPACKAGE,),
    "geometry_field": (SourceKind.GEOPARQUET, SourceKind.DELTA),
    "crs": (
        SourceKind.GEOPARQUET, SourceKind.DELTA, SourceKind.SHAPEFILE, SourceKind.GEOPACKAGE,
    ),
}  # fmt: skip
MOST_SNAP: Final = 100.0


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """What to import: ``request_of`` makes it. ``given`` is what the user named: files or one file.

    ``srid`` is the EPSG code of the version's CRS, None to choose one. ``snap`` is the distance in
    metres up to which missing vertices are inserted, 0 for none.
    """

    sources: tuple[Source, ...]
    srid: int | None
    snap: float
    import_file: Path | None = None

    def describe(self, tell: Progress) -> tuple[SourceFacts, ...]:
        """Return the facts of all sources, the import file first; reads each file once."""
        first = [] if self.import_file is None else [self.import_file]
        return describe([*first, *(source.path for source in self.sources)], tell)

    def fingerprint(self) -> str:
        """Return a checksum of everything but the sources that decides what comes out."""
        written = {
            "generation": IMPORTER_GENERATION,
            "srid": self.srid,
            "snap": self.snap,
            "sources": [
                source.options.written(is_osm=kind_by_name(source.path) is SourceKind.OSM)
                for source in self.sources
            ],
        }
        return hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()


def request_of(
    paths: Sequence[str | Path],
    *,
    srid: int | None = None,
    snap: float | None = None,
    **options: Any,
) -> ImportRequest:
    """Return the request for these sources, all with the same options, or for one import file.

    ``options`` are those of ``SourceOptions``. SettingsError names a wrong one before any source is
    read.
    """
    if not paths:
        raise SourceError("no source given")
    files = [Path(path) for path in paths]
    toml = [file for file in files if file.name.lower().endswith(".toml")]
    if not toml:
        checked = SourceOptions.checked(options, "--")
        sources = [Source(file, checked) for file in files]
        _refuse_useless(sources, "--")
        return _request(sources, srid, snap)
    if len(files) > 1:
        raise SettingsError(f"{toml[0]}: an import file stands alone; name the sources in it")
    given = [name for name, value in options.items() if value is not None]
    if given:
        option = given[0].replace("_", "-")
        raise SettingsError(f"--{option}: with an import file, write {given[0]} into {toml[0]}")
    return _request_of_file(toml[0], srid, snap)


def _request_of_file(file: Path, srid: int | None, snap: float | None) -> ImportRequest:
    """Return the request that an import file makes; options of the command go first."""
    document = _document(file)
    _refuse_unknown(document, FILE_KEYS, str(file))
    written = document.get("source")
    if not isinstance(written, list) or not written:
        raise SettingsError(f"{file}: there is no [[source]]")
    sources = [
        _source(file, table, f"{file}, source {number}")
        for number, table in enumerate(written, start=1)
    ]
    for name, kinds in (("srid", (int,)), ("snap", (int, float))):
        value = document.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
            raise SettingsError(f"{file}: {name} must be a number")
    srid = document.get("srid") if srid is None else srid
    snap = document.get("snap") if snap is None else snap
    return _request(sources, srid, snap, file)


def _request(
    sources: Sequence[Source], srid: int | None, snap: float | None, file: Path | None = None
) -> ImportRequest:
    if srid is not None:
        given_crs(srid)
    if snap is not None and not 0 <= snap <= MOST_SNAP:
        raise SettingsError(f"snap: {snap} must be metres, from 0 to {MOST_SNAP:.0f}")
    return ImportRequest(tuple(sources), srid, float(snap or 0), file)


def _refuse_useless(sources: Sequence[Source], where: str) -> None:
    """Raise SettingsError for an option that none of the sources, which share it, can use."""
    for name, kinds in FORMATS_OF.items():
        given = [source for source in sources if getattr(source.options, name) is not None]
        if given and all(kind_by_name(one.path) not in (None, *kinds) for one in given):
            option = where + (name.replace("_", "-") if where == "--" else name)
            raise SettingsError(f"{option}: not for {given[0].path}, only for {', '.join(kinds)}")


def _document(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError as error:
        raise SourceError(f"{file}: no such file") from error
    except OSError as error:
        raise SourceError(f"{file}: {error.strerror or error}") from error
    except ValueError as error:
        raise SettingsError(f"{file}: {' '.join(str(error).split())}") from error


def _source(file: Path, table: Any, where: str) -> Source:
    """Return a source of an import file, whose paths are relative to the file."""
    if not isinstance(table, dict):
        raise SettingsError(f"{where}: must be a table, [[source]]")
    _refuse_unknown(table, {PATH, *OPTION_NAMES}, where)
    options = dict(table)
    path = options.pop(PATH, None)
    if not isinstance(path, str) or not path:
        raise SettingsError(f"{where}: path must be the path of a file")
    if isinstance(options.get("rules"), str) and options["rules"]:
        options["rules"] = file.parent / options["rules"]
    others = sorted(options.keys() - {"rules"})
    if others and kind_by_name(Path(path)) is SourceKind.OSM:
        raise SettingsError(f"{where}: {others[0]} is not for OSM: only rules are")
    source = Source(file.parent / path, SourceOptions.checked(options, f"{where}: "))
    _refuse_useless([source], f"{where}: ")
    return source


def _refuse_unknown(
    table: Mapping[str, Any], known: Sequence[str] | frozenset[str] | set[str], where: str
) -> None:
    unknown = sorted(set(table) - set(known))
    if unknown:
        shown = ", ".join(sorted(known))
        raise SettingsError(f"{where}: unknown key {unknown[0]!r}; known: {shown}")
