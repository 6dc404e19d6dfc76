"""Popular and large references: the result is right, and no task does the work of all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shapely
from deltalake import DeltaTable

from jobs.pipeline import exchange
from jobs.pipeline.memberships import membership_rows
from schemas.entity import RELATED_TABLE
from schemas.language.notation import read_neighborhood
from schemas.membership import MEMBERSHIPS_TABLE
from spatial_udfs.bulk import buckets
from spatial_udfs.entity_table import EntityTable
from tests.scenes.bulk_scene import (
    bulk_rows,
    exact_rows,
    run_bulk,
    write_lines,
    write_world,
)
from tests.strategies.worlds import table_of

pytestmark = pytest.mark.spark

SIDE = 120
ENTITIES = SIDE * SIDE
LARGE, POPULAR, FIRST_SMALL, SMALL_ZONES = 1_000_001, 1_000_002, 1_000_003, 40
# A stage with fewer bytes than this is nobody's burden.
MANY_BYTES = 50_000
# With two cores two tasks share the work at best; one that has it all is far beyond this.
LARGEST_SHARE = 0.75
ENTITIES_PER_BUCKET = 2_000


def skewed_city() -> EntityTable:
    """Points on a grid; one zone contains a third of them, and 41 zones about fifty each."""
    points = shapely.points(*np.meshgrid(np.arange(SIDE), np.arange(SIDE)))
    rows = [(peid, ("poi/any",), point) for peid, point in enumerate(points.ravel())]
    rows.append((LARGE, ("zone/large",), shapely.box(-0.5, -0.5, SIDE, SIDE / 3 - 0.5)))
    for number in range(SMALL_ZONES + 1):
        east, north = 8 * (number % 14), SIDE / 2 + 8 * (number // 14)
        box = shapely.box(east + 0.5, north + 0.5, east + 7.5, north + 7.5)
        rows.append((POPULAR + number, ("zone/small",), box))
    return table_of(rows)


def bytes_by_task(spark: Any, first_stage: int) -> dict[int, list[int]]:
    """For each stage from this one on: the bytes that each of its tasks took out of a shuffle."""
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    store, jvm = context.statusStore(), spark.sparkContext._jvm
    nothing = spark.sparkContext._gateway.new_array(jvm.double, 0)
    stages = store.stageList(None, False, False, nothing, jvm.java.util.ArrayList())  # noqa: FBT003
    found = {}
    for place in range(stages.size()):
        stage = stages.apply(place)
        if stage.stageId() < first_stage or stage.shuffleReadBytes() < MANY_BYTES:
            continue
        tasks = store.taskList(stage.stageId(), stage.attemptId(), 10_000)
        metrics = [tasks.apply(number).taskMetrics() for number in range(tasks.size())]
        found[stage.stageId()] = [
            read.localBytesRead() + read.remoteBytesRead()
            for read in (each.get().shuffleReadMetrics() for each in metrics if each.isDefined())
        ]
    return found


def rows_by_file(table: Path, version: int = 1) -> list[int]:
    """How many rows of a version each file has."""
    files = pa.table(DeltaTable(str(table)).get_add_actions(flatten=True)).to_pylist()
    return [file["num_records"] for file in files if int(file["partition.version"]) == version]


def test_skewed_references(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # So that a small city has several buckets, and its rows several tasks.
    monkeypatch.setattr(buckets, "ENTITIES_PER_BUCKET", ENTITIES_PER_BUCKET)
    monkeypatch.setattr(exchange, "ROWS_IN_TASK", 5_000)
    monkeypatch.setattr(membership_rows, "LEAST_ROWS_IN_SHARE", 2_000)
    city = skewed_city()
    others = [
        f"({{{FIRST_SMALL + n % SMALL_ZONES}}},{{poi/#}},{condition})"
        for n in range(60)
        for condition in ("C", "C OR DW2")
    ]
    popular = [f"({{{POPULAR}}},{{poi/#}},C)"] * len(others)
    large = [f"({{{LARGE}}},{{poi/#}},C)", f"({{{LARGE}}},{{poi/#}},CV AND NOT B)"]
    wanted = [read_neighborhood(text) for text in (*others, *popular, *large)]
    lines = write_lines(tmp_path / "s.jsonl", wanted)
    world = write_world(tmp_path / "world", city)
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    first_stage = scheduler.nextStageId()
    assert run_bulk(spark, world, lines, tmp_path / "out").related == "computed"
    found = bulk_rows(tmp_path / "out")
    assert found == exact_rows(city, wanted)
    assert sum(row[0] == len(wanted) for row in found) * 3 == ENTITIES
    loads = bytes_by_task(spark, first_stage)
    assert loads, "no stage had many bytes: the limit above is wrong"
    # A stage of one task was made so: few rows go into one part. Skew shows among several.
    shares = {stage: max(read) / sum(read) for stage, read in loads.items() if len(read) > 1}
    assert shares
    assert max(shares.values()) <= LARGEST_SHARE, shares
    for table in (Path(world) / RELATED_TABLE, tmp_path / "out" / MEMBERSHIPS_TABLE):
        rows = rows_by_file(table)
        assert len(rows) > 1
        assert max(rows) <= LARGEST_SHARE * sum(rows)
