"""Synthetic cities: deterministic, of the asked size, and rich enough to prove things on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import shapely

from spatial_udfs.entity_table import EntityTable, Positions
from testing.synthetic_city import synthetic_city
from testing.world_writers import write_geoparquet

CITY_SIZE = 5_000


@pytest.fixture(scope="module")
def city() -> EntityTable:
    return synthetic_city(CITY_SIZE, seed=3)


def of_category(city: EntityTable, start: str) -> Positions:
    wanted = np.array([name.startswith(start) for name in city.category_names])
    owners = np.repeat(np.arange(len(city)), np.diff(city.category_offsets))
    return np.unique(owners[wanted[city.category_codes]]).astype(np.int32)


def test_same_seed_same_city(city: EntityTable) -> None:
    again = synthetic_city(CITY_SIZE, seed=3)
    assert np.array_equal(shapely.to_wkb(again.geometries), shapely.to_wkb(city.geometries))
    assert np.array_equal(again.peids, city.peids)
    assert np.array_equal(again.category_codes, city.category_codes)
    assert again.category_names == city.category_names
    assert again.names.tolist() == city.names.tolist()


def test_other_seed_other_city(city: EntityTable) -> None:
    other = synthetic_city(CITY_SIZE, seed=4)
    assert not np.array_equal(shapely.to_wkb(other.geometries), shapely.to_wkb(city.geometries))


@pytest.mark.parametrize("entities", [1, 2, 7, 30, 100, 1_001])
def test_any_size_is_met_exactly(entities: int) -> None:
    city = synthetic_city(entities)
    assert len(city) == len(city.geometries) == len(city.names) == entities
    assert len(city.category_offsets) == entities + 1
    assert (np.diff(city.category_offsets) >= 1).all()
    assert (np.diff(city.peids) > 0).all()
    assert shapely.is_valid(city.geometries).all()


def test_no_entity_is_no_city() -> None:
    with pytest.raises(ValueError, match="at least one"):
        synthetic_city(0)


def test_every_kind_of_geometry_is_there(city: EntityTable) -> None:
    kinds = set(shapely.get_type_id(city.geometries).tolist())
    assert kinds == {0, 1, 3, 4, 5, 6}
    lines = city.geometries[shapely.get_type_id(city.geometries) == 1]
    assert shapely.is_closed(lines).any()
    areas = city.geometries[shapely.get_type_id(city.geometries) == 3]
    assert (shapely.get_num_interior_rings(areas) > 0).any()
    points = city.geometries[shapely.get_type_id(city.geometries) == 0]
    assert len(np.unique(shapely.to_wkb(points))) < len(points)


def test_streets_share_their_ends(city: EntityTable) -> None:
    streets = city.geometries[of_category(city, "road/")]
    tree = shapely.STRtree(streets)
    touching = tree.query(streets, predicate="touches")
    assert len(np.unique(touching[0])) > 0.95 * len(streets)


def test_one_zone_holds_a_third_of_all(city: EntityTable) -> None:
    (region,) = city.geometries[of_category(city, "zone/region")]
    shapely.prepare(region)
    assert 0.28 < shapely.contains(region, city.geometries).mean() < 0.4


def test_zones_nest_and_share_borders(city: EntityTable) -> None:
    districts = city.geometries[of_category(city, "zone/district")]
    quarters = city.geometries[of_category(city, "zone/quarter")]
    tree = shapely.STRtree(districts)
    # The others lie around a park, which is a hole in the district.
    assert len(tree.query(quarters, predicate="covered_by")[0]) > 0.8 * len(quarters)
    matrices = {shapely.relate(districts[0], other) for other in districts[1:]}
    assert "FF2F11212" in matrices


def test_parking_touches_streets(city: EntityTable) -> None:
    lots = city.geometries[of_category(city, "transport/parking")]
    areas = lots[shapely.get_dimensions(lots) == 2]
    tree = shapely.STRtree(city.geometries[of_category(city, "road/")])
    assert len(np.unique(tree.query(areas, predicate="touches")[0])) == len(areas)


def test_geoparquet_keeps_everything(city: EntityTable, tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "city.parquet"
    write_geoparquet(city, path)
    read = pq.read_table(path)
    assert read["peid"].to_pylist() == city.peids.tolist()
    assert read["name"].to_pylist() == city.names.tolist()
    assert read["geometry"].to_pylist() == shapely.to_wkb(city.geometries).tolist()
    first, last = read["categories"][0].as_py(), read["categories"][len(city) - 1].as_py()
    offsets, codes = city.category_offsets, city.category_codes
    assert first == [city.category_names[code] for code in codes[: offsets[1]]]
    assert last == [city.category_names[code] for code in codes[offsets[-2] :]]
    geo = json.loads(read.schema.metadata[b"geo"])
    assert geo["columns"]["geometry"]["crs"]["id"] == {"authority": "EPSG", "code": 25833}
