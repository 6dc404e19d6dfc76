"""SIGKILL at any moment of a push: readers see one whole generation, the next run cleans up."""

from __future__ import annotations

import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from redis_link.connection.client import RedisClient, connect
from redis_link.generation import generation_store
from redis_link.generation.push_lock import is_held
from schemas.generation import GenerationState
from schemas.membership import PEID, STAGE_NO, SUB_ID, VERSION
from schemas.redis_keys import push_lock_key
from tests.servers.killable_push import pairs_of, start_push
from tests.servers.redis_content import (
    Pairs,
    as_pairs,
    generation_keys,
    numbers_of_generations,
    pairs_in_redis,
    random_pairs,
)
from tests.servers.redis_server import RedisServer

VERSIONS = (1, 2)
RANDOM_KILLS = 20
WAIT_SECONDS = 300

# Where a push dies, and what stands in Redis then: the version that was pushed or the one before.
POINTS = {
    "before the lock": ("redis_link.generation.generation_push.PushLock", 1, "before"),
    "with the lock": ("redis_link.generation.generation_push.sweep_generations", 1, "before"),
    "before its number": ("redis_link.generation.generation_push.begin_generation", 1, "before"),
    "before any pair": ("redis_link.generation.push_lock.submit_sets", 1, "before"),
    "half of the index written": ("redis_link.sets.set_writer._submit", 300, "before"),
    "some sets written": ("redis_link.sets.set_writer._submit", 1_200, "before"),
    "before the switch": ("redis_link.generation.generation_push.switch_generation", 1, "before"),
    "after the switch": ("redis_link.generation.local_push.report_of", 1, "pushed"),
    "before the old is removed": ("redis_link.generation.sweep._unlink", 1, "pushed"),
}


@dataclass(slots=True)
class Scene:
    """A Delta table with two versions, and the pairs of each."""

    table: str
    pairs: dict[int, Pairs]
    url: str

    def push(self, version: int, dies_at: tuple[str, int] | None = None) -> int | None:
        """Run a push to its end; its exit code."""
        process, _ = start_push(self.table, version, self.url, dies_at)
        process.join(WAIT_SECONDS)
        return process.exitcode


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Large enough that a kill can fall into every step."""
    folder = tmp_path_factory.mktemp("lake") / "memberships"
    for version in VERSIONS:
        peids, sub_ids = random_pairs(version, 30_000, peids=1_500)
        rows = {SUB_ID: sub_ids, PEID: peids, STAGE_NO: [1] * len(peids),
                VERSION: [version] * len(peids)}  # fmt: skip
        write_deltalake(folder, pa.table(rows), mode="append", partition_by=[VERSION])
    return folder


@pytest.fixture
def scene(table: Path, redis_server: RedisServer) -> Scene:
    pairs = {version: as_pairs(*pairs_of(str(table), version)) for version in VERSIONS}
    assert pairs[1] != pairs[2]
    return Scene(str(table), pairs, redis_server.url)


def version_seen(client: RedisClient, scene: Scene) -> int:
    """The version that a reader finds, after it has found every pair of it."""
    facts = generation_store.current_generation(client)
    assert facts is not None
    assert facts.state is GenerationState.COMPLETE
    assert pairs_in_redis(client, facts.generation) == scene.pairs[facts.version]
    return facts.version


def expire_lock(client: RedisClient) -> None:
    """As if the time of a dead holder were over; test_redis_push_lock waits for it in earnest."""
    client.delete(push_lock_key())


def assert_clean(client: RedisClient) -> None:
    """Nothing but the current generation is left, and the lock is free."""
    assert numbers_of_generations(client) == {generation_store.current_number(client)}
    states = {facts.state for facts in generation_store.all_generations(client)}
    assert states <= {GenerationState.COMPLETE, GenerationState.REMOVED}
    assert not is_held(client)


@pytest.mark.parametrize("point", POINTS)
def test_killed_at(point: str, scene: Scene) -> None:
    place, call, expected = POINTS[point]
    client = connect(scene.url)
    assert scene.push(1) == 0
    assert scene.push(2, (place, call)) == -signal.SIGKILL
    assert version_seen(client, scene) == (2 if expected == "pushed" else 1)
    expire_lock(client)
    assert scene.push(2) == 0
    assert version_seen(client, scene) == 2
    assert_clean(client)


def test_killed_at_random_moments(scene: Scene) -> None:
    client = connect(scene.url)
    process, ready = start_push(scene.table, 1, scene.url)
    assert ready.wait(WAIT_SECONDS)
    started = time.monotonic()
    process.join(WAIT_SECONDS)
    span = time.monotonic() - started
    dice = random.Random(4)  # noqa: S311 - no secret, and the same moments each time
    killed = left_behind = 0
    for attempt in range(5 * RANDOM_KILLS):
        before = version_seen(client, scene)
        version = VERSIONS[attempt % 2]
        process, ready = start_push(scene.table, version, scene.url)
        assert ready.wait(WAIT_SECONDS)
        time.sleep(dice.uniform(0, span))
        process.kill()
        process.join(WAIT_SECONDS)
        if process.exitcode == -signal.SIGKILL:
            killed += 1
        else:
            span /= 2  # the machine has become faster than at the first push
        assert version_seen(client, scene) in (before, version)
        left_behind += len(numbers_of_generations(client)) > 1
        expire_lock(client)
        if killed >= RANDOM_KILLS and left_behind:
            break
    assert killed >= RANDOM_KILLS
    assert left_behind, "no kill fell into the writing"
    assert scene.push(2) == 0
    assert version_seen(client, scene) == 2
    assert_clean(client)
    assert generation_keys(client, 1) == []


def test_the_control_an_unkilled_push_dies_nowhere(scene: Scene) -> None:
    """The points above are reached: with a call number that never comes, all goes well."""
    assert scene.push(1, ("redis_link.generation.push_lock.submit_sets", 10_000)) == 0
    client = connect(scene.url)
    assert version_seen(client, scene) == 1
    assert_clean(client)
