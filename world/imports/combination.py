"""Readings of all sources become the entities of one version: checked, projected, unique."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyproj import CRS

from spatial_udfs.entity_table import Geometries
from world.imports.duplicates import without_duplicates
from world.imports.extent import SourcePlace, joined_places, source_place
from world.imports.geometry_checks import readable, storable
from world.imports.projection import choose_crs, given_crs, project, utm_zones
from world.in_threads import in_threads
from world.progress import Progress
from world.sources.candidates import Candidates
from world.sources.problems import Problem
from world.sources.source_rows import Reading
from world.versions import tables


@dataclass(frozen=True, slots=True, eq=False)
class Combined:
    """The entities (UNVERSIONED_ENTITIES) of a version to be, and its problems."""

    entities: pa.Table
    # Of the same rows, as objects.
    geometries: Geometries
    crs: CRS
    problems: list[Problem]
    # Where the rows of each source lie, also those that are left out.
    places: list[SourcePlace]


def combine(readings: Sequence[Reading], srid: int | None, tell: Progress) -> Combined:
    """All readings in the given CRS, or in the one that fits them."""
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
    for number, (clean, found) in enumerate(in_threads(storable, placed), start=1):
        problems += found
        projected.append(clean)
        tell("projecting", number, len(usable))
    unique, found = without_duplicates(projected)
    problems += found
    written = [*in_threads(Candidates.as_table, unique)] or [
        tables.UNVERSIONED_ENTITIES.empty_table()
    ]
    geometries = np.concatenate([np.empty(0, object), *(rows.geometries for rows in unique)])
    return Combined(pa.concat_tables(written), geometries, crs, problems, places)


def _fitting_crs(usable: Sequence[tuple[Candidates, CRS]]) -> CRS:
    def count_zones() -> Counter[int]:
        return sum((utm_zones(rows.geometries, crs) for rows, crs in usable), Counter())

    return choose_crs([crs for _, crs in usable], count_zones)
