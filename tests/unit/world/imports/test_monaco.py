"""The sample world, imported as it ships."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import shapely

from spatial_udfs.entity_table import EntityTable
from world.imports.world_import import ImportReport, import_world
from world.snapshot import load_snapshot
from world.sources.osm.peids import SEGMENT_BASE

MONACO = Path(__file__).resolve().parents[4] / "data" / "monaco.osm.pbf"

QUARTERS = {
    4_000_000_002_220_206: "Fontvieille",
    4_000_000_002_220_207: "Monaco-Ville",
    4_000_000_002_221_178: "La Condamine",
    4_000_000_005_986_436: "La Rousse",
    4_000_000_005_986_437: "Larvotto",
    4_000_000_005_986_438: "Monte-Carlo",
}


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> tuple[ImportReport, EntityTable]:
    world = tmp_path_factory.mktemp("monaco") / "world"
    return import_world([MONACO], world), load_snapshot(str(world))


def in_category(table: EntityTable, category: str) -> np.ndarray:
    """Which entities have the category or one below it."""
    wanted = [name == category or name.startswith(f"{category}/") for name in table.category_names]
    owners = np.repeat(np.arange(len(table)), np.diff(table.category_offsets))
    result = np.zeros(len(table), bool)
    result[owners[np.array(wanted)[table.category_codes]]] = True
    return result


def test_what_is_in_it(imported: tuple[ImportReport, EntityTable]) -> None:
    report, table = imported
    assert (report.facts.srid, report.facts.entity_count) == (32632, len(table))
    counts = {
        category: int(in_category(table, category).sum())
        for category in ("road", "transport/parking", "shop", "building", "zone/admin")
    }
    # Counted with another tool. Parking: 71 with amenity=parking, one with parking;fuel.
    # Buildings: 1256 ways and 30 relations, of which two are cut off and one is a site.
    assert counts["zone/admin"] == 6
    assert counts["shop"] == 175
    assert counts["transport/parking"] == 72
    assert counts["building"] == 1283
    assert counts["road"] > 4500
    assert {"broken-geometry", "incomplete-relation", "open-area"} == set(
        report.facts.problem_counts
    )


def test_the_quarters_are_there_by_name(imported: tuple[ImportReport, EntityTable]) -> None:
    _, table = imported
    zones = in_category(table, "zone/admin/10")
    found = dict(zip(table.peids[zones].tolist(), table.names[zones], strict=True))
    assert found == QUARTERS


def test_every_road_segment_is_an_open_simple_line(
    imported: tuple[ImportReport, EntityTable],
) -> None:
    _, table = imported
    segments = table.geometries[table.peids >= SEGMENT_BASE]
    assert np.array_equal(in_category(table, "road"), table.peids >= SEGMENT_BASE)
    assert set(shapely.get_type_id(segments).tolist()) == {1}
    assert shapely.is_simple(segments).all()
    assert not shapely.is_closed(segments).any()


def test_road_segments_share_vertices_at_their_ends_only(
    imported: tuple[ImportReport, EntityTable],
) -> None:
    """The other way round too: what meets at a vertex touches, whatever crosses on bridges."""
    _, table = imported
    segments = table.geometries[table.peids >= SEGMENT_BASE]
    coordinates, owners = shapely.get_coordinates(segments, return_index=True)
    _, vertex = np.unique(coordinates, axis=0, return_inverse=True)
    is_end = np.zeros(len(owners), bool)
    is_end[np.flatnonzero(np.diff(owners, prepend=-1))] = True
    is_end[np.flatnonzero(np.diff(owners, append=len(segments)))] = True
    passing = np.bincount(vertex)[vertex]
    assert passing.max() > 4
    assert is_end[passing > 1].all()


def test_importing_again_makes_the_same_world(
    imported: tuple[ImportReport, EntityTable], tmp_path: Path
) -> None:
    report, _ = imported
    assert import_world([MONACO], tmp_path).facts.checksum == report.facts.checksum
