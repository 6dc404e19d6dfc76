"""How many Spark jobs a run takes depends on its stages, not on how different they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas.language.neighborhood import Neighborhood
from schemas.language.notation import read_neighborhood
from spatial_udfs.entity_table import EntityTable
from testing.synthetic_city import synthetic_city
from tests.scenes.bulk_scene import forget_sets, run_bulk, write_lines, write_world

pytestmark = pytest.mark.spark


def different(count: int, peids: list[int], hops: int) -> list[Neighborhood]:
    """As many neighborhoods, no two with a distance or a condition in common."""
    forms = (
        "({{{0}}},{{#}},DW{1}.25)",
        "({{{0}}},{{#}},DW{1}.5 AND NOT DW{2}.125)",
        "({{{0}}},{{road/#}},C OR DW{1}.75)",
        "({{{0}}},{{#}},NOT DW{1})",
    )
    texts = [
        forms[n % len(forms)].format(peids[n % len(peids)], 20 + n, n)
        + f" • (Anc,{{road/#}},T OR DW{n}.5)" * hops
        for n in range(count)
    ]
    return [read_neighborhood(text) for text in texts]


@pytest.fixture(scope="module")
def city() -> EntityTable:
    return synthetic_city(300, seed=2)


@pytest.fixture
def jobs_of(spark: Any, city: EntityTable, tmp_path: Path) -> Callable[[list[Neighborhood]], int]:
    """How many jobs Spark runs for a batch on a world whose related pairs are there."""
    world = write_world(tmp_path / "world", city)
    first = write_lines(tmp_path / "first.jsonl", different(1, city.peids.tolist(), 0))
    run_bulk(spark, world, first, tmp_path / "first")
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()  # only a test looks there

    def run(batch: list[Neighborhood]) -> int:
        name = f"{len(batch)}-{len(batch[0].stages)}"
        lines = write_lines(tmp_path / f"{name}.jsonl", batch)
        forget_sets(world)
        before = scheduler.numTotalJobs()
        facts = run_bulk(spark, world, lines, tmp_path / name)
        assert (facts.related, facts.descriptors) == ("reused", len(batch))
        return int(scheduler.numTotalJobs() - before)

    return run


def test_jobs_grow_with_stages_alone(
    jobs_of: Callable[[list[Neighborhood]], int], city: EntityTable
) -> None:
    peids = city.peids.tolist()
    few = jobs_of(different(10, peids, hops=0))
    many = jobs_of(different(1_000, peids, hops=0))
    longer = jobs_of(different(10, peids, hops=1))
    # A job for each condition would be hundreds.
    assert many == few
    assert longer > few
