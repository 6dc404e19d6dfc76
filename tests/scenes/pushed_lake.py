"""Memberships in Delta for tests of the push on Spark, and a push that cleans up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jobs.pipeline.spark_push import push_generation
from redis_link.generation.sweep import Retention
from schemas.membership import MEMBERSHIPS_TABLE
from tests.servers.redis_content import Pairs

AT_ONCE = Retention(grace_seconds=0)
SCHEMA = "subId long, peid long, stageNo int, version long"
LARGE = 2**63 - 1
EMPTY_VERSION = 9


def pairs_in_delta(spark: Any, lake: Path, version: int) -> Pairs:
    rows = spark.read.format("delta").load(str(lake / MEMBERSHIPS_TABLE))
    chosen = rows.where(f"version = {version}").select("peid", "subId").distinct()
    return {(row["peid"], row["subId"]) for row in chosen.collect()}


def push(spark: Any, path: Path, version: int | None, url: str, **options: Any) -> int:
    report = push_generation(
        spark, str(path), version, url, retention=AT_ONCE, say=lambda _: None, **options
    )
    assert report.cleanup is not None
    report.cleanup.wait()
    return report.generation
