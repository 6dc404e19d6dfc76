"""A task reads of a bucket what is asked for, and no more when that is little."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.pipeline.pairs.world_buckets import WorldBuckets, asked_groups
from world.lake import scratch
from world.lake.bulk_tables import PAIRS, PLACED
from world.lake.lake_tables import LakeTable

REFERENCES = np.repeat(np.arange(0, 2_000, 2), 3)
IN_GROUP = 100


@pytest.fixture
def buckets(tmp_path: Path) -> WorldBuckets:
    """Pairs of 1,000 references, in many row groups."""
    pairs = pa.table(
        [REFERENCES, REFERENCES + 1, np.arange(3_000, dtype=np.int32),
         np.zeros(3_000, np.int32)], schema=PAIRS,
    )  # fmt: skip
    peids = np.arange(1_000)
    placed = pa.table(
        [peids, np.zeros(1_000, np.int32), np.ones(1_000, np.int32), peids % 2 == 0,
         [b"%d" % peid for peid in peids]], schema=PLACED,
    )  # fmt: skip
    pq.write_table(pairs, tmp_path / "pairs.parquet", row_group_size=IN_GROUP)
    pq.write_table(placed, tmp_path / "placed.parquet", row_group_size=IN_GROUP)
    table = LakeTable(tmp_path.as_uri(), on_disk=True)
    scratch._remembered.clear()
    return WorldBuckets(1, table, {0: ("pairs.parquet",)}, table, {0: ("placed.parquet",)})


def test_few_references_cost_few_row_groups(buckets: WorldBuckets) -> None:
    asked = np.array([3, 200, 1_400])
    rows = buckets.pairs(0, asked)
    assert len(rows.references) <= 3 * IN_GROUP
    _, places = rows.of(asked)
    assert sorted(rows.kinds[places].tolist()) == [300, 301, 302, 2_100, 2_101, 2_102]


def test_many_references_cost_the_file_once(buckets: WorldBuckets) -> None:
    assert len(buckets.pairs(0, np.arange(2_000)).references) == len(REFERENCES)
    assert len(buckets.pairs(0, np.array([], np.int64)).references) == 0
    assert len(buckets.pairs(7, np.arange(9)).references) == 0


def test_groups_between_which_a_number_lies_are_left_out(tmp_path: Path) -> None:
    table = pa.table({"n": [1, 2, 10, 11, 20, 21]})
    pq.write_table(table, tmp_path / "n.parquet", row_group_size=2)
    footer = pq.read_metadata(tmp_path / "n.parquet")
    for asked, groups in (([5], []), ([2, 20], [0, 2]), ([0, 99], []), ([10, 11], [1])):
        assert asked_groups(footer, "n", np.array(asked)).tolist() == groups


def test_geometries_come_in_the_order_of_the_asked(buckets: WorldBuckets) -> None:
    found = buckets.geometries(0, np.array([7, 500, 999]))
    assert found.to_pylist() == [b"7", b"500", b"999"]
    entities = buckets.entities(0)
    assert entities.heavy.tolist() == [peid % 2 == 0 for peid in range(1_000)]
