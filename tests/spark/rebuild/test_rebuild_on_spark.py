"""A rebuild whose engine is Spark, and an exact one that goes on from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import shapely
from pyspark.sql import SparkSession

from jobs.pipeline.rebuild_engine import PART_FOLDER
from rebuild.request import Engine
from redis_link.connection.client import connect
from schemas.membership import MEMBERSHIPS_TABLE
from tests.scenes.rebuild_scene import (
    NEIGHBORHOODS,
    NEIGHBORHOODS_OF_PLACES,
    RebuildScene,
    grid_town,
)
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
    scene.subscribe((*NEIGHBORHOODS, *NEIGHBORHOODS_OF_PLACES))
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


def test_spark_resolves_what_a_change_can_affect_and_tells_what_a_full_push_changed(
    scene: RebuildScene, spark: SparkSession
) -> None:
    town: dict[int, tuple[list[str], Any]] = grid_town(5)
    scene.write_source(town)
    scene.subscribe(NEIGHBORHOODS)
    scene.rebuild()
    # Spark reads what was written without it.
    table = spark.read.format("delta").load(f"{scene.places.out}/{MEMBERSHIPS_TABLE}")
    rows = table.where("version = 1").select("subId", "peid", "stageNo").collect()
    assert sorted(map(tuple, rows)) == sorted(scene.expected_rows(1))
    town[300] = (["shop"], shapely.Point(3.5, 1.5))
    scene.write_source(town)
    scene.rebuild(engine=Engine.SPARK)
    scene.assert_in_force(2)
    steps = scene.records()[-1]["steps"]
    assert (steps["resolve"]["engine"], steps["resolve"]["base"]) == ("spark", 1)
    # Those that see from afar; the others were changed in place.
    assert 0 < steps["resolve"]["resolved"] < len(NEIGHBORHOODS) / 2
    assert not list(scene.folder.rglob(PART_FOLDER))
    # Invisible members came along: the next one takes over or changes what this one resolved.
    del town[12]
    scene.write_source(town)
    scene.rebuild()
    scene.assert_in_force(3)
    before = scene.pairs_in_force()
    del town[15]
    scene.write_source(town)
    scene.rebuild(engine=Engine.SPARK, full=True)
    scene.assert_in_force(4)
    after = scene.pairs_in_force()
    steps = scene.records()[-1]["steps"]
    assert (steps["resolve"]["resolved"], steps["push"]["how"]) == (len(NEIGHBORHOODS), "all")
    changes = scene.changes_of(steps["push"]["generation"])
    told = dict(zip(changes.sub_ids.tolist(), changes.lost.tolist(), strict=True))
    lost = Counter(sub_id for _, sub_id in before - after)
    assert {sub_id: count for sub_id, count in told.items() if count} == dict(lost)
    assert lost
