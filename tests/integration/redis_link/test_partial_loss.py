"""Any key of a generation or of the registry is lost or damaged: one command is the way back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from redis_link.connection.client import RedisClient, connect
from redis_link.generation.generation_store import current_generation
from redis_link.registry.registry_reader import registered_subscriptions
from schemas import redis_keys
from schemas.errors import REPAIR_ADVICE
from spaps.cli.command_line import run
from tests.scenes.rebuild_scene import NEIGHBORHOODS, RebuildScene, grid_town
from tests.servers.redis_content import numbers_of_generations
from tests.servers.redis_server import RedisServer

Damage = Callable[[RedisClient, str], object]

# A road that several neighborhoods hold.
PEID = 13


def delete(client: RedisClient, key: str) -> None:
    client.delete(key)


def replace_by_list(client: RedisClient, key: str) -> None:
    client.delete(key)
    client.rpush(key, "of the wrong kind")


def replace_by_words(client: RedisClient, key: str) -> None:
    client.set(key, "no number and no JSON")


def break_fields(client: RedisClient, key: str) -> None:
    for field in client.hkeys(key):
        client.hset(key, field, "{no JSON")


def set_key(generation: int, _: RebuildScene) -> str:
    return redis_keys.membership_key(generation, PEID)


def index_key(generation: int, _: RebuildScene) -> str:
    return redis_keys.shard_index_key(generation, redis_keys.shard_of(PEID))


KEYS: dict[str, Callable[[int, RebuildScene], str]] = {
    "pointer": lambda *_: redis_keys.current_generation_key(),
    "facts": lambda *_: redis_keys.generations_key(),
    "counter": lambda *_: redis_keys.last_generation_key(),
    "lock": lambda *_: redis_keys.push_lock_key(),
    "changes": lambda generation, _: redis_keys.generation_changes_key(generation),
    "set": set_key,
    "index": index_key,
    "registry id": lambda *_: redis_keys.registry_id_key(),
    "registry counter": lambda *_: redis_keys.last_sub_id_key(),
    "registrations": lambda *_: redis_keys.subscriptions_key(),
    "client": lambda *_: redis_keys.client_subscriptions_key("", "tester"),
}
WAYS: dict[str, Damage] = {
    "deleted": delete,
    "a list": replace_by_list,
    "words": replace_by_words,
    "broken fields": break_fields,
}
CASES = [
    (key, way)
    for key in KEYS
    for way in WAYS
    if way != "broken fields" or key in {"facts", "registrations"}
    if way != "words" or key not in {"set", "index"}
]


@pytest.fixture(scope="module")
def built(
    shared_redis: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RebuildScene, dict[bytes, bytes]]:
    """A world in force with subscriptions, and what Redis holds of it."""
    client = connect(shared_redis.url)
    client.flushall()
    scene = RebuildScene(tmp_path_factory.mktemp("built"), shared_redis.url, client)
    scene.write_source(grid_town(4))
    scene.subscribe(NEIGHBORHOODS)
    scene.rebuild()
    return scene, {key: client.dump(key) for key in client.scan_iter()}


@pytest.fixture
def scene(
    built: tuple[RebuildScene, dict[bytes, bytes]], monkeypatch: pytest.MonkeyPatch
) -> RebuildScene:
    """The same world and Redis as before any damage; no broker runs."""
    made, content = built
    made.client.flushall()
    for key, value in content.items():
        made.client.restore(key, 0, value)
    for name, value in {
        "WORLD_DIR": made.places.world,
        "REDIS_URL": made.redis_url,
        "REBUILD_OUT": made.places.out,
        "REBUILD_RECORDS": str(made.places.records),
        "REBUILD_GRACE_SECONDS": "0",
    }.items():
        monkeypatch.setenv(f"SPAPS_{name}", value)
    monkeypatch.setattr("redis_link.generation.repair.BROKER_SECONDS", 0.05)
    return made


def now_in_force(scene: RebuildScene) -> int:
    facts = current_generation(scene.client)
    assert facts is not None
    return facts.generation


@pytest.mark.parametrize(("key", "way"), CASES)
def test_one_command_is_the_way_back(
    scene: RebuildScene, key: str, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = current_generation(scene.client)
    assert facts is not None
    WAYS[way](scene.client, KEYS[key](facts.generation, scene))
    for command in (["versions"], ["rebuild"]):
        capsys.readouterr()
        if run(command) != 0:
            said = capsys.readouterr()
            # After the switch it is part of the line on the rebuild.
            assert REPAIR_ADVICE in (said.out or said.err).strip().splitlines()[-1]
    assert run(["rebuild", "--full"]) == 0, capsys.readouterr().err
    scene.assert_in_force(1)
    if key != "registrations":
        assert len(list(registered_subscriptions(scene.client))) == len(NEIGHBORHOODS)
        assert numbers_of_generations(scene.client) == {now_in_force(scene)}
    assert now_in_force(scene) > facts.generation
    # And from then on everything goes as ever.
    assert run(["versions"]) == 0
