"""What every session of ours has, asked of a real one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.pipeline.session import CONF_FOLDER

pytestmark = pytest.mark.spark


def test_nobody_is_told_over_the_network_that_spark_was_started(spark: Any) -> None:
    asked = "-DDO_NOT_TRACK=true"
    assert spark._jvm.java.lang.System.getProperty("DO_NOT_TRACK") == "true"
    assert asked in spark.sparkContext.getConf().get("spark.executor.extraJavaOptions")
    settings = (CONF_FOLDER / "spark-defaults.conf").read_text("utf-8")
    assert settings.count(asked) == 2


def test_one_file_is_read_by_all_cores(spark: Any, tmp_path: Path) -> None:
    """Eight megabytes in sixteen parts: with Spark's defaults, one core would read most of it."""
    numbers = np.random.default_rng(1).integers(0, 2**62, 1 << 20)
    path = tmp_path / "numbers.parquet"
    pq.write_table(pa.table({"n": numbers}), path, row_group_size=1 << 16, compression="NONE")
    rows = spark.read.schema("n bigint").parquet(str(path)).rdd
    cores = spark.sparkContext.defaultParallelism
    counts = rows.mapPartitions(lambda part: [sum(1 for _ in part)]).collect()
    assert sum(counts) == len(numbers)
    assert max(counts) <= len(numbers) / min(cores, 8)
