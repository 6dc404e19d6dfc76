"""SIGKILL at any moment of a rebuild: one whole version is in force, and the next run goes on."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest
import shapely

from redis_link.connection.client import RedisClient
from redis_link.generation.generation_store import current_generation
from schemas.redis_keys import push_lock_key
from tests.scenes.rebuild_scene import NEIGHBORHOODS, RebuildScene, grid_town
from tests.servers.killable_rebuild import start_rebuild
from tests.servers.redis_content import numbers_of_generations
from tests.servers.redis_server import RedisServer
from world.versions.store import WorldStore

WAIT_SECONDS = 300
RANDOM_KILLS = 5

# Where a rebuild of version 2 dies, which version is in force then, and which steps are noted.
POINTS = {
    "before the import": ("rebuild.run.import_world", 1, 1, None),
    "while it imports": ("world.imports.world_import.combine", 1, 1, None),
    "imported, without a record": ("rebuild.run._begin", 1, 1, None),
    "with a record": ("rebuild.exact_steps.compare_versions", 1, 1, ["import"]),
    "compared": ("rebuild.resolve.WorldPlace", 1, 1, ["import", "compare"]),
    "while members change": (
        "rebuild.resolve.changed_members", 1, 1, ["import", "compare"],
    ),
    "resolved": ("rebuild.resolve.write_memberships", 1, 1, ["import", "compare"]),
    "memberships written": ("world.memberships.resolved_sets._write", 1, 1, ["import", "compare"]),
    "members half saved": ("world.memberships.resolved_sets._write", 3, 1, ["import", "compare"]),
    "before the push": (
        "rebuild.steps.found_in_force", 1, 1, ["import", "compare", "resolve"],
    ),
    "sets copied": (
        "redis_link.sets.set_writer.write_pairs", 1, 1, ["import", "compare", "resolve"],
    ),
    "before the switch": (
        "redis_link.generation.generation_push.switch_generation", 1, 1,
        ["import", "compare", "resolve"],
    ),
    "after the switch": (
        "rebuild.steps.all_generations", 1, 2, ["import", "compare", "resolve"],
    ),
    "before the cleaning": (
        "rebuild.steps.clean_up", 1, 2, ["import", "compare", "resolve", "push"],
    ),
    "a version half removed": (
        "world.versions.removal.remove_leftovers", 1, 2, ["import", "compare", "resolve", "push"],
    ),
    "memberships removed": (
        "rebuild.cleanup._clean_records", 1, 2, ["import", "compare", "resolve", "push"],
    ),
}  # fmt: skip


@pytest.fixture
def scene(tmp_path: Path, redis_server: RedisServer, redis_client: RedisClient) -> RebuildScene:
    """Version 1 is in force, and the source says something else by now."""
    made = RebuildScene(tmp_path, redis_server.url, redis_client)
    made.write_source(grid_town(4))
    made.subscribe(NEIGHBORHOODS)
    made.rebuild()
    change_source(made, 0)
    return made


def change_source(scene: RebuildScene, number: int) -> None:
    town = grid_town(4)
    del town[11]
    town[200 + number] = (["shop"], shapely.Point(1 + number / 64, 1.5))
    scene.write_source(town)


def assert_whole(scene: RebuildScene) -> int:
    """The version in force, after every pair of it was found in Redis."""
    facts = current_generation(scene.client)
    assert facts is not None
    expected = {(peid, sub_id) for sub_id, peid, _ in scene.expected_rows(facts.version)}
    assert scene.pairs_in_force() == expected
    return facts.version


@pytest.mark.parametrize("point", POINTS)
def test_killed_at(point: str, scene: RebuildScene) -> None:
    place, call, version, noted = POINTS[point]
    process, _ = start_rebuild(scene, (place, call), keep_versions=1)
    process.join(WAIT_SECONDS)
    assert process.exitcode == -signal.SIGKILL
    assert assert_whole(scene) == version
    killed = scene.records()[1:]
    assert [list(record["steps"]) for record in killed] == ([] if noted is None else [noted])
    scene.client.delete(push_lock_key())
    scene.rebuild(if_changed=True, keep_versions=1)
    scene.assert_in_force(2)
    [record] = scene.records()[1:]
    assert record["outcome"] == "complete"
    assert [facts.version for facts in WorldStore(scene.places.world).versions()] == [2]
    assert numbers_of_generations(scene.client) == {record["steps"]["push"]["generation"]}


def test_killed_at_random_moments(scene: RebuildScene) -> None:
    dice = random.Random(7)  # noqa: S311 - no secret, and the same moments each time
    process, ready = start_rebuild(scene)
    assert ready.wait(WAIT_SECONDS)
    started = time.monotonic()
    process.join(WAIT_SECONDS)
    span = time.monotonic() - started
    killed = 0
    for attempt in range(1, 5 * RANDOM_KILLS):
        change_source(scene, attempt)
        before = assert_whole(scene)
        process, ready = start_rebuild(scene)
        assert ready.wait(WAIT_SECONDS)
        time.sleep(dice.uniform(0, span))
        process.kill()
        process.join(WAIT_SECONDS)
        killed += process.exitcode == -signal.SIGKILL
        assert assert_whole(scene) >= before
        scene.client.delete(push_lock_key())
        if killed >= RANDOM_KILLS:
            break
    assert killed >= RANDOM_KILLS
    scene.assert_in_force(scene.rebuild())


def test_the_control_an_unkilled_rebuild_dies_nowhere(scene: RebuildScene) -> None:
    process, _ = start_rebuild(scene, ("rebuild.steps.clean_up", 10_000))
    process.join(WAIT_SECONDS)
    assert process.exitcode == 0
    scene.assert_in_force(2)
