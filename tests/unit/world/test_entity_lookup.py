"""Entities by key and peid, in worlds of this release and of one before there were keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from testing.synthetic_city import SRID, synthetic_city
from testing.world_writers import entity_rows
from world.entity_lookup import EntityLookup, open_lookup
from world.snapshot import load_snapshot
from world.versions.store import WorldStore

CITY = synthetic_city(50, seed=3)


@pytest.fixture
def old_world(tmp_path: Path) -> Path:
    """A world as the first release wrote it: its table of entities has no keys."""
    rows = entity_rows(CITY)
    WorldStore(str(tmp_path)).write_version(rows, srid=SRID)
    uri = str(tmp_path / "entities")
    columns = DeltaTable(uri).to_pyarrow_table().drop_columns(["key"])
    write_deltalake(
        uri, columns, mode="overwrite", schema_mode="overwrite", partition_by=["version"]
    )
    assert "key" not in [field.name for field in DeltaTable(uri).schema().fields]
    return tmp_path


def test_monaco_by_key_and_by_peid(monaco_world: Path) -> None:
    table = load_snapshot(str(monaco_world))
    for lookup in (EntityLookup(table), open_lookup(str(monaco_world))):
        assert lookup.peid_of("relation/5986438") == 4_000_000_005_986_438
        facts = lookup.facts_of(4_000_000_005_986_438)
        assert facts is not None
        assert (facts.key, facts.name) == ("relation/5986438", "Monte-Carlo")
        assert "zone/admin/10" in facts.categories
        assert lookup.peid_of("relation/1") is None
        assert lookup.peid_of("4000000005986438") is None
        assert lookup.facts_of(1) is None
        every = [lookup.facts_at(position) for position in range(len(table))]
        found = lookup.peids_of([facts.key for facts in every] + ["relation/1"])
        assert found == {facts.key: facts.peid for facts in every}
        assert len(found) == len(table)


def test_a_world_of_before_there_were_keys_opens(old_world: Path) -> None:
    """The key of an entity is then its peid in decimal."""
    table = load_snapshot(str(old_world))
    assert table.keys is None
    lookup = open_lookup(str(old_world))
    first = int(CITY.peids[0])
    assert lookup.peid_of(str(first)) == first
    assert lookup.peid_of(f"0{first}") is None
    assert lookup.peid_of("1") is None
    assert lookup.peids_of([str(first), "x"]) == {str(first): first}
    facts = lookup.facts_of(first)
    assert facts is not None
    assert facts.key == str(first)


def test_the_next_version_of_such_a_world_has_keys(old_world: Path) -> None:
    rows = entity_rows(CITY)
    at = rows.schema.get_field_index("key")
    named = rows.set_column(at, "key", [[f"entity {n}" for n in range(len(CITY))]])
    facts = WorldStore(str(old_world)).write_version(named, srid=SRID)
    assert open_lookup(str(old_world)).peid_of("entity 7") == CITY.peids[7]
    before = open_lookup(str(old_world), facts.version - 1)
    assert before.peid_of(str(CITY.peids[7])) == CITY.peids[7]
    assert load_snapshot(str(old_world), 1).keys is None
