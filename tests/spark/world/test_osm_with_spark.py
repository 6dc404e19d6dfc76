"""The Spark import of an OSM extract makes the very version that one process makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.pipeline.spark_messages import described
from jobs.pipeline.world import osm_import
from jobs.pipeline.world.osm_import import import_osm
from schemas.errors import SourceError
from tests.scenes.compared_imports import assert_same
from tests.scenes.odd_extract import write_odd_extract
from world.imports.import_request import request_of
from world.imports.world_import import ImportReport, import_world
from world.long_work import silent
from world.versions.store import WorldStore

pytestmark = pytest.mark.spark


def with_spark(
    spark: SparkSession, source: str, world: Path, *, strict: bool = False, **given: Any
) -> ImportReport:
    request = request_of([source], **given)
    return import_osm(
        spark, source, request, str(world), strict=strict, force=False, progress=silent
    )


def compare(spark: SparkSession, source: Path, tmp_path: Path) -> ImportReport:
    plain = import_world([source], tmp_path / "plain")
    report = with_spark(spark, str(source), tmp_path / "spark")
    assert_same(tmp_path, plain, report)
    return report


def test_monaco(
    spark: SparkSession, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In four splits: blocks lie across their borders, and in one of them none begins."""
    monkeypatch.setattr(osm_import, "SPLIT_BYTES", 53_000)
    settings = ["spark.sql.shuffle.partitions", "spark.sql.files.maxPartitionBytes"]
    before = [spark.conf.get(name) for name in settings]
    source = repository / "data" / "monaco.osm.pbf"
    # Steps of the bulk job leave a session that can still be sent to the tasks of Sedona's reader.
    with described(spark, "a step"):
        spark.range(1).collect()
    report = compare(spark, source, tmp_path)
    assert report.facts.entity_count > 9_000
    assert [spark.conf.get(name) for name in settings] == before
    # The two ways know each other's versions.
    again = with_spark(spark, str(source), tmp_path / "plain")
    assert (again.created, again.facts.version) == (False, 1)
    assert again.top_categories == report.top_categories
    assert [(s.kind, s.count, s.kept) for s in again.problems] == [
        (s.kind, s.count, s.kept) for s in report.problems
    ]


@pytest.mark.shared_data
def test_berlin(spark: SparkSession, shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "berlin" / "berlin-mitte-kreuzberg.osm.pbf"
    assert compare(spark, source, tmp_path).facts.entity_count > 1_000


def test_everything_odd(spark: SparkSession, tmp_path: Path) -> None:
    """The name of the file is odd too: Spark would take it for a pattern."""
    report = compare(spark, write_odd_extract(tmp_path / "odd [1] 5%.osm.pbf"), tmp_path)
    kinds = {summary.kind.value for summary in report.problems}
    assert kinds == {
        "duplicate-identical", "peid-out-of-range", "missing-geometry", "empty-geometry",
        "broken-geometry", "incomplete-way", "incomplete-relation", "open-area",
    }  # fmt: skip


def test_strict_fails_on_an_extract_in_a_store(spark: SparkSession, tmp_path: Path) -> None:
    """A URI is read through the store that it names, by Spark and by the task before it."""
    uri = write_odd_extract(tmp_path / "odd.osm.pbf").as_uri()
    with pytest.raises(
        SourceError, match=r"strict import, nothing written: .*file:.*odd\.osm\.pbf"
    ):
        with_spark(spark, uri, tmp_path / "world", strict=True, srid=25832)
    assert WorldStore(str(tmp_path / "world")).versions() == []
    with pytest.raises(SourceError, match=r"missing\.osm\.pbf"):
        with_spark(spark, f"{tmp_path.as_uri()}/missing.osm.pbf", tmp_path / "world")
