"""Sets that an earlier run resolved are taken from its table, and only from there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from jobs.pipeline.memberships.run_facts import RunFacts
from schemas.entity import CHECKSUM, ENTITY, NODE, RESOLVED_SETS_TABLE, RUN
from schemas.language.neighborhood import Neighborhood
from schemas.language.notation import read_neighborhood
from schemas.membership import MEMBERSHIPS_TABLE
from spatial_udfs.entity_table import EntityTable
from testing.synthetic_city import synthetic_city
from tests.oracle.definition import entities_of
from tests.scenes.bulk_scene import bulk_rows, exact_rows, run_bulk, write_lines, write_world
from world.versions import removal

pytestmark = pytest.mark.spark

Resolve = Callable[[list[Neighborhood]], RunFacts]


@pytest.fixture(scope="module")
def city() -> EntityTable:
    return synthetic_city(800, seed=3)


@pytest.fixture(scope="module")
def first(spark: Any, city: EntityTable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on the zones of a new world, for tests to copy."""
    folder = tmp_path_factory.mktemp("first")
    world = write_world(folder / "world", city)
    lines = write_lines(folder / "subscriptions.jsonl", in_zones(city))
    assert run_bulk(spark, world, lines, folder / "out").nodes == len(in_zones(city))
    return folder


@pytest.fixture
def world(first: Path, tmp_path: Path) -> str:
    """The world of that run; its output is in the folder of the test."""
    shutil.copytree(first, tmp_path, dirs_exist_ok=True)
    return str(tmp_path / "world")


@pytest.fixture
def resolve(spark: Any, tmp_path: Path, world: str) -> Resolve:
    """Resolve neighborhoods into ``out`` with whatever is known by then."""

    def run(wanted: list[Neighborhood]) -> RunFacts:
        lines = write_lines(tmp_path / "subscriptions.jsonl", wanted)
        return run_bulk(spark, world, lines, tmp_path / "out")

    return run


def in_zones(city: EntityTable, *stages: str) -> list[Neighborhood]:
    """One neighborhood for each zone: what it contains, and further stages."""
    zones = [each.peid for each in entities_of(city) if each.categories[0].startswith("zone")]
    return [
        read_neighborhood(" • ".join((f"({{{zone}}},{{road/#}},C OR X)", *stages)))
        for zone in zones
    ]


def sets_table(world: str) -> DeltaTable:
    return DeltaTable(f"{world}/{RESOLVED_SETS_TABLE}")


def test_only_what_is_new_is_resolved(resolve: Resolve, tmp_path: Path, city: EntityTable) -> None:
    short = in_zones(city)
    longer = in_zones(city, "(Prev,{road/#},T)")
    nothing = in_zones(city, "(Prev,{no/such},T)")
    # The first run resolved the short ones.
    assert resolve(short + nothing).nodes == len(nothing)
    # The same again: nothing to do, not even for the empty sets.
    assert resolve(short + nothing).nodes == 0
    assert bulk_rows(tmp_path / "out") == exact_rows(city, short + nothing)
    # Longer ones go on from the members that are known.
    assert resolve(longer + short).nodes == len(longer)
    assert bulk_rows(tmp_path / "out") == exact_rows(city, longer + short)


def test_known_members_come_from_the_table(
    resolve: Resolve, tmp_path: Path, city: EntityTable, world: str
) -> None:
    wanted = in_zones(city)
    complete = bulk_rows(tmp_path / "out")
    lost = complete[0][1]
    sets_table(world).delete(f"{ENTITY} = {lost}")
    assert resolve(wanted).nodes == 0
    assert bulk_rows(tmp_path / "out") == [row for row in complete if row[1] != lost]


def test_of_two_runs_that_resolved_a_set_one_counts(
    resolve: Resolve, tmp_path: Path, city: EntityTable, world: str
) -> None:
    wanted = in_zones(city)
    rows = sets_table(world).to_pyarrow_table()
    other_run = pa.array([run ^ 1 for run in rows.column(RUN).to_pylist()], pa.int64())
    place = rows.schema.get_field_index(RUN)
    write_deltalake(sets_table(world), rows.set_column(place, RUN, other_run), mode="append")
    assert resolve(wanted).nodes == 0
    assert bulk_rows(tmp_path / "out") == exact_rows(city, wanted)


def test_files_of_earlier_runs_go_after_a_day(
    resolve: Resolve, tmp_path: Path, city: EntityTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = in_zones(city)
    files = tmp_path / "out" / MEMBERSHIPS_TABLE / "version=1"
    [first] = files.glob("*.parquet")
    resolve(wanted)
    assert first.exists()
    monkeypatch.setattr(removal, "KEEP_FILES_HOURS", 0)
    resolve(wanted)
    assert not first.exists()
    assert len(list(files.glob("*.parquet"))) == 1
    assert bulk_rows(tmp_path / "out") == exact_rows(city, wanted)


@pytest.mark.parametrize("doubtful", [{CHECKSUM: "'of another state'"}, {"proof": "proof + 1"}])
def test_what_nothing_vouches_for_is_resolved_again(
    resolve: Resolve, tmp_path: Path, city: EntityTable, world: str, doubtful: dict[str, str]
) -> None:
    wanted = in_zones(city)
    table = sets_table(world)
    table.delete(f"{ENTITY} IS NOT NULL AND {NODE} % 2 = 0")
    table.update(doubtful, predicate=f"{ENTITY} IS NULL")
    assert resolve(wanted).nodes == len(wanted)
    assert bulk_rows(tmp_path / "out") == exact_rows(city, wanted)
