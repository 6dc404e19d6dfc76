"""Subscriptions that brokers have registered in Redis, read by a task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from jobs.pipeline.subscriptions.subscription_lines import BYTES_IN_ROW, ROWS_IN_PART, Subscriptions
from jobs.pipeline.subscriptions.subscription_parts import SubscriptionPart, part_of_texts
from redis_link.connection.client import connect
from redis_link.connection.url import masked
from redis_link.registry.registry_reader import registered_subscriptions, registry_coverage
from schemas.generation import RegistryCoverage


def open_registered(spark: SparkSession, redis_url: str) -> tuple[Subscriptions, RegistryCoverage]:
    """All registered subscriptions, and what a generation made of them covers."""
    with closing(connect(redis_url)) as client:
        coverage = registry_coverage(client)

    def read(_: Iterable[int]) -> Iterator[SubscriptionPart]:
        with closing(connect(redis_url)) as client:
            registered = registered_subscriptions(client)
            while batch := list(islice(registered, ROWS_IN_PART)):
                sub_ids = np.array([sub_id for sub_id, _ in batch], np.int64)
                texts = pa.array([entry.descriptor for _, entry in batch], pa.string())
                yield part_of_texts(sub_ids, texts)

    # One task reads the registry: one hash, walked by one cursor, that gives each number once.
    parts = spark.sparkContext.parallelize([0], 1).mapPartitions(read)
    # There are at most as many as numbers were given.
    size = coverage.up_to * BYTES_IN_ROW
    return Subscriptions(parts, size, masked(redis_url), numbers_differ=True), coverage
