"""Pairs and sets of another GEOS, or of other kernels, are not used: they are computed again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from jobs.pipeline.memberships.run_facts import RunFacts
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


@pytest.fixture(scope="module")
def first(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunFacts]:
    """The folder of a run that has kept pairs and sets, for tests to copy, and its facts."""
    folder = tmp_path_factory.mktemp("first")
    world = write_world(folder / "world", drawn_city())
    facts = run_bulk(spark, world, write_lines(folder / "s.jsonl", WANTED), folder / "out")
    assert facts.related == "computed"
    assert bulk_rows(folder / "out") == exact_rows(drawn_city(), WANTED)
    return folder, facts


@pytest.fixture
def world(first: tuple[Path, RunFacts], tmp_path: Path) -> str:
    """The world of that run; the folder of the test has its subscriptions and its output."""
    shutil.copytree(first[0], tmp_path, dirs_exist_ok=True)
    return str(tmp_path / "world")


@pytest.mark.parametrize("case", CASES)
def test_what_another_version_computed_is_not_used(
    case: str, spark: Any, first: tuple[Path, RunFacts], world: str, tmp_path: Path
) -> None:
    pairs, sets = CASES[case]
    lines = tmp_path / "s.jsonl"
    expected = exact_rows(drawn_city(), WANTED)
    kept = (RESOLVED_SETS_TABLE, RELATED_TABLE) if pairs else (RESOLVED_SETS_TABLE,)
    lose_an_entity(world, kept)
    if pairs:
        DeltaTable(f"{world}/{RELATED_VERSIONS_TABLE}").update(pairs)
    DeltaTable(f"{world}/{RESOLVED_SETS_TABLE}").update(sets, predicate=f"{ENTITY} IS NULL")
    again = run_bulk(spark, world, lines, tmp_path / "out")
    assert (again.related, again.nodes) == ("computed" if pairs else "reused", first[1].nodes)
    assert bulk_rows(tmp_path / "out") == expected
    # What this run has kept is used again.
    assert run_bulk(spark, world, lines, tmp_path / "out").nodes == 0
    assert bulk_rows(tmp_path / "out") == expected


def test_the_same_version_uses_what_is_there(spark: Any, world: str, tmp_path: Path) -> None:
    """What the test above takes away is missed where it is used."""
    lose_an_entity(world, (RESOLVED_SETS_TABLE, RELATED_TABLE))
    again = run_bulk(spark, world, tmp_path / "s.jsonl", tmp_path / "out")
    assert (again.related, again.nodes) == ("reused", 0)
    assert bulk_rows(tmp_path / "out") != exact_rows(drawn_city(), WANTED)
