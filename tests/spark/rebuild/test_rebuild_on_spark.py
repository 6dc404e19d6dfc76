"""A rebuild that Spark does as a whole, beside those of one process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import shapely
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from jobs.pipeline.rebuild_engine import SparkRebuild
from rebuild import bulk_engine
from rebuild.bulk_engine import Engine
from redis_link.connection.client import connect
from redis_link.generation.generation_store import current_generation
from schemas.membership import MEMBERSHIPS_TABLE
from tests.scenes.rebuild_scene import (
    NEIGHBORHOODS,
    NEIGHBORHOODS_OF_PLACES,
    RebuildScene,
    edited_town,
    grid_town,
)
from tests.servers.redis_server import running_redis
from world.imports.world_import import import_world
from world.memberships.resolved_sets import ResolvedSets
from world.snapshot import load_snapshot
from world.versions.changes import compare_versions
from world.versions.store import WorldStore

pytestmark = pytest.mark.spark

GONE = 999


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[RebuildScene]:
    with running_redis(tmp_path / "redis") as server:
        client = connect(server.url)
        yield RebuildScene(tmp_path, server.url, client)
        client.close()


@pytest.fixture
def no_world_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever would hold a world or its members in this process fails."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("the driver may not hold the world")

    for owner, name in (
        (WorldStore, "entities"),
        (ResolvedSets, "load"),
        (ResolvedSets, "save"),
    ):
        monkeypatch.setattr(owner, name, refuse)
    for path in (
        "rebuild.run.import_world",
        "rebuild.exact_steps.read_registered",
        "rebuild.resolve.load_snapshot",
    ):
        monkeypatch.setattr(path, refuse)


def moved_on(town: dict[int, tuple[list[str], Any]]) -> dict[int, tuple[list[str], Any]]:
    """One shop more and one road less."""
    town[300] = (["shop"], shapely.Point(3.5, 1.5))
    del town[12]
    return town


@pytest.mark.usefixtures("spark")
def test_spark_does_all_steps_and_tells_what_changed(
    scene: RebuildScene, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    town: dict[int, tuple[list[str], Any]] = grid_town(5)
    scene.write_source(town)
    scene.subscribe((*NEIGHBORHOODS, *NEIGHBORHOODS_OF_PLACES, f"({{{GONE}}},{{#}},D)"))
    request.getfixturevalue("no_world_in_this_process")
    monkeypatch.setattr(bulk_engine, "SPARK_FROM_BYTES", 1)
    monkeypatch.setattr(bulk_engine, "SPARK_FROM_ENTITIES", 10)
    assert scene.rebuild(engine=Engine.AUTO) == 1
    before = scene.pairs_in_force()
    scene.write_source(moved_on(town))
    assert scene.rebuild(engine=Engine.AUTO) == 2
    monkeypatch.undo()
    scene.assert_in_force(2)
    assert scene.said.count("rebuilt on Spark: 79 entities (Spark from 10 on)") == 2
    first, second = scene.records()
    assert (first["steps"]["resolve"]["engine"], first["steps"]["push"]["how"]) == ("spark", "all")
    assert first["steps"]["resolve"]["unresolvedCount"] == 1
    assert second["steps"]["compare"]["changes"] == {
        "added": 1, "removed": 1, "moved": 0, "recategorised": 0, "renamed": 0,
    }  # fmt: skip
    changes = scene.changes_of(second["steps"]["push"]["generation"])
    after = scene.pairs_in_force()
    for told, pairs in ((changes.gained, after - before), (changes.lost, before - after)):
        found = dict(zip(changes.sub_ids.tolist(), told.tolist(), strict=True))
        assert {sub_id: count for sub_id, count in found.items() if count} == dict(
            Counter(sub_id for _, sub_id in pairs)
        )
        assert pairs
    lacking = changes.sub_ids[changes.lacks_references].tolist()
    assert lacking == [len(NEIGHBORHOODS) + len(NEIGHBORHOODS_OF_PLACES) + 1]


@pytest.mark.usefixtures("spark")
def test_what_keeps_the_world_out_of_this_process_can_fail(
    scene: RebuildScene, request: pytest.FixtureRequest
) -> None:
    scene.write_source(grid_town(3))
    scene.subscribe(NEIGHBORHOODS)
    request.getfixturevalue("no_world_in_this_process")
    with pytest.raises(AssertionError, match="may not hold the world"):
        scene.rebuild(engine=Engine.EXACT)


def test_each_engine_goes_on_from_the_other(scene: RebuildScene, spark: SparkSession) -> None:
    town: dict[int, tuple[list[str], Any]] = grid_town(5)
    scene.write_source(town)
    scene.subscribe(NEIGHBORHOODS)
    scene.rebuild()
    # Spark reads what was written without it.
    table = spark.read.format("delta").load(f"{scene.places.out}/{MEMBERSHIPS_TABLE}")
    rows = table.where("version = 1").select("subId", "peid", "stageNo").collect()
    assert sorted(map(tuple, rows)) == sorted(scene.expected_rows(1))
    scene.write_source(moved_on(town))
    scene.rebuild(engine=Engine.SPARK)
    scene.assert_in_force(2)
    del town[15]
    scene.write_source(town)
    scene.rebuild()
    scene.assert_in_force(3)
    # What Spark resolved is in Delta alone; the last result of one process is that of version 1.
    assert scene.records()[-1]["steps"]["resolve"]["base"] == 1
    engines = [record["steps"]["resolve"]["engine"] for record in scene.records()]
    assert engines == ["exact", "spark", "exact"]


@pytest.mark.usefixtures("spark")
def test_a_killed_push_goes_on_from_delta(
    scene: RebuildScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.write_source(grid_town(4))
    scene.subscribe(NEIGHBORHOODS)

    class KilledError(Exception):
        """As a kill: no step after it is done, and nothing is noted."""

    def die(*_: Any, **__: Any) -> Any:
        raise KilledError

    with monkeypatch.context() as killing:
        killing.setattr(SparkRebuild, "push", die)
        with pytest.raises(KilledError):
            scene.rebuild(engine=Engine.SPARK)
    assert current_generation(scene.client) is None
    monkeypatch.setattr(SparkRebuild, "resolve_all", die)
    assert scene.rebuild(engine=Engine.SPARK) == 1
    monkeypatch.undo()
    scene.assert_in_force(1)
    assert len(scene.records()) == 1
    [run] = DeltaTable(f"{scene.places.out}/runs").to_pyarrow_table().to_pylist()
    facts = current_generation(scene.client)
    assert facts is not None
    assert (run["runId"], run["generation"]) == (facts.run, facts.generation)


def test_changes_are_counted_as_one_process_counts_them(
    scene: RebuildScene, spark: SparkSession
) -> None:
    world = scene.places.world
    for town, crs in ((grid_town(), 25833), (edited_town(), 25833), (edited_town(), 25832)):
        scene.write_source(town, crs=crs)
        import_world([scene.source], world)
    store, engine = WorldStore(world), SparkRebuild(world, scene.places.out, scene.said.append)
    assert spark is not None
    for old, new in ((1, 2), (2, 1), (2, 3), (2, 2)):
        expected = compare_versions(store, old, new).counts()
        assert engine.change_counts(old, new) == expected
        assert any(expected.values()) == (old != new)
    assert len(load_snapshot(world, 3)) > 0
