"""Servers that tests of this folder share; each test finds them empty."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis import Redis

from redis_link.connection.client import RedisClient, connect
from tests.servers.redis_server import RedisServer, running_redis


@pytest.fixture(scope="session")
def shared_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One plain server for all tests that do not stop or configure it."""
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def redis_server(shared_redis: RedisServer) -> RedisServer:
    """The shared server, emptied."""
    with Redis(port=shared_redis.port) as client:
        client.flushall()
    return shared_redis


@pytest.fixture
def redis_client(redis_server: RedisServer) -> Iterator[RedisClient]:
    """A client of the emptied server, as the project makes it."""
    client = connect(redis_server.url)
    yield client
    client.close()
