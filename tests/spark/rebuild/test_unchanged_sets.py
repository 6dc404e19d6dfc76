"""What Spark takes over from the version before: row by row what resolving everything gives.

``tests/property/spatial_udfs/test_affected_nodes.py`` draws many more worlds, without Spark, and
shows that each rule is needed.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import shapely
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from shapely.geometry import LineString, Point

from jobs.pipeline.bulk_run import resolve_batch
from jobs.pipeline.memberships.run_facts import RunFacts
from jobs.pipeline.subscriptions import graph_slices
from jobs.pipeline.subscriptions.snapshot import open_subscriptions
from schemas.language.neighborhood import Neighborhood
from schemas.language.notation import read_neighborhood
from schemas.language.places import place_of_geometry
from spatial_udfs.bulk import buckets
from spatial_udfs.entity_table import EntityTable
from tests.scenes.bulk_scene import bulk_rows, exact_rows, write_lines, write_world
from tests.strategies.edited_worlds import Rows, rows_of
from tests.strategies.large_batches import large_batch
from tests.strategies.neighborhoods import IN_DEGREES
from tests.strategies.worlds import CATEGORIES, table_of

pytestmark = pytest.mark.spark

SAID: list[str] = []
ENTITIES = 160
SUBSCRIPTIONS = 70
FEW = settings(
    max_examples=2,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    deadline=None,
)


@pytest.fixture
def several_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small worlds have several buckets, and small batches several slices."""
    monkeypatch.setattr(buckets, "ENTITIES_PER_BUCKET", 60)
    monkeypatch.setattr(graph_slices, "MOST_TEXTS_IN_SLICE", 30)
    monkeypatch.setenv("SPAPS_BULK_MOST_CHANGED", "1.0")


def changed(dice: random.Random, world: EntityTable, count: int) -> EntityTable:
    """Some entities are gone, have come, moved, or have other categories."""
    rows = {row[0]: row for row in rows_of(world)}
    shapes = [row[2] for row in rows.values()]
    for _ in range(count):
        peid = dice.choice(sorted(rows))
        categories = tuple(dice.sample(CATEGORIES, dice.randint(1, 3)))
        kind = dice.choice(("remove", "add", "move", "recategorise"))
        if kind == "remove":
            del rows[peid]
        elif kind == "add":
            peid = dice.randrange(10**6, 10**7)
            rows[peid] = (peid, categories, dice.choice(shapes))
        elif kind == "move":
            rows[peid] = (peid, rows[peid][1], dice.choice(shapes))
        else:
            rows[peid] = (peid, categories, rows[peid][2])
    return replace(table_of(rows.values(), version=2), srid=world.srid)


def placed(dice: random.Random, world: EntityTable, wanted: Neighborhood) -> Neighborhood:
    """The same with one of the world's geometries as a reference."""
    shape = json.loads(shapely.to_geojson(dice.choice(world.geometries.tolist())))
    place = place_of_geometry(shape).text
    return replace(wanted, refs=wanted.refs[: dice.randint(0, 1)], places=(place,))


def resolved(spark: Any, world: str, lines: Path, out: Path) -> RunFacts:
    """Resolve on the newest version, from what an earlier one has left."""
    subscriptions = open_subscriptions(spark, str(lines))
    return resolve_batch(
        spark, world, None, subscriptions, str(lines), str(out), SAID.append, incremental=True
    )


