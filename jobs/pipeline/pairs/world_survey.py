"""A first look at all entities of a version: their categories, and where they lie.

Tasks read the files themselves; what comes to the driver is small however large the world is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import shapely

from jobs.pipeline.exchange import DRIVER, Sent, Tasks
from jobs.pipeline.lake_tables import TableFile, lake_errors
from jobs.pipeline.world_tables import WorldVersion
from schemas.entity import CATEGORIES, ENTITIES_TABLE, GEOMETRY, PEID
from spatial_udfs.bulk.category_sets import Vocabulary, in_order, vocabulary_of
from spatial_udfs.bulk.sedona_joins import copied_bytes
from spatial_udfs.bulk.world_tiles import LARGEST_SAMPLE, Places
from spatial_udfs.topology.shapes import stored_geometries


@dataclass(frozen=True, slots=True, eq=False)
class WorldSurvey:
    """The category sets of a version, its diameter, and where some of its entities lie."""

    vocabulary: Vocabulary
    diameter: float
    places: Places
    copied: int  # bytes of large entities, if each piece has them; 0 where there are none


class _Part(NamedTuple):
    sets: set[tuple[str, ...]]
    box: tuple[float, float, float, float]  # nan where there is nothing
    places: Places
    copied: int


def survey_world(tasks: Tasks, world: WorldVersion) -> WorldSurvey:
    """Look at every entity once."""
    shares = _row_groups(world.files, tasks.parallelism)
    one_of = -(-world.entity_count // LARGEST_SAMPLE) or 1
    table = world.table(ENTITIES_TABLE)

    def survey(share: tuple[str, int, int]) -> Iterator[Sent]:
        path, part, of = share
        with lake_errors(table.uri), table.store().open_input_file(path) as opened:
            file = pq.ParquetFile(opened)
            groups = list(range(part, file.num_row_groups, of))
            if not groups:
                return
            columns = [PEID, CATEGORIES, GEOMETRY]
            rows = file.read_row_groups(groups, columns=columns, use_threads=False)
        written, peids = (rows.column(name).to_numpy() for name in (GEOMETRY, PEID))
        shapes = stored_geometries(written, peids)
        corners = shapely.bounds(shapes)
        low, high = corners[:, :2], corners[:, 2:]
        box = (*np.nanmin(low, axis=0), *np.nanmax(high, axis=0))
        drawn = low[::one_of]
        sizes = pc.binary_length(rows.column(GEOMETRY)).to_numpy()
        copied = copied_bytes(sizes.astype(np.int64))
        sets = vocabulary_of(rows.column(CATEGORIES))
        yield DRIVER, _Part(sets, box, drawn[~np.isnan(drawn).any(axis=1)], copied)

    parts: list[_Part] = tasks.run(survey, shares, "look at the world", 5 * world.entity_count)
    sets = set().union(*(part.sets for part in parts)) if parts else set()
    boxes = np.array([part.box for part in parts], np.float64).reshape(-1, 4)
    places = [np.empty((0, 2)), *(part.places for part in parts)]
    west, south = np.nanmin(boxes[:, :2], axis=0, initial=np.inf)
    east, north = np.nanmax(boxes[:, 2:], axis=0, initial=-np.inf)
    # No two entities are further apart than the box around all is wide.
    diameter = float(np.hypot(east - west, north - south)) if west <= east else 0.0
    copied = sum(part.copied for part in parts)
    return WorldSurvey(in_order(sets), diameter, np.concatenate(places), copied)


def _row_groups(files: tuple[TableFile, ...], parallelism: int) -> list[tuple[str, int, int]]:
    """(file, part, of): every ``of``-th row group of a file, from number ``part``."""
    of = -(-parallelism // max(len(files), 1))
    return [(file.path, part, of) for file in files for part in range(of)]
