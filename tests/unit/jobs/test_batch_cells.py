"""A batch in cells: as many as size and cores want, and only those with references are visited."""

from __future__ import annotations

from jobs.pipeline.stages.batch_state import BatchState, CellMembers
from jobs.pipeline.subscriptions.graph_slices import slice_count
from spatial_udfs.bulk.stage_rows import KNOWN


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
