"""Reads the rows of all sources in their own CRS, by the options of an import."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyproj import CRS

from schemas.errors import SettingsError
from world.imports.projection import WGS84, given_crs
from world.long_work import Progress
from world.sources import geoparquet as geoparquet_source
from world.sources.candidates import Candidates, Problem
from world.sources.geojson import read_geojson
from world.sources.osm.rules import Rules, load_rules
from world.sources.raw_values import category_fault
from world.sources.source_files import SourceKind, kind_of
from world.versions.version_tables import SourceFacts

# Raise it when the same sources and rules give other entities than before.
IMPORTER_GENERATION: Final = 2


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """The options of an import; ``checked`` makes them."""

    srid: int | None
    rules: Rules
    category: str | None
    id_field: str | None

    @classmethod
    def checked(
        cls,
        *,
        srid: int | None,
        rules: str | Path | None,
        category: str | None,
        id_field: str | None,
    ) -> ImportOptions:
        """Return the options; SettingsError names a wrong one before any source is read."""
        if srid is not None:
            given_crs(srid)
        if category is not None:
            category = category.removesuffix("/")
            fault = category_fault(category)
            if fault is not None:
                raise SettingsError(f"--category: {fault}")
        return cls(srid, load_rules(rules), category, id_field)

    def fingerprint(self, sources: Sequence[SourceFacts]) -> str:
        """Return a checksum of all options; rules count only if there is an OSM source."""
        uses_rules = any(source.kind == SourceKind.OSM for source in sources)
        written = {
            "generation": IMPORTER_GENERATION,
            "srid": self.srid,
            "category": self.category,
            "idField": self.id_field,
            "rules": self.rules.sha256 if uses_rules else None,
        }
        return hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Reading:
    """Some rows of a source, and the problems found in reading them."""

    rows: Candidates
    crs: CRS
    problems: list[Problem]


def read_sources(
    paths: Sequence[Path], options: ImportOptions, tell: Progress
) -> Iterator[Reading]:
    """Yield the rows of all sources in order; all OSM extracts at the place of the first."""
    extracts = [path for path in paths if kind_of(path) is SourceKind.OSM]
    for path in paths:
        match kind_of(path):
            case SourceKind.OSM if extracts:
                # Imported only when needed, because loading osmium takes long.
                from world.sources.osm.entities import read_osm  # noqa: PLC0415

                rows, problems = read_osm(extracts, options.rules, tell)
                extracts = []
                yield Reading(rows, WGS84, problems)
            case SourceKind.GEOJSON:
                tell(f"reading {path.name}", 0, None)
                rows, problems = read_geojson(
                    path, id_field=options.id_field, category=options.category
                )
                yield Reading(rows, WGS84, problems)
            case SourceKind.GEOPARQUET:
                yield from _read_geoparquet(path, options, tell)


def _read_geoparquet(path: Path, options: ImportOptions, tell: Progress) -> Iterator[Reading]:
    layout = geoparquet_source.read_layout(
        path, id_field=options.id_field, category=options.category
    )
    total, done = geoparquet_source.row_count(path), 0
    for rows, problems in geoparquet_source.read_batches(path, layout):
        done = min(done + geoparquet_source.BATCH_ROWS, total)
        tell(f"reading {path.name}", done, total)
        yield Reading(rows, layout.crs, problems)
