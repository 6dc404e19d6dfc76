"""A batch with its meaning in a world: what the driver holds of it has a limit."""

from __future__ import annotations

import numpy as np
import pytest

from schemas.errors import SpapsError
from spatial_udfs.batch.batch_tables import numbers_among
from spatial_udfs.batch.compiled_slice import Meaning, level_plans, meaning_of
from spatial_udfs.batch.graph_tables import StageKind

ROAD, SHOP = '["road/#"]', '["shop"]'
KINDS = [StageKind(1, "DW5", ROAD, 3), StageKind(1, "C", SHOP, 2), StageKind(3, "T", ROAD, 1)]
VOCABULARY = [["road/major"], ["shop"]]
DIAMETER = 100.0


def meaning(most: int) -> Meaning:
    return meaning_of(KINDS, VOCABULARY, (), DIAMETER, most)


def test_more_conditions_than_allowed_are_one_clear_error() -> None:
    assert len(meaning(3).conditions.numbers) == 3
    with pytest.raises(
        SpapsError, match=r"3 different conditions, and at most 2 .*most_conditions"
    ):
        meaning(2)


def test_a_level_measures_only_to_what_its_distances_ask_for() -> None:
    plans = level_plans(KINDS, {(1, 0), (3, 0), (3, 1)}, meaning(3))
    assert [(plan.level, plan.nodes, plan.with_distances) for plan in plans] == [
        (1, 5, True), (3, 1, False),
    ]  # fmt: skip
    assert plans[0].near_names == {"road/major"}
    assert plans[1].sources == {0, 1}


def test_a_set_that_is_not_in_the_graph_is_no_other() -> None:
    ids = np.array([30, 10, 20])
    assert numbers_among(ids, np.array([10, 30])).tolist() == [1, 0]
    for unknown in (5, 25, 99):
        with pytest.raises(SpapsError, match="not in its graph"):
            numbers_among(ids, np.array([10, unknown]))
