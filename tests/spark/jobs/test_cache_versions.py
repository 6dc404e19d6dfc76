"""Pairs and sets of another GEOS, or of other kernels, are not used: they are computed again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from schemas.entity import (
    CHECKSUM,
    ENGINE,
    ENTITY,
    METHOD,
    RELATED_TABLE,
    RELATED_VERSIONS_TABLE,
    RESOLVED_SETS_TABLE,
)
from schemas.language.notation import read_neighborhood
from tests.scenes.bulk_scene import bulk_rows, exact_rows, run_bulk, write_lines, write_world
from tests.strategies.drawn_city import drawn_city

pytestmark = pytest.mark.spark

WANTED = [read_neighborhood("({1},{road/#},C) • 2(Prev,{road/#},T)")]
# What the rows that vouch for pairs and for sets say when something else made them.
OTHER_GEOS = (
    {ENGINE: "'GEOS 0.0.1'"},
    {CHECKSUM: f"concat(split_part({CHECKSUM}, ' ', 1), ' GEOS 0.0.1')"},
)
OTHER_PAIRS = ({METHOD: f"{METHOD} - 1"}, {METHOD: f"{METHOD} - 1000"})
OTHER_SETS = (None, {METHOD: f"{METHOD} - 1"})
CASES = {"GEOS": OTHER_GEOS, "kernels of pairs": OTHER_PAIRS, "kernels of sets": OTHER_SETS}


def lose_an_entity(world: str, tables: tuple[str, ...]) -> None:
    """Take one entity out of what earlier runs have kept, so that using it shows."""
    rows = DeltaTable(f"{world}/{RESOLVED_SETS_TABLE}").to_pyarrow_table(columns=[ENTITY])
    lost = max(peid for peid in rows.column(0).to_pylist() if peid is not None)
    for name in tables:
        DeltaTable(f"{world}/{name}").delete(f"{ENTITY} = {lost}")


@pytest.mark.parametrize("case", CASES)
def test_what_another_version_computed_is_not_used(case: str, spark: Any, tmp_path: Path) -> None:
    pairs, sets = CASES[case]
    world = write_world(tmp_path / "world", drawn_city())
    lines = write_lines(tmp_path / "s.jsonl", WANTED)
    expected = exact_rows(drawn_city(), WANTED)
    first = run_bulk(spark, world, lines, tmp_path / "out")
    assert (first.related, bulk_rows(tmp_path / "out")) == ("computed", expected)
    kept = (RESOLVED_SETS_TABLE, RELATED_TABLE) if pairs else (RESOLVED_SETS_TABLE,)
    lose_an_entity(world, kept)
    if pairs:
        DeltaTable(f"{world}/{RELATED_VERSIONS_TABLE}").update(pairs)
    DeltaTable(f"{world}/{RESOLVED_SETS_TABLE}").update(sets, predicate=f"{ENTITY} IS NULL")
    again = run_bulk(spark, world, lines, tmp_path / "out")
    assert (again.related, again.nodes) == ("computed" if pairs else "reused", first.nodes)
    assert bulk_rows(tmp_path / "out") == expected
    # What this run has kept is used again.
    assert run_bulk(spark, world, lines, tmp_path / "out").nodes == 0
    assert bulk_rows(tmp_path / "out") == expected


def test_the_same_version_uses_what_is_there(spark: Any, tmp_path: Path) -> None:
    """What the test above takes away is missed where it is used."""
    world = write_world(tmp_path / "world", drawn_city())
    lines = write_lines(tmp_path / "s.jsonl", WANTED)
    run_bulk(spark, world, lines, tmp_path / "out")
    lose_an_entity(world, (RESOLVED_SETS_TABLE, RELATED_TABLE))
    again = run_bulk(spark, world, lines, tmp_path / "out")
    assert (again.related, again.nodes) == ("reused", 0)
    assert bulk_rows(tmp_path / "out") != exact_rows(drawn_city(), WANTED)
