"""Hundreds of reaches at once, each of its own and none of them small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from schemas.language.notation import read_neighborhood
from testing.synthetic_city import synthetic_city
from tests.scenes.bulk_scene import bulk_rows, exact_rows, run_bulk, write_lines, write_world

pytestmark = pytest.mark.spark

NEIGHBORHOODS = 520
COMPARED = 20


def test_many_middling_reaches_then_hops(spark: Any, tmp_path: Path) -> None:
    """Every neighborhood has a first stage that no other has, and walks on from there."""
    city = synthetic_city(5_000, seed=8)
    peids = city.peids.tolist()
    wanted = [
        read_neighborhood(
            f"({{{peids[n * 7]}}},{{road/#}},DW{150 + n / 8}) • 2(Prev,{{road/#}},T) "
            f"• ({{2,3}},{{transport/#}},DW{10 + n / 16})"
        )
        for n in range(NEIGHBORHOODS)
    ]
    world = write_world(tmp_path / "world", city)
    facts = run_bulk(spark, world, write_lines(tmp_path / "s.jsonl", wanted), tmp_path / "out")
    assert facts.levels[0].nodes == NEIGHBORHOODS
    assert facts.levels[0].members > 10 * NEIGHBORHOODS
    chosen = range(0, NEIGHBORHOODS, NEIGHBORHOODS // COMPARED)
    found = [row for row in bulk_rows(tmp_path / "out") if row[0] - 1 in chosen]
    numbers = {place: number + 1 for place, number in enumerate(chosen, start=1)}
    exact = exact_rows(city, [wanted[number] for number in chosen])
    assert found == sorted((numbers[place], peid, stage) for place, peid, stage in exact)
