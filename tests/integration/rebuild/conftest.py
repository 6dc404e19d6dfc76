"""A world, a Redis and registered subscriptions, ready for a rebuild."""

from __future__ import annotations

from pathlib import Path

import pytest

from redis_link.connection.client import RedisClient
from tests.scenes.rebuild_scene import NEIGHBORHOODS, RebuildScene, grid_town
from tests.servers.redis_server import RedisServer


@pytest.fixture
def scene(tmp_path: Path, redis_server: RedisServer, redis_client: RedisClient) -> RebuildScene:
    made = RebuildScene(tmp_path, redis_server.url, redis_client)
    made.write_source(grid_town())
    made.subscribe(NEIGHBORHOODS)
    return made
