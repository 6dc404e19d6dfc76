"""Neighborhoods of places over rebuilds, a rollback, and a world version in another CRS."""

from __future__ import annotations

from pathlib import Path

import pytest
import shapely

from rebuild.run import rollback
from redis_link.connection.client import RedisClient
from redis_link.generation.generation_store import current_generation
from tests.scenes.rebuild_scene import (
    NEIGHBORHOODS,
    NEIGHBORHOODS_OF_PLACES,
    RebuildScene,
    edited_town,
    grid_town,
    place,
)
from tests.servers.redis_server import RedisServer

ALL = (*NEIGHBORHOODS, *NEIGHBORHOODS_OF_PLACES)


@pytest.fixture
def around_places(
    tmp_path: Path, redis_server: RedisServer, redis_client: RedisClient
) -> RebuildScene:
    made = RebuildScene(tmp_path, redis_server.url, redis_client)
    made.write_source(grid_town())
    made.subscribe(ALL)
    return made


def test_places_over_rebuilds_and_a_rollback(around_places: RebuildScene) -> None:
    scene = around_places
    scene.rebuild()
    scene.assert_in_force(1)
    with_members = {sub_id for sub_id, _, _ in scene.expected_rows(1)}
    assert with_members >= {8, 9, 10, 11}
    scene.write_source(edited_town())
    scene.rebuild()
    scene.assert_in_force(2)
    assert rollback(scene.request(), None).version == 1
    scene.assert_in_force(1)


def test_only_places_near_what_changed_are_resolved(around_places: RebuildScene) -> None:
    scene = around_places
    scene.rebuild()
    town = grid_town()
    town[900] = (["shop"], shapely.Point(5.6, 1.4))
    scene.write_source(town)
    scene.rebuild()
    scene.assert_in_force(2)
    resolve = scene.records()[-1]["steps"]["resolve"]
    assert resolve["base"] == 1
    # Those of entities and places that see it, or look from afar: never the area in the corner.
    assert 0 < resolve["resolved"] <= len(ALL) - 1
    facts = current_generation(scene.client)
    assert facts is not None
    changes = scene.changes_of(facts.generation)
    told = dict(zip(changes.sub_ids.tolist(), changes.gained.tolist(), strict=True))
    assert told[8] == 1
    assert 9 not in told


def test_a_world_in_another_crs_has_places_of_its_own(around_places: RebuildScene) -> None:
    """The town stays at its numbers, which are another place on the Earth there."""
    scene = around_places
    scene.rebuild()
    scene.write_source(grid_town(), crs=32632)
    there = place("POLYGON((0.1 0.1, 2.1 0.1, 2.1 2.1, 0.1 2.1, 0.1 0.1))", srid=32632)
    [number] = scene.subscribe([f"({{{there}}},{{shop}},CV)"], "there")
    scene.rebuild(import_options={"srid": 32632})
    scene.assert_in_force(2)
    members = {sub_id for sub_id, _, _ in scene.expected_rows(2)}
    assert number in members
    assert not members & {8, 9}


def test_a_key_that_was_registered_as_it_is_leaves_its_subscription_without_result(
    around_places: RebuildScene,
) -> None:
    """No broker registers one; the others must not suffer from it."""
    scene = around_places
    [number] = scene.subscribe(["({key:2},{shop},DW4)"], "elsewhere")
    scene.rebuild()
    resolve = scene.records()[-1]["steps"]["resolve"]
    assert resolve["unresolved"] == [number]
    assert {sub_id for sub_id, _, _ in scene.rows_in_delta(1)} >= {8, 9, 10, 11}
