"""What is different between two versions, entity by entity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import shapely

from testing.world_writers import entity_rows
from tests.strategies.worlds import table_of
from world.snapshot import load_snapshot
from world.versions.changes import compare_entities, compare_versions
from world.versions.removal import remove_versions, versions_to_keep
from world.versions.store import WorldStore

Rows = dict[int, tuple[tuple[str, ...], Any]]

TOWN: Rows = {
    1: (("zone",), shapely.box(0, 0, 9, 9)),
    2: (("road/minor", "road/one way"), shapely.LineString([(0, 0), (1, 1)])),
    3: (("shop",), shapely.Point(1, 2)),
    4: (("shop",), shapely.Point(3, 2)),
}


def entities(rows: Rows) -> Any:
    return entity_rows(table_of((peid, *row) for peid, row in rows.items()))


def kinds(new: Rows, **options: bool) -> dict[str, list[int]]:
    changes = compare_entities(entities(TOWN), entities(new), **options)
    names = ("added", "removed", "moved", "recategorised", "renamed")
    return {name: found for name in names if (found := getattr(changes, name).tolist())}


def test_nothing_is_different() -> None:
    assert kinds(TOWN) == {}


def test_each_kind_of_change() -> None:
    new = {peid: row for peid, row in TOWN.items() if peid != 4}
    new[5] = (("shop",), shapely.Point(3, 2))
    new[3] = (("shop",), shapely.Point(1, 2.5))
    new[1] = (("zone", "zone/old town"), TOWN[1][1])
    found = kinds(new)
    assert found == {"added": [5], "removed": [4], "moved": [3], "recategorised": [1]}


def test_moved_and_recategorised_at_once() -> None:
    new = TOWN | {3: (("shop/food",), shapely.Point(7, 7))}
    assert kinds(new) == {"moved": [3], "recategorised": [3]}
    changes = compare_entities(entities(TOWN), entities(new))
    assert changes.touched().tolist() == changes.arrived().tolist() == [3]


def test_the_order_of_categories_says_nothing() -> None:
    assert kinds(TOWN | {2: (("road/one way", "road/minor"), TOWN[2][1])}) == {}


def test_in_another_crs_everything_has_moved() -> None:
    assert kinds(TOWN, same_crs=False) == {"moved": [1, 2, 3, 4]}


@pytest.fixture
def store(tmp_path: Path) -> WorldStore:
    made = WorldStore(str(tmp_path / "world"))
    for number in range(4):
        made.write_version(entities(TOWN | {10 + number: TOWN[3]}), srid=25833)
    return made


def test_versions_of_a_store(store: WorldStore) -> None:
    assert compare_versions(store, 1, 1).counts()["added"] == 0
    assert compare_versions(store, 1, 2).counts() == {
        "added": 1, "removed": 1, "moved": 0, "recategorised": 0, "renamed": 0,
    }  # fmt: skip


def test_old_versions_go_and_the_others_stay_whole(store: WorldStore) -> None:
    kept = versions_to_keep(store, 2, in_use={1})
    assert kept == {1, 3, 4}
    assert remove_versions(store, kept) == [2]
    assert [facts.version for facts in store.versions()] == [1, 3, 4]
    for version in kept:
        assert len(load_snapshot(store.path, version)) == len(TOWN) + 1
    assert store.entities(2).num_rows == 0
    assert remove_versions(store, kept) == []
    assert store.write_version(entities(TOWN), srid=25833).version == 5
