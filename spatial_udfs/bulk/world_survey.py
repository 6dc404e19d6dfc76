"""A first look at the entities of a version: their categories, and where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely

from schemas.entity import CATEGORIES, GEOMETRY, PEID
from spatial_udfs.bulk.category_sets import Vocabulary, in_order, vocabulary_of
from spatial_udfs.bulk.sedona_joins import copied_bytes
from spatial_udfs.bulk.world_tiles import Places
from spatial_udfs.topology.shapes import stored_geometries


@dataclass(frozen=True, slots=True, eq=False)
class WorldSurvey:
    """The category sets of a version, its diameter, and where some of its entities lie."""

    vocabulary: Vocabulary
    diameter: float
    places: Places
    copied: int  # bytes of large entities, if each piece has them; 0 where there are none


class SurveyPart(NamedTuple):
    """What there is of some entities."""

    sets: set[tuple[str, ...]]
    box: tuple[float, float, float, float]  # nan where there is nothing
    places: Places
    copied: int


def surveyed_rows(rows: pa.Table, one_of: int) -> SurveyPart:
    """Return what there is of some entities; of every so many the place is kept."""
    written, peids = (rows.column(name).to_numpy() for name in (GEOMETRY, PEID))
    shapes = stored_geometries(written, peids)
    corners = shapely.bounds(shapes)
    low, high = corners[:, :2], corners[:, 2:]
    box = (*np.nanmin(low, axis=0), *np.nanmax(high, axis=0))
    drawn = low[::one_of]
    sizes = pc.binary_length(rows.column(GEOMETRY)).to_numpy()
    copied = copied_bytes(sizes.astype(np.int64))
    sets = vocabulary_of(rows.column(CATEGORIES))
    return SurveyPart(sets, box, drawn[~np.isnan(drawn).any(axis=1)], copied)


def joined_survey(parts: Sequence[SurveyPart]) -> WorldSurvey:
    """Return what there is of all entities."""
    sets = set().union(*(part.sets for part in parts)) if parts else set()
    boxes = np.array([part.box for part in parts], np.float64).reshape(-1, 4)
    places = [np.empty((0, 2)), *(part.places for part in parts)]
    west, south = np.nanmin(boxes[:, :2], axis=0, initial=np.inf)
    east, north = np.nanmax(boxes[:, 2:], axis=0, initial=-np.inf)
    # No two entities are further apart than the box around all is wide.
    diameter = float(np.hypot(east - west, north - south)) if west <= east else 0.0
    copied = sum(part.copied for part in parts)
    return WorldSurvey(in_order(sets), diameter, np.concatenate(places), copied)
