"""Cleaning up never removes what a run that is still going reads or has written."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import shapely
from deltalake import DeltaTable

from schemas.entity import ENTITIES_TABLE, PROBLEMS_TABLE, VERSION
from testing.world_writers import entity_rows
from tests.strategies.worlds import table_of
from world.imports.world_import import exclusive
from world.snapshot import load_snapshot
from world.versions import removal
from world.versions.delta_tables import delta_rows
from world.versions.removal import remove_versions
from world.versions.store import WorldStore

ENTITIES = 5


def entities() -> Any:
    return entity_rows(
        table_of((peid, ("shop",), shapely.Point(peid, 1)) for peid in range(1, ENTITIES + 1))
    )


@pytest.fixture
def store(tmp_path: Path) -> WorldStore:
    made = WorldStore(str(tmp_path / "world"))
    for _ in range(3):
        made.write_version(entities(), srid=25833)
    return made


@pytest.fixture
def in_object_store(store: WorldStore, monkeypatch: pytest.MonkeyPatch) -> WorldStore:
    """A world without a lock, as one in an object store is."""
    monkeypatch.setattr(WorldStore, "local_folder", lambda _: None)
    return store


def opened(store: WorldStore) -> DeltaTable:
    return store.open_table(ENTITIES_TABLE)


def rows_of(state: DeltaTable, version: int) -> int:
    rows = delta_rows(state, [VERSION]).column(VERSION).to_pylist()
    return rows.count(version)


def test_a_reader_of_a_version_that_is_removed_reads_on(store: WorldStore) -> None:
    """As a bulk run does, whose tasks open the files of one state all the time that it runs."""
    state = opened(store)
    assert remove_versions(store, {3}) == [1, 2]
    with exclusive(store):
        pass  # the next import, which begins by clearing up
    assert rows_of(opened(store), 1) == 0
    assert [rows_of(state, version) for version in (1, 2, 3)] == [ENTITIES] * 3


def test_a_day_later_its_files_are_gone(store: WorldStore, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(store.table_uri(ENTITIES_TABLE))
    remove_versions(store, {3})
    assert len(list(folder.rglob("*.parquet"))) == 3
    monkeypatch.setattr(removal, "KEEP_FILES_HOURS", 0)
    remove_versions(store, {3})
    assert len(list(folder.rglob("*.parquet"))) == 1
    assert len(load_snapshot(store.path, 3)) == ENTITIES


def test_what_was_dropped_in_this_millisecond_stays(
    store: WorldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta's first answer may be too early to list it, and the next one not."""
    vacuum, asked = DeltaTable.vacuum, []

    def early_at_first(self: DeltaTable, *arguments: Any, **options: Any) -> Any:
        asked.append(self)
        return [] if len(asked) == 1 else vacuum(self, *arguments, **options)

    folder = Path(store.table_uri(ENTITIES_TABLE))
    monkeypatch.setattr(removal, "remove_files", lambda _: None)
    monkeypatch.setattr(removal, "SCHEMAS", [ENTITIES_TABLE])
    monkeypatch.setattr(DeltaTable, "vacuum", early_at_first)
    remove_versions(store, {3})
    assert len(asked) > 1
    assert len(list(folder.rglob("*.parquet"))) == 3


def test_files_that_no_commit_named_go_at_once(store: WorldStore) -> None:
    """Under the lock there is no import that could still commit them."""
    [written] = Path(store.table_uri(ENTITIES_TABLE)).glob("version=3/*.parquet")
    left = shutil.copyfile(written, written.with_name("left.parquet"))
    with exclusive(store):
        assert not left.exists()
    assert written.exists()


def test_an_import_into_an_object_store_is_not_disturbed(
    in_object_store: WorldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no lock: versions are removed when its rows are written and its version is not."""
    store = in_object_store
    [written] = Path(store.table_uri(ENTITIES_TABLE)).glob("version=3/*.parquet")
    uncommitted = shutil.copyfile(written, written.with_name("of-a-task.parquet"))
    replace, removed = WorldStore._replace, []

    def replace_and_remove(self: WorldStore, table: str, version: int, rows: Any) -> None:
        replace(self, table, version, rows)
        if table == PROBLEMS_TABLE:
            removed.extend(remove_versions(store, {3}))

    monkeypatch.setattr(WorldStore, "_replace", replace_and_remove)
    assert store.write_version(entities(), srid=25833).version == 4
    assert removed == [1, 2]
    assert len(load_snapshot(store.path, 4)) == ENTITIES
    assert uncommitted.exists()


def test_rows_that_a_killed_removal_left_in_an_object_store_go(in_object_store: WorldStore) -> None:
    store = in_object_store
    store.open_table("versions").delete(f"{VERSION} = 1")
    assert rows_of(opened(store), 1) == ENTITIES
    assert remove_versions(store, {2, 3}) == []
    assert [rows_of(opened(store), version) for version in (1, 2, 3)] == [0, ENTITIES, ENTITIES]
