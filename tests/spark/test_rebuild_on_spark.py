"""A rebuild whose engine is Spark, and an exact one that goes on from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import shapely

from jobs.rebuild_request import Engine
from redis_link.client import connect
from tests.servers.rebuild_scene import NEIGHBORHOODS, RebuildScene, grid_town
from tests.servers.redis_server import running_redis

pytestmark = pytest.mark.spark


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[RebuildScene]:
    with running_redis(tmp_path / "redis") as server:
        client = connect(server.url)
        yield RebuildScene(tmp_path, server.url, client)
        client.close()


@pytest.mark.usefixtures("spark")
def test_spark_resolves_and_the_exact_resolver_goes_on(scene: RebuildScene) -> None:
    town: dict[int, tuple[list[str], Any]] = grid_town(5)
    scene.write_source(town)
    scene.subscribe(NEIGHBORHOODS)
    assert scene.rebuild(engine=Engine.SPARK) == 1
    scene.assert_in_force(1)
    [first] = scene.records()
    assert (first["steps"]["resolve"]["engine"], first["steps"]["push"]["how"]) == ("spark", "all")
    town[300] = (["shop"], shapely.Point(3.5, 1.5))
    del town[12]
    scene.write_source(town)
    assert scene.rebuild() == 2
    scene.assert_in_force(2)
    steps = scene.records()[-1]["steps"]
    assert steps["resolve"]["base"] == 1
    assert steps["push"]["how"] == "changes"
