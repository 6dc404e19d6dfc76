"""Entities of many corners choose their tiles by their pieces: fewer copies, the same pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.pipeline.pairs import related_build
from schemas.language.notation import read_neighborhood
from spatial_udfs.bulk import world_tiles
from spatial_udfs.bulk.sedona_joins import LARGE_CORNERS, TILE, tiled
from spatial_udfs.bulk.world_tiles import cut_into_tiles
from spatial_udfs.entity_table import EntityTable
from tests.scenes.bulk_scene import bulk_rows, exact_rows, run_bulk, write_lines, write_world
from tests.strategies.worlds import table_of

pytestmark = pytest.mark.spark

SIDE = 40
BORDER, RIVER = 10_000, 10_001


def country() -> EntityTable:
    """Places on a grid, long roads, and a border and a river with very many corners."""
    points = shapely.points(*np.meshgrid(np.arange(SIDE), np.arange(SIDE)))
    rows = [(peid, ("place",), point) for peid, point in enumerate(points.ravel())]
    # Crooked, as borders are: corners on a straight line count for nothing.
    middle = shapely.Point(SIDE / 2 + 0.1, SIDE / 2 + 0.2)
    around = shapely.buffer(middle, SIDE / 2, quad_segs=200)
    border = around.difference(shapely.buffer(middle, SIDE / 2 - 1.2, quad_segs=200))
    along = np.linspace(0, SIDE, 400)
    river = shapely.LineString(np.stack([along, 0.9 * along + np.sin(along)], axis=1))
    assert min(map(shapely.get_num_coordinates, (border, river))) > LARGE_CORNERS
    rows += [(BORDER, ("border",), border), (RIVER, ("river",), river)]
    rows += [
        (20_000 + at, ("road",), shapely.LineString([(at, -2), (at, SIDE + 2)]))
        for at in range(0, SIDE, 5)
    ]
    return table_of(rows)


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world_tiles, "ENTITIES_PER_TILE", 50)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("most_copied", [0, related_build.MOST_COPIED_BYTES])
def test_the_rows_are_those_of_the_exact_resolver(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_copied: int
) -> None:
    """Whether pieces bring their entity along, or are joined with it."""
    monkeypatch.setattr(related_build, "MOST_COPIED_BYTES", most_copied)
    table = country()
    wanted = [
        read_neighborhood(text)
        for reference in (BORDER, RIVER, 20_005, 0)
        for text in (f"({{{reference}}},{{#}},I) • (Anc,{{#}},I)", f"({{{reference}}},{{#}},D)",
                     f"({{{reference}}},{{#}},NOT DW3 OR X)")
    ]  # fmt: skip
    world = write_world(tmp_path / "world", table)
    run_bulk(spark, world, write_lines(tmp_path / "s.jsonl", wanted), tmp_path / "out")
    assert bulk_rows(tmp_path / "out") == exact_rows(table, wanted)


@pytest.mark.usefixtures("small_tiles")
def test_a_border_is_not_copied_into_every_tile_of_its_box(spark: Any) -> None:
    table = country()
    rows = [
        (int(peid), bytearray(shapely.to_wkb(shape)))
        for peid, shape in zip(table.peids, table.geometries, strict=True)
    ]
    frame = spark.createDataFrame(rows, "peid long, geometry binary")
    tiles = cut_into_tiles(shapely.bounds(table.geometries)[:, :2], len(table))
    of_box, joined, copied = (
        tiled(frame, tiles, with_large=with_large, may_copy=may_copy)
        .where(F.col("peid") == BORDER)
        .select(TILE)
        for with_large, may_copy in ((False, False), (True, False), (True, True))
    )
    assert of_box.count() == len(tiles)
    assert joined.count() < 0.8 * len(tiles)
    assert sorted(copied.distinct().collect()) == sorted(joined.collect())
