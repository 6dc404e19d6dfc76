"""One meaning, two engines: what Sedona finds in bulk is what the exact resolver finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from schemas.language.descriptor_json import parse_descriptor
from schemas.language.notation import read_neighborhood
from schemas.subscription import parse_subscription
from spatial_udfs.entity_table import EntityTable
from testing.mixed_subscriptions import mixed_descriptors
from testing.synthetic_city import synthetic_city
from tests.scenes.bulk_scene import bulk_rows, exact_rows, run_bulk, write_lines, write_world
from world.imports.world_import import import_world
from world.snapshot import load_snapshot

pytestmark = pytest.mark.spark


def test_on_the_sample(spark: Any, monaco_world: str, repository: Path, tmp_path: Path) -> None:
    lines = (repository / "data" / "sample_subscriptions.jsonl").read_text("utf-8").splitlines()
    wanted = [parse_subscription(line).neighborhood for line in lines]
    run_bulk(spark, monaco_world, write_lines(tmp_path / "s.jsonl", wanted), tmp_path / "out")
    found = bulk_rows(tmp_path / "out")
    assert found == exact_rows(load_snapshot(monaco_world), wanted)
    assert len({row[0] for row in found}) >= 10


def test_on_a_synthetic_city(spark: Any, tmp_path: Path) -> None:
    table = synthetic_city(20_000, seed=3)
    mixed = [parse_descriptor(each) for each in mixed_descriptors(table, 300, seed=5)]
    zone = mixed[0].refs[0]
    # Far conditions over the whole city, and distances that nobody else has.
    afar = [read_neighborhood(f"({{{zone}}},{{shop/#}},NOT DW{100 + n}.25)") for n in range(8)]
    wanted = [*mixed, *afar, read_neighborhood(f"({{{zone}}},{{zone/#}},D) • (Anc,{{zone/#}},T)")]
    world = write_world(tmp_path / "world", table)
    run_bulk(spark, world, write_lines(tmp_path / "s.jsonl", wanted), tmp_path / "out")
    assert bulk_rows(tmp_path / "out") == exact_rows(table, wanted)


@pytest.mark.shared_data
def test_on_berlin(spark: Any, shared_data: Path, tmp_path: Path) -> None:
    world = str(tmp_path / "world")
    import_world([shared_data / "berlin" / "world.parquet"], world)
    table = load_snapshot(world)
    zones = [peid for place, peid in enumerate(table.peids.tolist()) if _is_zone(table, place)]
    texts = [
        form.format(zone)
        for zone in zones[:30]
        for form in (
            "({{{}}},{{road/#}},C) • 3(Prev,{{road/#}},T)",
            "({{{}}},{{#}},C AND B)",
            "({{{}}},{{transport/#}},DW300 AND NOT C)",
        )
    ]
    wanted = [read_neighborhood(text) for text in texts]
    run_bulk(spark, world, write_lines(tmp_path / "s.jsonl", wanted), tmp_path / "out")
    found = bulk_rows(tmp_path / "out")
    assert found == exact_rows(table, wanted)
    assert found


def _is_zone(table: EntityTable, position: int) -> bool:
    return any(name.startswith("zone") for name in table.categories_at(position))


def test_a_difference_would_be_seen(spark: Any, tmp_path: Path) -> None:
    """The comparison above can fail: one neighborhood of another meaning is enough."""
    table = synthetic_city(2_000, seed=1)
    zone = next(mixed_descriptors(table, 4, seed=1))["refs"][0]
    contains, touches = (read_neighborhood(f"({{{zone}}},{{#}},{c})") for c in ("C", "T"))
    world = write_world(tmp_path / "world", table)
    run_bulk(spark, world, write_lines(tmp_path / "s.jsonl", [contains]), tmp_path / "out")
    assert bulk_rows(tmp_path / "out") != exact_rows(table, [touches])
    assert bulk_rows(tmp_path / "out") == exact_rows(table, [contains])
