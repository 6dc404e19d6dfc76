"""Combines the readings of all sources into the checked, projected, unique rows of one version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import shapely
from pyproj import CRS

from schemas import entity
from schemas.errors import SourceError
from spatial_udfs.entity_table import Geometries, Int64s
from world.imports.extent import SourcePlace, joined_places, source_place
from world.imports.geometry_checks import near_misses, readable, storable
from world.imports.projection import choose_crs, given_crs, project, utm_zones
from world.imports.snapping import SnapResult, snap
from world.long_work import Progress, in_threads
from world.sources.candidates import Candidates, Problem, ProblemKind
from world.sources.readings import SourceRows
from world.versions import version_tables

ENTITY: Final = ("entity", "entities")


@dataclass(frozen=True, slots=True, eq=False)
class CombinedEntities:
    """The entities (UNVERSIONED_ENTITIES) of the next version, and its problems."""

    entities: pa.Table
    # The geometries of the same rows, as objects.
    geometries: Geometries
    crs: CRS
    problems: list[Problem]
    # Where the rows of each source lie, including rows that are left out.
    places: list[SourcePlace]
    # Pairs of rows that are closer than a millimetre and do not touch.
    near_misses: Int64s
    # What was inserted, if vertices were to be.
    snapped: SnapResult | None = None

    def notes(self) -> tuple[str, ...]:
        """Return what there is to say about near misses and inserted vertices."""
        notes = []
        if self.snapped is not None:
            vertices = counted(self.snapped.inserted, "vertex", "vertices")
            joined = f", joined {self.snapped.joined:,}" if self.snapped.joined else ""
            changed = counted(len(self.snapped.changed), *ENTITY)
            notes.append(f"inserted {vertices}{joined}, which changed {changed}")
            if len(self.snapped.refused):
                refused = counted(len(self.snapped.refused), *ENTITY)
                notes.append(
                    f"left {refused} as before: a vertex would have made the shape invalid"
                )
        if len(self.near_misses):
            keys = self.entities.column(entity.KEY)
            first, second = (keys[int(row)].as_py() for row in self.near_misses[0])
            pairs = counted(len(self.near_misses), "near miss", "near misses")
            notes.append(
                f"{pairs}: pairs closer than 1 mm that do not touch, such as {first} and {second}; "
                "--snap 0.001 inserts the missing vertices"
            )
        return tuple(notes)


def counted(count: int, one: str, several: str) -> str:
    """Return a number with its noun: 1 vertex, 2 vertices."""
    return f"{count:,} {one if count == 1 else several}"


def combine(
    readings: Sequence[SourceRows], srid: int | None, tell: Progress, snap_metres: float = 0
) -> CombinedEntities:
    """Return the entities of all readings, in the given CRS or in one chosen for the data.

    ``snap_metres``: the distance up to which missing vertices are inserted; 0 inserts none.
    """
    problems: list[Problem] = []
    usable: list[tuple[Candidates, CRS]] = []
    checked = in_threads(lambda reading: readable(reading.rows), readings)
    for number, (reading, (rows, found)) in enumerate(zip(readings, checked, strict=True), start=1):
        problems += [*reading.problems, *found]
        usable.append((rows, reading.crs))
        tell("checking", number, len(readings))
    places = joined_places(source_place(rows.source, rows.geometries, crs) for rows, crs in usable)
    crs = given_crs(srid) if srid is not None else _fitting_crs(usable)
    projected: list[Candidates] = []
    placed = (project(rows, source_crs, crs) for rows, source_crs in usable)
    valid = in_threads(lambda rows: storable(rows, crs), placed)
    for number, (clean, found) in enumerate(valid, start=1):
        problems += found
        projected.append(clean)
        tell("projecting", number, len(usable))
    unique, found = without_duplicates(projected)
    problems += found
    unique, found = with_unique_keys(unique)
    problems += found
    geometries = np.concatenate([np.empty(0, object), *(rows.geometries for rows in unique)])
    snapped = None
    if snap_metres:
        snapped = snap(geometries, snap_metres, tell)
        geometries = snapped.geometries
        ends = np.cumsum([len(rows) for rows in unique])[:-1]
        parts = np.split(geometries, ends) if unique else []
        unique = [replace(rows, geometries=part) for rows, part in zip(unique, parts, strict=True)]
    written = [*in_threads(Candidates.as_table, unique)] or [
        version_tables.UNVERSIONED_ENTITIES.empty_table()
    ]
    entities = pa.concat_tables(written)
    misses = near_misses(geometries, tell)
    return CombinedEntities(entities, geometries, crs, problems, places, misses, snapped)


def _fitting_crs(usable: Sequence[tuple[Candidates, CRS]]) -> CRS:
    def count_zones() -> Counter[int]:
        return sum((utm_zones(rows.geometries, crs) for rows, crs in usable), Counter())

    return choose_crs([crs for _, crs in usable], count_zones)


class Occurrence(NamedTuple):
    """One row of a peid: its place in the source and its values. ``geometry`` is WKB."""

    source: str
    locator: str
    key: str
    categories: Sequence[str]
    name: str | None
    geometry: bytes


def without_duplicates(sources: Sequence[Candidates]) -> tuple[list[Candidates], list[Problem]]:
    """Return the rows with each peid once, and a problem for each row that is left out."""
    counts = [len(rows) for rows in sources]
    peids = np.concatenate([np.empty(0, np.int64), *(rows.peids for rows in sources)])
    owner = np.repeat(np.arange(len(sources)), counts)
    begin = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    _, first, inverse = np.unique(peids, return_index=True, return_inverse=True)
    repeated = first[inverse] != np.arange(len(peids))

    def occurrence(position: int) -> Occurrence:
        rows = sources[owner[position]]
        return _occurrence(rows, position - int(begin[owner[position]]))

    problems = [
        duplicate(int(peids[later]), occurrence(int(first[inverse[later]])), occurrence(int(later)))
        for later in np.flatnonzero(repeated)
    ]
    kept = [
        rows.where(~repeated[begin[number] : begin[number + 1]])
        for number, rows in enumerate(sources)
    ]
    return kept, problems


def duplicate(peid: int, first: Occurrence, later: Occurrence) -> Problem:
    """Return the problem of a later row; an exact repetition has a kind of its own.

    Raises SourceError if the rows have different keys, and the hash made the peid from one of them.
    """
    where = f"{first.source}, {first.locator}"
    if first.key != later.key and any(entity.is_hashed(each.key, peid) for each in (first, later)):
        raise SourceError(
            f"the keys {first.key!r} ({where}) and {later.key!r} ({later.source}, {later.locator}) "
            f"both have the peid {peid}: change one of them"
        )
    different = [
        word
        for word, mine, its in (
            ("key", later.key, first.key),
            ("categories", list(later.categories), list(first.categories)),
            ("name", later.name, first.name),
            ("geometry", later.geometry, first.geometry),
        )
        if mine != its
    ]
    if different:
        kind = ProblemKind.DUPLICATE_CONFLICTING
        *others, last = different
        what = f"{', '.join(others)} and {last}" if others else last
        same = "key" if first.key == later.key != str(peid) else "peid"
        reason = f"has the {same} of {where}, but other {what}; the first stays"
    else:
        kind = ProblemKind.DUPLICATE_IDENTICAL
        reason = f"repeats {where}"
    return Problem(kind, not different, peid, later.source, later.locator, reason)


def _occurrence(rows: Candidates, position: int) -> Occurrence:
    geometry: Any = rows.geometries[position]
    return Occurrence(
        source=rows.source,
        locator=rows.locator(int(rows.ordinals[position])),
        key=rows.key_at(position),
        categories=rows.categories[position],
        name=rows.names[position],
        geometry=shapely.to_wkb(geometry),
    )


def with_unique_keys(sources: Sequence[Candidates]) -> tuple[list[Candidates], list[Problem]]:
    """Return the rows with each key once, and a problem for each row that repeats a key.

    Such a row has another peid, so it stays, with the decimal peid as its key. Where keys and peids
    are made from each other, no key can be there twice.
    """
    if not any(rows.keys_and_peids for rows in sources):
        return list(sources), []
    first: dict[str, tuple[Candidates, int]] = {}
    problems: list[Problem] = []
    result: list[Candidates] = []
    for rows in sources:
        keys = rows.keys.copy()
        for position in range(len(rows)):
            key = rows.key_at(position)
            holder, place = first.setdefault(key, (rows, position))
            if holder is rows and place == position:
                continue
            where = f"{holder.source}, {holder.locator(int(holder.ordinals[place]))}"
            reason = repeated_key(key, where)
            problems.append(rows.problem(position, ProblemKind.DUPLICATE_KEY, reason, kept=True))
            keys[position] = None
        result.append(replace(rows, keys=keys))
    return result, problems


def repeated_key(key: str, first: str) -> str:
    """Return the reason of a row that has another peid than the first row with its key."""
    return f"has the key {key!r} of {first}, but another peid; its key is now its peid"
