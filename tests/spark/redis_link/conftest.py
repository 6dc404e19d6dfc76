"""A Redis and memberships that tests of the push share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from redis_link.connection.client import RedisClient, connect
from schemas.membership import MEMBERSHIPS_TABLE, RUNS_TABLE
from tests.scenes.pushed_lake import EMPTY_VERSION, LARGE, SCHEMA
from tests.servers.redis_server import RedisServer, running_redis


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running_redis(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
def client(server: RedisServer) -> Iterator[RedisClient]:
    opened = connect(server.url)
    opened.flushall()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two versions; in both, some subscriptions select an entity in several stages."""
    folder = tmp_path_factory.mktemp("lake")
    rows = [
        (number % 97, (number * 7919 % 601) * 10**15, 1 + number % 2, version)
        for version, count in ((1, 4_000), (2, 6_000))
        for number in range(count)
    ]
    rows += [(5, LARGE, stage, 2) for stage in (1, 2, 3)] + [(LARGE, 5, 1, 2)]
    frame = spark.createDataFrame(rows, SCHEMA).repartition(3)
    frame.write.format("delta").partitionBy("version").save(str(folder / MEMBERSHIPS_TABLE))
    runs = spark.createDataFrame([(1,), (2,), (EMPTY_VERSION,)], "version long")
    runs.write.format("delta").save(str(folder / RUNS_TABLE))
    return folder
