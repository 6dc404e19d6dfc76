"""Imports sources as one more world version.

The Spark job shares everything here but reading and writing.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import shapely
from pyproj import CRS

from schemas import entity
from schemas.errors import SourceError
from spatial_udfs.entity_table import EntityTable
from world.imports.combination import CombinedEntities, combine
from world.imports.extent import Extent, extent_of, placement_warnings, scale_warning
from world.imports.import_request import ImportRequest, request_of
from world.imports.projection import epsg_code
from world.long_work import Progress, silent
from world.snapshot import entity_table
from world.sources.candidates import ProblemSummary, problem_table, problems_of, summarize
from world.sources.readings import read_sources
from world.versions.removal import remove_leftovers
from world.versions.store import WorldStore
from world.versions.version_tables import SourceFacts, VersionFacts

# Separates categories that are counted as one text; no category contains it.
_BETWEEN: Final = "\x00"
# How many entities of the version before are read to find its extent.
SAMPLE: Final = 2_000


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The result of an import; ``created`` is False if the newest version has the same input.

    ``top_categories`` has the number of entities under each first level, most first.
    """

    facts: VersionFacts
    created: bool
    problems: tuple[ProblemSummary, ...]
    top_categories: dict[str, int]
    # Only for a new version: its extent, and warnings about it.
    extent: Extent | None = None
    warnings: tuple[str, ...] = ()
    # Only for a new version: near misses, and what --snap did.
    notes: tuple[str, ...] = ()
    # Only for a new version: its entities, so that a caller need not read them again.
    combined: CombinedEntities | None = field(default=None, compare=False, repr=False)

    def entities(self) -> pa.Table | None:
        """Return the rows (UNVERSIONED_ENTITIES) of a new version, in any order; else None."""
        return None if self.combined is None else self.combined.entities

    def snapshot(self) -> EntityTable | None:
        """Return a new version as ``load_snapshot`` would load it; None if it is not new."""
        if self.combined is None:
            return None
        return entity_table(self.combined.entities, self.facts, self.combined.geometries)


def import_world(
    sources: Sequence[str | Path],
    world: str | Path,
    *,
    strict: bool = False,
    force: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> ImportReport:
    """Import the sources as one more version, unless the newest one has the same input.

    ``options`` are those of ``request_of``.
    """
    request = request_of(sources, **options)
    return import_request(request, world, strict=strict, force=force, progress=progress)


def import_request(
    request: ImportRequest,
    world: str | Path,
    *,
    strict: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> ImportReport:
    """Import what is requested as one more version, unless the newest one has the same input."""
    tell = progress or silent
    store = WorldStore(str(world))
    facts = request.describe(tell)
    with exclusive(store):
        known = None if force else same_version(store, facts, request)
        if known is not None:
            return report_of(store, known, created=False, strict=strict)
        readings = list(read_sources(request.sources, tell))
        combined = combine(readings, request.srid, tell, request.snap)
        problems = summarize(combined.problems)
        extent = extent_of(combined.geometries, combined.crs)
        warnings = placement_warnings(combined.places, _earlier_extent(store))
        warnings = warnings or scale_warning(extent, combined.crs)
        refuse_if_strict(problems, strict=strict)
        refuse_if_empty(combined.entities.num_rows, problems, warnings)
        tell("writing", 0, None)
        written = store.write_version(
            combined.entities,
            srid=epsg_code(combined.crs),
            sources=facts,
            rules_sha256=request.fingerprint(),
            problems=problem_table(combined.problems),
        )
    return ImportReport(
        facts=written,
        created=True,
        problems=problems,
        top_categories=top_categories(combined.entities),
        extent=extent,
        warnings=tuple(warnings),
        notes=combined.notes(),
        combined=combined,
    )


@contextlib.contextmanager
def exclusive(store: WorldStore) -> Iterator[None]:
    """Hold the lock of imports, and remove what killed imports left in the tables."""
    with store.locked():
        if store.local_folder() is not None:
            remove_leftovers(store, {facts.version for facts in store.versions()})
        yield


def same_version(
    store: WorldStore, facts: tuple[SourceFacts, ...], request: ImportRequest
) -> VersionFacts | None:
    """Return the newest version if it has the same sources and options; else None."""
    versions = store.versions()
    if versions and versions[-1].same_input(facts, request.fingerprint()):
        return versions[-1]
    return None


def _earlier_extent(store: WorldStore) -> Extent | None:
    """Return the approximate extent of the newest version, from a sample of its entities."""
    versions = store.versions()
    if not versions:
        return None
    shapes = store.some_geometries(versions[-1].version, SAMPLE)
    return extent_of(shapely.from_wkb(shapes), CRS.from_epsg(versions[-1].srid))


def refuse_if_strict(problems: Sequence[ProblemSummary], *, strict: bool) -> None:
    """Raise SourceError if an import is strict and has any problem."""
    if strict and problems:
        found = "; ".join(map(str, problems))
        raise SourceError(f"strict import, nothing written: {found}")


def refuse_if_empty(
    entity_count: int, problems: Sequence[ProblemSummary], warnings: Sequence[str] = ()
) -> None:
    """Raise SourceError if there is no entity: such a version would empty every neighborhood."""
    if entity_count == 0:
        found = "; ".join([*warnings, *map(str, problems)]) or "there is nothing in them to import"
        raise SourceError(f"no entity came out of the sources, nothing written: {found}")


def report_of(
    store: WorldStore, facts: VersionFacts, *, created: bool, strict: bool
) -> ImportReport:
    """Return the report of a version in the store."""
    problems = summarize(problems_of(store.problems(facts.version)))
    refuse_if_strict(problems, strict=strict)
    entities = store.entities(facts.version)
    return ImportReport(facts, created, problems, top_categories(entities))


def top_categories(entities: pa.Table) -> dict[str, int]:
    """Return the number of entities under each first level of the hierarchy, most first."""
    lists = entities.column(entity.CATEGORIES)
    # A world has few distinct lists of categories: Arrow counts them, and each is split once.
    listed = pc.value_counts(pc.binary_join(lists, _BETWEEN)).to_pylist()
    counts: Counter[str] = Counter()
    for each in listed:
        for top in {category.split("/", 1)[0] for category in each["values"].split(_BETWEEN)}:
            counts[top] += each["counts"]
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
