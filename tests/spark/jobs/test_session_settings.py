"""What every session of ours has, asked of a real one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.pipeline.session import CONF_FOLDER, parallelism_of
from spatial_udfs.bulk.partition_keys import partition_keys, spark_hash

pytestmark = pytest.mark.spark


def test_nobody_is_told_over_the_network_that_spark_was_started(spark: Any) -> None:
    asked = "-DDO_NOT_TRACK=true"
    [told] = spark.sql(
        "SELECT java_method('java.lang.System', 'getProperty', 'DO_NOT_TRACK')"
    ).collect()
    assert told[0] == "true"
    assert asked in spark.conf.get("spark.executor.extraJavaOptions")
    settings = (CONF_FOLDER / "spark-defaults.conf").read_text("utf-8")
    assert settings.count(asked) == 2


def test_one_file_is_read_by_all_cores(spark: Any, tmp_path: Path) -> None:
    """Eight megabytes in sixteen parts: with Spark's defaults, one core would read most of it."""
    numbers = np.random.default_rng(1).integers(0, 2**62, 1 << 20)
    path = tmp_path / "numbers.parquet"
    pq.write_table(pa.table({"n": numbers}), path, row_group_size=1 << 16, compression="NONE")
    rows = spark.read.schema("n bigint").parquet(str(path))
    cores = parallelism_of(spark)
    parts = rows.groupBy(F.spark_partition_id().alias("part")).count().collect()
    counts = [row["count"] for row in parts]
    assert sum(counts) == len(numbers)
    assert len(counts) >= min(cores, 8)
    assert max(counts) <= 1.5 * len(numbers) / min(cores, 8)


def test_parallelism_is_what_spark_says(spark: Any) -> None:
    assert parallelism_of(spark) == spark.sparkContext.defaultParallelism


def test_keys_spread_cells_as_spark_does(spark: Any) -> None:
    numbers = np.array([0, 1, 7, 42, -1, -(2**31), 2**31 - 1], np.int32)
    frame = spark.createDataFrame([(int(number),) for number in numbers], "n int")
    assert [row[0] for row in frame.selectExpr("hash(n)").collect()] == spark_hash(numbers).tolist()
    for partitions in (1, 2, 7, 32):
        keys = spark.createDataFrame([(int(key),) for key in partition_keys(partitions)], "n int")
        divided = keys.repartition(partitions, "n").select("n", F.spark_partition_id().alias("p"))
        assert {row["p"] for row in divided.collect()} == set(range(partitions))
