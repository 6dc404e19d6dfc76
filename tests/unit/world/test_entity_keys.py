"""Entities by key and peid, in worlds of this release and of one before there were keys."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from deltalake import DeltaTable, write_deltalake

from spatial_udfs.entity_keys import key_at, peids_of_keys
from testing.synthetic_city import SRID, synthetic_city
from testing.world_writers import entity_rows
from world.snapshot import load_attributes, load_snapshot
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
    for table in (load_snapshot(str(monaco_world)), load_attributes(str(monaco_world))):
        number = 4_000_000_005_986_438
        assert peids_of_keys(table, ["relation/5986438"]) == {"relation/5986438": number}
        (position,) = table.positions_of(np.array([number]))[0]
        assert (key_at(table, position), table.names[position]) == (
            "relation/5986438", "Monte-Carlo",
        )  # fmt: skip
        assert "zone/admin/10" in table.categories_at(position)
        assert peids_of_keys(table, ["relation/1"]) == {}
        assert peids_of_keys(table, ["4000000005986438"]) == {}
        every = [key_at(table, position) for position in range(len(table))]
        found = peids_of_keys(table, [*every, "relation/1"])
        assert found == dict(zip(every, table.peids.tolist(), strict=True))
        assert len(found) == len(table)


def test_a_world_of_before_there_were_keys_opens(old_world: Path) -> None:
    """The key of an entity is then its peid in decimal."""
    assert load_snapshot(str(old_world)).keys is None
    table = load_attributes(str(old_world))
    first = int(CITY.peids[0])
    assert peids_of_keys(table, [str(first)]) == {str(first): first}
    assert peids_of_keys(table, [f"0{first}"]) == {}
    assert peids_of_keys(table, ["1"]) == {}
    assert peids_of_keys(table, [str(first), "x"]) == {str(first): first}
    assert key_at(table, 0) == str(first)


def test_the_next_version_of_such_a_world_has_keys(old_world: Path) -> None:
    rows = entity_rows(CITY)
    at = rows.schema.get_field_index("key")
    named = rows.set_column(at, "key", [[f"entity {n}" for n in range(len(CITY))]])
    facts = WorldStore(str(old_world)).write_version(named, srid=SRID)
    seventh = CITY.peids[7]
    new = load_attributes(str(old_world))
    assert peids_of_keys(new, ["entity 7"]) == {"entity 7": seventh}
    before = load_attributes(str(old_world), facts.version - 1)
    assert peids_of_keys(before, [str(seventh)]) == {str(seventh): seventh}
    assert load_snapshot(str(old_world), 1).keys is None