@pytest.mark.usefixtures("several_cells")
@FEW
@given(seed=st.integers(0, 2**31))
def test_incremental_equals_full(
    spark: Any, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    dice = random.Random(seed)  # noqa: S311  no secret is made here
    batch = large_batch(seed, ENTITIES, SUBSCRIPTIONS)
    first = replace(batch.world, srid=IN_DEGREES)
    second = changed(dice, first, dice.choice((1, 3, 8)))
    wanted = [
        placed(dice, first, each) if dice.random() < 0.3 else each for each in batch.neighborhoods
    ]
    # Most conditions of these see far: short ones are what stays as it is.
    wanted += [
        read_neighborhood(f"({{{peid}}},{{{cats}}},{condition})")
        for peid in first.peids.tolist()[::4]
        for cats in ("road/#", "#")
        for condition in ("I", "DW0.5", "T OR DW0")
    ]
    folder = tmp_path_factory.mktemp("incremental")
    lines = write_lines(folder / "s.jsonl", wanted)
    world = write_world(folder / "world", first)
    resolved(spark, world, lines, folder / "out")
    write_world(folder / "world", second)
    taken = resolved(spark, world, lines, folder / "out").taken_over
    found, expected = bulk_rows(folder / "out", 2), exact_rows(second, wanted)
    assert set(found) - set(expected) == set()
    assert set(expected) - set(found) == set()
    assert found == expected, "a row stands twice"
    assert taken.base == 1
    assert 0 < taken.descriptors < len({each.to_json() for each in wanted})
    # Version 3 is version 1 again, out of sets that were themselves taken over.
    write_world(folder / "world", replace(first, version=3))
    assert resolved(spark, world, lines, folder / "out").taken_over.base == 2
    assert bulk_rows(folder / "out", 3) == exact_rows(first, wanted)


ROADS: Rows = [
    (number, ("road",), LineString([(number, 0), (number + 1, 0)])) for number in range(1, 7)
]
ZONE = (20, ("zone",), Point(50, 50))
# What a change does: rows before and after, a condition, and how many of the neighborhoods below
# it leaves alone.
CHANGES: dict[str, tuple[Rows, Rows, str, int]] = {
    "a reference moved": ([*ROADS, ZONE], [*ROADS, (20, ("zone",), Point(2.5, 9))], "DW9.5", 3),
    "a reference is gone": ([*ROADS, ZONE], ROADS, "NOT DW5", 3),
    "a member is gone": ([*ROADS, ZONE], [*ROADS[1:], ZONE], "DW80", 0),
    "something arrived near it": (
        [*ROADS, ZONE], [*ROADS, ZONE, (30, ("road",), Point(50, 54))], "DW5", 2,
    ),
    "something arrived far off": (
        [*ROADS, ZONE], [*ROADS, ZONE, (30, ("road",), Point(80, 80))], "D", 1,
    ),
    "something has the category now": (
        [*ROADS, ZONE, (30, ("path",), Point(50, 54))],
        [*ROADS, ZONE, (30, ("road",), Point(50, 54))], "DW5", 2,
    ),
}  # fmt: skip
SHORT = "({1},{road},DW0.25)"


@pytest.mark.usefixtures("several_cells")
@pytest.mark.parametrize("change", CHANGES)
def test_what_a_change_reaches_is_resolved(spark: Any, tmp_path: Path, change: str) -> None:
    before, after, condition, alone = CHANGES[change]
    texts = [f"({{20}},{{road}},{condition})"]
    texts += [f"({{2}},{{road}},T) • (Prev,{{road}},{condition})"]
    texts += [f"({{at:POINT(50 50)}},{{road}},{condition})", SHORT]
    wanted = [read_neighborhood(text) for text in texts]
    old, new = (replace(table_of(rows), srid=IN_DEGREES) for rows in (before, after))
    assert exact_rows(old, wanted) != exact_rows(new, wanted)
    lines = write_lines(tmp_path / "s.jsonl", wanted)
    world = write_world(tmp_path / "world", old)
    resolved(spark, world, lines, tmp_path / "out")
    write_world(tmp_path / "world", new)
    taken = resolved(spark, world, lines, tmp_path / "out").taken_over
    assert bulk_rows(tmp_path / "out", 2) == exact_rows(new, wanted)
    assert taken.descriptors == alone


def test_a_great_change_resolves_everything(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPAPS_BULK_MOST_CHANGED", "0.1")
    lines = write_lines(tmp_path / "s.jsonl", [read_neighborhood(SHORT)])
    world = write_world(tmp_path / "world", table_of(ROADS))
    SAID.clear()
    resolved(spark, world, lines, tmp_path / "out")
    write_world(tmp_path / "world", table_of(ROADS[:-1]))
    assert resolved(spark, world, lines, tmp_path / "out").taken_over.base is None
    write_world(tmp_path / "world", replace(table_of(ROADS[:-1]), srid=25832))
    resolved(spark, world, lines, tmp_path / "out")
    none = "no earlier version of this CRS has resolved sets"
    great = "1 entities are different from version 1 (16.7%, at most 10.0%: bulk.most_changed)"
    told = [line for line in SAID if line.startswith("all sets are resolved")]
    assert told == [f"all sets are resolved: {reason}" for reason in (none, great, none)]
