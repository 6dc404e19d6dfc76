"""What is written comes back the same; what is broken says so in one line."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import shapely
from deltalake import write_deltalake

from schemas.errors import WorldError
from spatial_udfs.entity_table import EntityTable
from testing.synthetic_city import SRID, synthetic_city
from testing.world_writers import entity_rows, write_geoparquet
from world.imports.world_import import import_world
from world.snapshot import load_snapshot
from world.versions import version_tables
from world.versions.store import WorldStore
from world.versions.version_tables import content_checksum

CITY = synthetic_city(500, seed=3)


def categories(table: EntityTable) -> list[list[str]]:
    bounds = table.category_offsets
    return [
        sorted(table.category_names[code] for code in table.category_codes[start:stop])
        for start, stop in itertools.pairwise(bounds)
    ]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two versions: the city, and its first ten entities."""
    world = tmp_path_factory.mktemp("snapshot") / "world"
    rows = entity_rows(CITY)
    WorldStore(str(world)).write_version(rows, srid=SRID)
    WorldStore(str(world)).write_version(rows.slice(0, 10), srid=SRID)
    return world


@pytest.fixture
def world(written: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(written, tmp_path / "world"))


def one_line(error: pytest.ExceptionInfo[WorldError], world: Path) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert str(world) in text
    return text


def test_a_version_comes_back_as_it_was_written(written: Path) -> None:
    table = load_snapshot(str(written), 1)
    assert (table.version, table.srid) == (1, SRID)
    assert np.array_equal(table.peids, CITY.peids)
    assert shapely.equals_identical(table.geometries, CITY.geometries).all()
    assert np.array_equal(table.names, CITY.names)
    assert categories(table) == categories(CITY)
    assert table.peids.dtype == np.int64
    assert table.category_codes.dtype == np.int32
    assert table.category_offsets.dtype == np.int64


def test_the_newest_version_is_the_default(written: Path) -> None:
    assert load_snapshot(str(written)).peids.tolist() == CITY.peids[:10].tolist()


def test_only_the_version_that_is_asked_for_is_read(world: Path) -> None:
    shutil.rmtree(world / "entities" / "version=1")
    assert len(load_snapshot(str(world), 2)) == 10
    with pytest.raises(WorldError) as error:
        load_snapshot(str(world), 1)
    one_line(error, world)


def test_rows_in_any_order_are_sorted(tmp_path: Path) -> None:
    """A writer with several files gives no order between them."""
    store = WorldStore(str(tmp_path))
    rows = entity_rows(CITY)
    facts = store.write_version(rows, srid=SRID)
    shuffled = rows.take(np.random.default_rng(0).permutation(len(CITY)))
    numbers = pa.array([1] * len(CITY), pa.int64())
    write_deltalake(
        store.table_uri("entities"), shuffled.add_column(0, "version", numbers), mode="overwrite"
    )
    table = load_snapshot(str(tmp_path))
    assert table.version == facts.version
    assert np.array_equal(table.peids, CITY.peids)
    assert shapely.equals_identical(table.geometries, CITY.geometries).all()
    assert categories(table) == categories(CITY)


def test_a_missing_world_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="spaps import") as error:
        load_snapshot(str(tmp_path / "nowhere"))
    one_line(error, tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("version", [0, 3, -1])
def test_a_missing_version_says_which_there_are(written: Path, version: int) -> None:
    with pytest.raises(WorldError, match=rf"no version {version} \(there: 1, 2\)"):
        load_snapshot(str(written), version)


def test_missing_rows_are_noticed(world: Path) -> None:
    WorldStore(str(world)).open_table("entities").delete(f"peid = {CITY.peids[3]}")
    with pytest.raises(WorldError, match="should have 500 entities, its table has 499") as error:
        load_snapshot(str(world), 1)
    one_line(error, world)


def test_a_damaged_file_is_noticed(world: Path) -> None:
    for file in (world / "entities").rglob("*.parquet"):
        file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(WorldError) as error:
        load_snapshot(str(world))
    one_line(error, world)


def test_a_damaged_log_is_noticed(world: Path) -> None:
    for file in (world / "versions" / "_delta_log").glob("*.json"):
        file.write_text("{")
    with pytest.raises(WorldError) as error:
        load_snapshot(str(world))
    one_line(error, world)


def test_damaged_geometry_is_noticed(tmp_path: Path) -> None:
    rows = entity_rows(CITY).set_column(3, "geometry", pa.array([b"\x01\x02"] * len(CITY)))
    WorldStore(str(tmp_path)).write_version(rows, srid=SRID)
    with pytest.raises(WorldError, match="broken geometry") as error:
        load_snapshot(str(tmp_path))
    one_line(error, tmp_path)


def test_entities_are_stored_by_peid(written: Path) -> None:
    stored = WorldStore(str(written)).entities(1)
    assert stored.column("peid").to_pylist() == CITY.peids.tolist()


def test_the_checksum_does_not_depend_on_the_order_of_rows() -> None:
    rows = entity_rows(CITY)
    shuffled = rows.take(np.random.default_rng(1).permutation(len(CITY)))
    assert content_checksum(shuffled) == content_checksum(rows)


@pytest.mark.parametrize(
    "other",
    [
        {"peid": 2},
        {"categories": ["ab"]},
        {"categories": ["b", "a"]},
        {"categories": ["a"]},
        {"name": "x"},
        {"name": ""},
        {"geometry": b"\x02"},
        {"key": "a"},
    ],
    ids=str,
)
def test_the_checksum_sees_every_change(other: dict[str, object]) -> None:
    row = {"peid": 1, "categories": ["a", "b"], "name": None, "geometry": b"\x01", "key": "1"}
    first, second = (
        content_checksum(pa.Table.from_pylist([version], version_tables.UNVERSIONED_ENTITIES))
        for version in (row, row | other)
    )
    assert first != second


def test_equal_rows_do_not_cancel_out() -> None:
    row = {"peid": 1, "categories": ["a"], "name": None, "geometry": b"\x01"}
    sums = {
        content_checksum(pa.Table.from_pylist([row] * count, version_tables.UNVERSIONED_ENTITIES))
        for count in (0, 1, 2, 3)
    }
    assert len(sums) == 4


def test_an_import_gives_what_reading_its_version_gives(tmp_path: Path) -> None:
    source = tmp_path / "city.parquet"
    write_geoparquet(CITY, source)
    report = import_world([source], tmp_path / "world")
    given, read = report.snapshot(), load_snapshot(str(tmp_path / "world"))
    assert given is not None
    assert (given.version, given.srid) == (read.version, read.srid)
    assert given.peids.tolist() == read.peids.tolist()
    assert given.names.tolist() == read.names.tolist()
    assert categories(given) == categories(read)
    assert shapely.to_wkb(given.geometries).tolist() == shapely.to_wkb(read.geometries).tolist()
    assert import_world([source], tmp_path / "world").snapshot() is None
