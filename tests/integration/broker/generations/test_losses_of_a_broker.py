"""A running system loses one key after the other: it serves on, and one command repairs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError

import pytest

from redis_link.connection.client import RedisClient
from redis_link.generation.generation_store import current_number
from schemas import redis_keys
from spaps.cli.command_line import run
from tests.scenes.rebuild_scene import RebuildScene, grid_town
from tests.scenes.switch_scene import (
    ROADS_OF_1,
    ROADS_OF_2,
    Listener,
    expected,
    peids_of,
)
from tests.servers.redis_server import RedisServer
from tests.servers.running_broker import RunningBroker, running_broker, until

ROADS = peids_of(grid_town())
HELD = {7: ROADS_OF_1, 8: ROADS_OF_2}
BROKER = "broker"


def each_key(client: RedisClient) -> list[str]:
    """One key of every kind that the running system has now."""
    generation = current_number(client) or 0
    edition = int(client.hget(redis_keys.journal_key(BROKER), "edition") or 0)
    return [
        redis_keys.current_generation_key(),
        redis_keys.generations_key(),
        redis_keys.last_generation_key(),
        redis_keys.push_lock_key(),
        redis_keys.generation_changes_key(generation),
        redis_keys.membership_key(generation, min(peids_in(client, generation))),
        redis_keys.registry_id_key(),
        redis_keys.last_sub_id_key(),
        redis_keys.subscriptions_key(),
        redis_keys.client_subscriptions_key(BROKER, "one"),
        redis_keys.broker_subscriptions_key(BROKER),
        redis_keys.brokers_key(),
        redis_keys.broker_lease_key(BROKER),
        redis_keys.broker_told_key(BROKER),
        redis_keys.journal_key(BROKER),
        redis_keys.journal_sessions_key(BROKER, edition),
        redis_keys.journal_session_key(BROKER, edition, "one"),
    ]


def peids_in(client: RedisClient, generation: int) -> set[int]:
    keys = client.scan_iter(f"spaps:{{*}}:g{generation}:*", count=1_000)
    return {int(name) for key in keys if (name := key.decode().rpartition(":")[2]).isdigit()}


def delete(client: RedisClient, key: str) -> None:
    client.delete(key)


def replace_by_list(client: RedisClient, key: str) -> None:
    # In one step: in between a broker would write the key again.
    client.pipeline(transaction=True).delete(key).rpush(key, "of the wrong kind").execute()


@pytest.mark.parametrize(("mode", "damage"), [("memory", replace_by_list), ("redis", delete)])
def test_a_system_that_loses_one_key_after_the_other(
    redis_server: RedisServer,
    redis_client: RedisClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    damage: Callable[[RedisClient, str], None],
) -> None:
    scene = RebuildScene(tmp_path, redis_server.url, redis_client)
    scene.write_source(grid_town())
    scene.rebuild()
    for name, value in {
        "WORLD_DIR": scene.places.world, "REDIS_URL": scene.redis_url,
        "REBUILD_OUT": scene.places.out, "REBUILD_RECORDS": str(scene.places.records),
        "REBUILD_GRACE_SECONDS": "0",
    }.items():  # fmt: skip
        monkeypatch.setenv(f"SPAPS_{name}", value)
    options = ("--allow-anonymous", "--http", "127.0.0.1:0", "--redis", scene.redis_url,
               "--memberships", mode)  # fmt: skip
    with running_broker(tmp_path, *options) as broker:
        one = Listener(broker.port, "one")
        for nsid, notation in HELD.items():
            one.client.subscribe("news/#", notation, qos=1, nsid=nsid)
        scene.rebuild()
        for number in range(len(each_key(redis_client))):
            key = each_key(redis_client)[number]
            damage(redis_client, key)
            assert run(["rebuild", "--full"]) == 0, key
            wait_until_well(broker, redis_client)
            assert one.hears(ROADS) == expected(scene, 1, HELD, ROADS), key
        one.close()
    with running_broker(tmp_path, *options) as broker:
        assert broker.health()["status"] == "ok", broker.health()
        one = Listener(broker.port, "one", resumes=True)
        assert one.hears(ROADS) == expected(scene, 1, HELD, ROADS)
        one.close()


def wait_until_well(broker: RunningBroker, client: RedisClient) -> None:
    """Until the broker follows the new generation, and everything of it is stored."""

    def is_well() -> bool:
        try:
            health = broker.health()
        except HTTPError:
            return False  # a broker that is not well answers with 503
        return health["status"] == "ok" and health["generation"] == current_number(client)

    until(is_well, "a broker that is well")
