"""Subscriptions that brokers have registered in Redis, as Spark reads them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from itertools import islice
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.subscription_lines import REASON, WHERE, SubscriptionFrames
from redis_link.client import connect
from redis_link.registry import registered_subscriptions, registry_coverage
from schemas.generation import RegistryCoverage
from schemas.membership import DESCRIPTOR, SUB_ID

READ_AT_ONCE: Final = 10_000


def open_registered(
    spark: SparkSession, redis_url: str
) -> tuple[SubscriptionFrames, RegistryCoverage]:
    """All registered subscriptions, and what a generation made of them covers."""
    with closing(connect(redis_url)) as client:
        coverage = registry_coverage(client)

    def read(_: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        with closing(connect(redis_url)) as client:
            registered = registered_subscriptions(client)
            while batch := list(islice(registered, READ_AT_ONCE)):
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array([sub_id for sub_id, _ in batch], pa.int64()),
                        pa.array([entry.descriptor for _, entry in batch], pa.string()),
                    ],
                    names=[SUB_ID, DESCRIPTOR],
                )

    # One task reads the registry: one hash, walked by one cursor. A second one, even without a
    # row of its own, would read everything again.
    good = spark.range(0, 1, 1, 1).mapInArrow(read, f"{SUB_ID} bigint, {DESCRIPTOR} string")
    none_bad = good.limit(0).select(F.lit("").alias(WHERE), SUB_ID, F.col(DESCRIPTOR).alias(REASON))
    return SubscriptionFrames(good, none_bad, bad_count=0), coverage
