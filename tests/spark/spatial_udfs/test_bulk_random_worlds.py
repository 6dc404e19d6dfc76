"""The whole language on random worlds: Sedona in bulk and the exact resolver agree on each row."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from jobs.pipeline import exchange
from jobs.pipeline.pairs import related_tables
from jobs.pipeline.subscriptions import graph_slices
from schemas.language.condition_parser import parse_condition
from schemas.language.conditions import Condition, Relate, WithinDistance, leaves
from schemas.language.neighborhood import Neighborhood, Stage
from schemas.topology.relations import LONG_NAMES, SHAPE_PAIRS
from spatial_udfs.batch.numbered_conditions import truth_of
from tests.scenes.bulk_scene import (
    bulk_rows,
    exact_rows,
    forget_sets,
    run_bulk,
    write_lines,
    write_world,
)
from tests.strategies.large_batches import LargeBatch, large_batch
from tests.strategies.near_degenerate import large_near_degenerate_world

pytestmark = pytest.mark.spark

ENTITIES = 160
SUBSCRIPTIONS = 70


# A run takes seconds, so there are few and large ones, and no search for a smaller failure.
# Where a task may have few rows, some levels are resolved slice by slice in a task of their own,
# and others by an exchange.
@pytest.mark.parametrize(("rows_in_task", "first_seed"), [(4_000_000, 0), (600, 2**31)])
@settings(
    max_examples=1,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(seed=st.integers(0, 2**31))
def test_bulk_equals_exact_on_random_worlds(
    spark: Any,
    tmp_path_factory: pytest.TempPathFactory,
    rows_in_task: int,
    first_seed: int,
    seed: int,
) -> None:
    batch = large_batch(first_seed + seed, ENTITIES, SUBSCRIPTIONS)
    folder = tmp_path_factory.mktemp("random")
    world = write_world(folder / "world", batch.world)
    lines = write_lines(folder / "s.jsonl", batch.neighborhoods)
    with (
        patch.object(exchange, "ROWS_IN_TASK", rows_in_task),
        patch.object(graph_slices, "LEAST_TEXTS_IN_SLICE", 20),
    ):
        facts = run_bulk(spark, world, lines, folder / "out")
    found = bulk_rows(folder / "out")
    expected = exact_rows(batch.world, batch.neighborhoods)
    assert set(found) - set(expected) == set()
    assert set(expected) - set(found) == set()
    assert found == expected, "a row stands twice"
    assert facts.problems.counts["no reference"] >= 1


CONDITIONS = (*sorted(LONG_NAMES), "Relate(*1*******)", "Relate(***1*****)", "Relate(0********)",
              "I AND DW0", "D AND DW1", "DW1 AND NOT T", "NOT I")  # fmt: skip


def test_bulk_equals_exact_where_rounding_matters(spark: Any, tmp_path: Path) -> None:
    """Every pair has one matrix, and who is near is who does not share a point by that matrix."""
    table = large_near_degenerate_world(seed=1, districts=12, of_each=10)
    peids = table.peids.tolist()
    wanted = [
        Neighborhood((peids[place],), (Stage(("#",), parse_condition(text)),), (True,))
        for place in range(0, len(peids), 3)
        for text in CONDITIONS
    ]
    lines = write_lines(tmp_path / "s.jsonl", wanted)
    world = write_world(tmp_path / "world", table)
    with patch.object(related_tables, "CURRENT_METHOD", related_tables.CURRENT_METHOD - 1):
        earlier = run_bulk(spark, world, lines, tmp_path / "earlier")
    forget_sets(world)
    facts = run_bulk(spark, world, lines, tmp_path / "out")
    # Pairs of an earlier method are not mixed with those of this one.
    assert (earlier.related, facts.related) == ("computed", "computed")
    assert bulk_rows(tmp_path / "out") == exact_rows(table, wanted)


def test_the_batches_hold_the_whole_language() -> None:
    """What the comparison above is worth: every part of the language occurs in every batch."""
    for seed in (0, 1):
        batch = large_batch(seed, ENTITIES, SUBSCRIPTIONS)
        stages = [stage for wanted in batch.neighborhoods for stage in wanted.stages]
        conditions = [stage.condition for stage in stages]
        kinds = {type(leaf) for condition in conditions for leaf in leaves(condition)}
        assert {WithinDistance, Relate} < kinds
        assert sum(map(_holds_from_afar, conditions)) >= 10
        assert {"Prev", "Anc"} < {stage.ref_stages for stage in stages}
        assert any(isinstance(stage.ref_stages, tuple) for stage in stages)
        assert {stage.repeat for stage in stages} == {1, 2, 3}
        assert _kinds_of_geometry(batch) >= {
            "MultiPoint",
            "LineString",
            "MultiLineString",
            "Polygon",
            "MultiPolygon",
        }
        sizes = {row[0] for row in exact_rows(batch.world, batch.neighborhoods)}
        assert len(sizes) > SUBSCRIPTIONS // 2, "most neighborhoods must select something"


def _holds_from_afar(condition: Condition) -> bool:
    *_, far = truth_of(condition, (), 1e9)
    return 0 < far < 1 << len(SHAPE_PAIRS)


def _kinds_of_geometry(batch: LargeBatch) -> set[str]:
    return {geometry.geom_type for geometry in batch.world.geometries}
