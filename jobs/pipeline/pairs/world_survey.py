"""A first look at all entities of a version: their categories, and where they lie.

Tasks read the files themselves; what comes to the driver is small however large the world is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
import shapely
from pyspark.sql import SparkSession

from jobs.pipeline.lake_tables import LakeTable, TableFile
from jobs.pipeline.world_tables import WorldVersion
from schemas.entity import CATEGORIES, ENTITIES_TABLE, GEOMETRY, PEID
from spatial_udfs.bulk.category_sets import Vocabulary, in_order, vocabulary_of
from spatial_udfs.bulk.python_workers import spare_idle_work
from spatial_udfs.bulk.world_tiles import LARGEST_SAMPLE, Places
from spatial_udfs.topology.shapes import stored_geometries

spare_idle_work()


@dataclass(frozen=True, slots=True, eq=False)
class WorldSurvey:
    """The category sets of a version, its diameter, and where some of its entities lie."""

    vocabulary: Vocabulary
    diameter: float
    places: Places


class _Part(NamedTuple):
    sets: set[tuple[str, ...]]
    box: tuple[float, float, float, float]  # nan where there is nothing
    places: Places


def survey_world(spark: SparkSession, world: WorldVersion) -> WorldSurvey:
    """Look at every entity once."""
    shares = _row_groups(world.files, spark.sparkContext.defaultParallelism)
    one_of = -(-world.entity_count // LARGEST_SAMPLE) or 1
    task = _survey_task(world.table(ENTITIES_TABLE), one_of)
    parts = (
        spark.sparkContext.parallelize(shares, max(len(shares), 1)).mapPartitions(task).collect()
    )
    sets = set().union(*(part.sets for part in parts)) if parts else set()
    boxes = np.array([part.box for part in parts], np.float64).reshape(-1, 4)
    places = [np.empty((0, 2)), *(part.places for part in parts)]
    west, south = np.nanmin(boxes[:, :2], axis=0, initial=np.inf)
    east, north = np.nanmax(boxes[:, 2:], axis=0, initial=-np.inf)
    # No two entities are further apart than the box around all is wide.
    diameter = float(np.hypot(east - west, north - south)) if west <= east else 0.0
    return WorldSurvey(in_order(sets), diameter, np.concatenate(places))


def _row_groups(files: tuple[TableFile, ...], parallelism: int) -> list[tuple[str, int, int]]:
    """(file, part, of): every ``of``-th row group of a file, from number ``part``."""
    of = -(-2 * parallelism // max(len(files), 1))
    return [(file.path, part, of) for file in files for part in range(of)]


def _survey_task(
    table: LakeTable, one_of: int
) -> Callable[[Iterable[tuple[str, int, int]]], Iterator[_Part]]:
    def survey(shares: Iterable[tuple[str, int, int]]) -> Iterator[_Part]:
        store = table.store()
        for path, part, of in shares:
            with store.open_input_file(path) as opened:
                file = pq.ParquetFile(opened)
                groups = list(range(part, file.num_row_groups, of))
                if groups:
                    columns = [PEID, CATEGORIES, GEOMETRY]
                    rows = file.read_row_groups(groups, columns=columns, use_threads=False)
                    written, peids = (rows.column(name).to_numpy() for name in (GEOMETRY, PEID))
                    corners = shapely.bounds(stored_geometries(written, peids))
                    low, high = corners[:, :2], corners[:, 2:]
                    box = (*np.nanmin(low, axis=0), *np.nanmax(high, axis=0))
                    drawn = low[::one_of]
                    yield _Part(
                        vocabulary_of(rows.column(CATEGORIES)),
                        box,
                        drawn[~np.isnan(drawn).any(axis=1)],
                    )

    return survey
