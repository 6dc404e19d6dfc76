"""What the driver holds of a batch has a limit, and a cell's members a place of their own."""

from __future__ import annotations

import numpy as np
import pytest

from jobs.pipeline.pairs.related_tables import RelatedWorld
from jobs.pipeline.stages.batch_state import BatchState, CellMembers
from jobs.pipeline.stages.compiled_slice import level_plans, meaning_of
from jobs.pipeline.subscriptions.graph_slices import StageKind, slice_count
from schemas.errors import SpapsError
from spatial_udfs.bulk.batch_tables import numbers_among
from spatial_udfs.bulk.stage_rows import KNOWN

ROAD, SHOP = '["road/#"]', '["shop"]'
KINDS = [StageKind(1, "DW5", ROAD, 3), StageKind(1, "C", SHOP, 2), StageKind(3, "T", ROAD, 1)]
WORLD = RelatedWorld(
    buckets=None, vocabulary=[["road/major"], ["shop"]], pair_kinds=(), pair_count=0,
    diameter=100.0, origin="",
)  # type: ignore[arg-type]  # fmt: skip


def test_more_conditions_than_allowed_are_one_clear_error() -> None:
    assert len(meaning_of(KINDS, WORLD, 3).conditions.numbers) == 3
    with pytest.raises(
        SpapsError, match=r"3 different conditions, and at most 2 .*most_conditions"
    ):
        meaning_of(KINDS, WORLD, 2)


def test_a_level_measures_only_to_what_its_distances_ask_for() -> None:
    meaning = meaning_of(KINDS, WORLD, 3)
    plans = level_plans(KINDS, {(1, 0), (3, 0), (3, 1)}, meaning)
    assert [(plan.level, plan.nodes, plan.with_distances) for plan in plans] == [
        (1, 5, True), (3, 1, False),
    ]  # fmt: skip
    assert plans[0].near_names == {"road/major"}
    assert plans[1].sources == {0, 1}


def test_a_level_visits_only_cells_with_references() -> None:
    state = BatchState(buckets=3, slices=2)
    state.add([CellMembers(0, 0, 0, "a", "", 4, 0), CellMembers(2, 1, 1, "b", "", 5, 7)])
    assert state.asking(frozenset({0})) == [(0, 0)]
    assert state.asking(frozenset({0, 1})) == [(0, 0), (2, 1)]
    assert (state.count(frozenset({1})), state.count(frozenset({2}))) == (5, 0)
    # References with very many pairs are looked for in every bucket of their slice.
    state.add([CellMembers(1, 0, 1, "c", "heavy", 1, 0)])
    assert state.asking(frozenset({1})) == [(0, 0), (1, 0), (2, 0), (2, 1)]
    state.add([CellMembers(1, 1, KNOWN, "d", "", 9, 0)])
    assert (1, 1) in state.asking(frozenset({2}))


def test_slices_follow_the_batch_and_the_cores() -> None:
    assert slice_count(texts=100, buckets=1, parallelism=16) == 1
    assert slice_count(texts=1_000_000, buckets=4, parallelism=2) == 5
    assert slice_count(texts=1_000_000, buckets=4, parallelism=64) == 64
    assert slice_count(texts=1_000_000, buckets=200, parallelism=64) == 5


def test_a_set_that_is_not_in_the_graph_is_no_other() -> None:
    ids = np.array([30, 10, 20])
    assert numbers_among(ids, np.array([10, 30])).tolist() == [1, 0]
    for unknown in (5, 25, 99):
        with pytest.raises(SpapsError, match="not in its graph"):
            numbers_among(ids, np.array([10, unknown]))
