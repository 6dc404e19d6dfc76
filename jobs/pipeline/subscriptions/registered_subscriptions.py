"""Subscriptions that brokers have registered in Redis, read by a task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import islice

import numpy as np
import pyarrow as pa

from jobs.pipeline.subscriptions.subscription_lines import ROWS_IN_PART, Subscriptions
from jobs.pipeline.subscriptions.subscription_parts import SubscriptionPart, part_of_texts
from redis_link.connection.client import connect
from redis_link.connection.url import masked
from redis_link.registry.registry_reader import registered_subscriptions, registry_coverage
from schemas.generation import RegistryCoverage


def open_registered(redis_url: str) -> tuple[Subscriptions, RegistryCoverage]:
    """Return all registered subscriptions, and what a generation of them covers."""
    with closing(connect(redis_url)) as client:
        coverage = registry_coverage(client)

    def read(_: int) -> Iterator[SubscriptionPart]:
        with closing(connect(redis_url)) as client:
            registered = registered_subscriptions(client)
            while batch := list(islice(registered, ROWS_IN_PART)):
                sub_ids = np.array([sub_id for sub_id, _ in batch], np.int64)
                texts = pa.array([entry.descriptor for _, entry in batch], pa.string())
                yield part_of_texts(sub_ids, texts)

    # One task reads the registry: one hash, walked by one cursor, that gives each number once.
    source = masked(redis_url)
    return Subscriptions(source, lambda _: [0], read, numbers_differ=True), coverage
