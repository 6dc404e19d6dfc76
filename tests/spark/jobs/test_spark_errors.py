"""What Spark raises comes out as one line of ours, whoever in Spark raised it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from jobs.pipeline.spark_messages import spark_errors_as
from schemas.errors import GenerationError, WorldError

pytestmark = pytest.mark.spark

Action = Callable[[Any, Path], object]


def ours_in_a_task(spark: Any, _: Path) -> object:
    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        raise GenerationError("the set of entity 7 is broken")

    return spark.range(3).mapInArrow(fail, "id long").collect()


def python_in_a_task(spark: Any, _: Path) -> object:
    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        raise ZeroDivisionError("of a task")

    return spark.range(3).mapInArrow(fail, "id long").collect()


def broken_geometry(spark: Any, _: Path) -> object:
    return spark.sql("SELECT ST_Area(ST_GeomFromWKB(X'010200')) AS area").collect()


def broken_parquet(spark: Any, folder: Path) -> object:
    (folder / "broken.parquet").write_bytes(b"PAR1 no more PAR1")
    return spark.read.schema("id long").parquet(str(folder)).collect()


def missing_path(spark: Any, folder: Path) -> object:
    return spark.read.parquet(str(folder / "nowhere")).collect()


def java_itself(spark: Any, _: Path) -> object:
    return spark.sparkContext._jvm.java.lang.Integer.parseInt("seven")


CASES: dict[str, tuple[Action, str]] = {
    "ours": (ours_in_a_task, "the set of entity 7 is broken"),
    "python": (python_in_a_task, "ZeroDivisionError: of a task"),
    "geometry": (broken_geometry, "ST_GeomFromWKB: "),
    "parquet": (broken_parquet, "broken.parquet"),
    "path": (missing_path, "nowhere"),
    "java": (java_itself, 'For input string: "seven"'),
}


@pytest.mark.parametrize("case", CASES)
def test_one_line_that_says_why(case: str, spark: Any, tmp_path: Path) -> None:
    action, expected = CASES[case]
    with (
        pytest.raises(WorldError) as caught,
        spark_errors_as(WorldError, "it failed", about=["broken.parquet"]),
    ):
        action(spark, tmp_path)
    said = str(caught.value)
    assert said.startswith("it failed: ")
    assert expected in said
    assert "\n" not in said
    assert not any(word in said for word in ("Traceback", "org.apache", "java.", "Caused by"))


def test_the_cases_raise_both_kinds(spark: Any, tmp_path: Path) -> None:
    """The control: Spark itself says it in pages, in exceptions of two families."""
    with pytest.raises(PySparkException, match="Traceback"):
        ours_in_a_task(spark, tmp_path)
    with pytest.raises(Py4JJavaError, match="Caused by"):
        broken_parquet(spark, tmp_path)


def test_other_errors_pass(tmp_path: Path) -> None:
    with pytest.raises(GenerationError, match=r"^as it was$"), spark_errors_as(WorldError, "it"):
        raise GenerationError("as it was")
    with pytest.raises(OSError, match="nowhere"), spark_errors_as(WorldError, "it"):
        (tmp_path / "nowhere").read_text()
