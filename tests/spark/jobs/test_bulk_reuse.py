"""Related pairs are computed once for a world version, and only what changed for the next one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from deltalake import DeltaTable
from shapely import affinity

from schemas.entity import (
    ENTITIES_TABLE,
    ENTITY,
    PAIR_KIND,
    PROBLEMS_TABLE,
    REFERENCE,
    RELATED_TABLE,
    VERSIONS_TABLE,
)
from schemas.language.neighborhood import Neighborhood
from schemas.language.notation import read_neighborhood
from spatial_udfs.entity_table import EntityTable
from testing.synthetic_city import synthetic_city
from tests.oracle.definition import entities_of
from tests.scenes.bulk_scene import (
    bulk_rows,
    exact_rows,
    forget_sets,
    run_bulk,
    write_lines,
    write_world,
)
from tests.strategies.worlds import table_of
from world.versions.removal import DERIVED_TABLES, remove_versions
from world.versions.store import WorldStore

pytestmark = pytest.mark.spark

Pair = tuple[int, int, int]


def changed(table: EntityTable, version: int) -> EntityTable:
    """Some entities moved, gone, new, or in another category; the others as they were."""
    rows = [(each.peid, each.categories, each.geometry) for each in entities_of(table)]
    moved = [(peid, names, affinity.translate(shape, 40, 25)) for peid, names, shape in rows[:15]]
    renamed = [(peid, (*names, "renamed"), shape) for peid, names, shape in rows[15:25]]
    streets = [shape for _, names, shape in rows if names[0].startswith("road")]
    # New ones cross others, and have the smallest and the largest peids.
    new = [
        (peid, ("road/new",), affinity.scale(street, 2, 2))
        for peid, street in zip((0, 1, 2**62, 2**62 + 1), streets[50:54], strict=True)
    ]
    return table_of([*moved, *renamed, *rows[40:], *new], version)


def pairs_of(world: str, version: int) -> set[Pair]:
    """The related pairs as the table has them."""
    rows = DeltaTable(f"{world}/{RELATED_TABLE}").to_pyarrow_table(
        filters=[("version", "=", version)], columns=[REFERENCE, ENTITY, PAIR_KIND]
    )
    pairs = list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
    assert len(pairs) == len(set(pairs))
    return set(pairs)


def table_state(world: str) -> int:
    return DeltaTable(f"{world}/{RELATED_TABLE}").version()


def test_reused_then_derived_then_as_if_from_scratch(spark: Any, tmp_path: Path) -> None:
    first = synthetic_city(1_500, seed=6)
    second = changed(first, 2)
    zones = [each.peid for each in entities_of(first) if each.categories[0].startswith("zone")]
    wanted = [
        read_neighborhood(f"({{{zone}}},{{road/#}},C OR X) • (Prev,{{road/#}},T)") for zone in zones
    ]
    lines = write_lines(tmp_path / "s.jsonl", wanted)
    world = write_world(tmp_path / "world", first)

    computed = run_bulk(spark, world, lines, tmp_path / "out")
    assert computed.related == "computed"
    written = table_state(world)
    assert bulk_rows(tmp_path / "out") == exact_rows(first, wanted)

    forget_sets(world)
    again = run_bulk(spark, world, lines, tmp_path / "again")
    assert (again.related, again.nodes) == ("reused", computed.nodes)
    assert table_state(world) == written
    assert bulk_rows(tmp_path / "again") == bulk_rows(tmp_path / "out")

    before = pairs_of(world, 1)
    kept = lost_pair(first, second, before, wanted)
    # Whatever version 2 takes over cannot have this pair any more; computed anew, it would.
    related = DeltaTable(f"{world}/{RELATED_TABLE}")
    related.delete(f"{REFERENCE} = {kept[0]} AND {ENTITY} = {kept[1]}")
    write_world(tmp_path / "world", second)
    derived = run_bulk(spark, world, lines, tmp_path / "out")
    assert derived.related == "derived from version 1"
    assert bulk_rows(tmp_path / "out", 2) == exact_rows(second, wanted)
    assert bulk_rows(tmp_path / "out", 1) == exact_rows(first, wanted)

    scratch = write_world(tmp_path / "scratch", second)
    assert run_bulk(spark, scratch, lines, tmp_path / "fresh").related == "computed"
    assert bulk_rows(tmp_path / "fresh") == exact_rows(second, wanted)
    assert pairs_of(scratch, 1) - pairs_of(world, 2) == {kept}
    assert pairs_of(world, 2) - pairs_of(scratch, 1) == set()


def test_what_a_run_keeps_goes_with_its_version(spark: Any, tmp_path: Path) -> None:
    first = synthetic_city(300, seed=6)
    wanted = [read_neighborhood(f"({{{first.peids[0]}}},{{#}},I)")]
    lines = write_lines(tmp_path / "s.jsonl", wanted)
    world = write_world(tmp_path / "world", first)
    run_bulk(spark, world, lines, tmp_path / "out")
    write_world(tmp_path / "world", changed(first, 2))
    run_bulk(spark, world, lines, tmp_path / "out")
    names = {path.parent.name for path in Path(world).glob("*/_delta_log")}
    kept_beside = names - {ENTITIES_TABLE, VERSIONS_TABLE, PROBLEMS_TABLE}
    assert kept_beside == set(DERIVED_TABLES)
    assert all(versions_in(world, name) == {1, 2} for name in kept_beside)
    orphan = Path(world) / RELATED_TABLE / "version=1" / "bucket=0" / "part-orphan.parquet"
    orphan.write_bytes(b"left by a killed run")
    os.utime(orphan, (0, 0))
    remove_versions(WorldStore(world), {2})
    assert all(versions_in(world, name) == {2} for name in kept_beside)
    assert not orphan.exists()
    assert run_bulk(spark, world, lines, tmp_path / "again").related == "reused"


def versions_in(world: str, name: str) -> set[int]:
    rows = DeltaTable(f"{world}/{name}").to_pyarrow_table(columns=["version"])
    return set(rows.column(0).to_pylist())


def lost_pair(
    first: EntityTable, second: EntityTable, pairs: set[Pair], wanted: list[Neighborhood]
) -> Pair:
    """A pair of two shops or parking lots, unchanged and no reference: no result needs it."""
    same = {
        peid
        for peid, shape in zip(first.peids.tolist(), first.geometries, strict=True)
        if _geometry(second, peid) == shape
    }
    references = {peid for each in wanted for peid in each.refs}
    quiet = {
        each.peid
        for each in entities_of(second)
        if each.peid in same - references and not each.categories[0].startswith(("road", "zone"))
    }
    return min(pair for pair in pairs if pair[0] in quiet and pair[1] in same)


def _geometry(table: EntityTable, peid: int) -> shapely.Geometry | None:
    place = int(np.searchsorted(table.peids, peid))
    there = place < len(table) and table.peids[place] == peid
    return table.geometries[place] if there else None
