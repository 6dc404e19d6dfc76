"""Python workers are forked with everything imported, for RDDs and for SQL alike."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest

pytestmark = pytest.mark.spark

MODULES = (
    "jobs.pipeline.stages.level_tasks",
    "jobs.pipeline.memberships.membership_rows",
    "spatial_udfs.bulk.tile_pairs",
    "shapely",
)


def what_is_there() -> tuple[int, bool, bool, bool]:
    """The process that forked this one; whether ours is loaded, pandas is, pyspark from a zip."""
    # Looked at as it was before this task: unpickling it may have imported more.
    loaded = all(name in sys.modules for name in MODULES)
    from_archive = ".zip" in (sys.modules["pyspark"].__file__ or "")
    return os.getppid(), loaded, "pandas" in sys.modules, from_archive


def in_sql(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        names = ["parent", "loaded", "pandas", "archive"]
        columns = [pa.array([value]) for value in what_is_there()]
        yield pa.RecordBatch.from_arrays(columns, names=names)


def test_one_process_forks_all_workers(spark: Any) -> None:
    [of_rdd] = spark.sparkContext.parallelize([0], 1).map(lambda _: what_is_there()).collect()
    types = "parent long, loaded boolean, pandas boolean, archive boolean"
    [of_sql] = spark.range(0, 1, 1, 1).mapInArrow(in_sql, types).collect()
    assert tuple(of_sql) == of_rdd
    assert of_rdd[1:] == (True, False, False)
    assert of_rdd[0] != os.getpid()
