"""A client of the Redis that the tests of this folder share."""

from __future__ import annotations

import pytest

from redis_link.connection.client import RedisClient
from schemas.redis_keys import registry_id_key
from tests.scenes.membership_scene import REGISTRY


@pytest.fixture
def client(redis_client: RedisClient) -> RedisClient:
    """A Redis whose registry has the name that covered generations bear."""
    redis_client.set(registry_id_key(), REGISTRY)
    return redis_client
