"""Sentinel: the master is found by name, and a push outlives a failover."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from redis import Redis

from redis_link.connection.client import connect
from redis_link.generation.generation_push import GenerationPush
from redis_link.generation.push_lock import FENCE_SECONDS, fenced_writer
from schemas.errors import RedisLinkError
from tests.servers.programs import require_redis_server
from tests.servers.redis_content import as_pairs, pairs_in_redis, random_pairs
from tests.servers.redis_pushes import SOURCE, all_tallies, push
from tests.servers.redis_server import RedisServer, running_redis, running_sentinel, wait_for

SERVICE = "spaps-master"


@dataclass(slots=True)
class Watched:
    """A master with a replica, and the Sentinel that watches them."""

    master: RedisServer
    replica: RedisServer
    url: str


@pytest.fixture
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    require_redis_server("--sentinel")
    folder = tmp_path_factory.mktemp("sentinel")
    with running_redis(folder / "master", "--repl-diskless-sync-delay", "0") as master:
        follow = ("--replicaof", "127.0.0.1", str(master.port))
        with (
            running_redis(folder / "replica", *follow) as replica,
            running_sentinel(folder / "sentinel", SERVICE, master) as sentinel,
        ):
            wait_for(lambda: _in_step(replica), "the replica")
            wait_for(lambda: _replicas_known(sentinel) == 1, "Sentinel to know the replica")
            yield Watched(master, replica, f"redis+sentinel://127.0.0.1:{sentinel}/{SERVICE}")


def _in_step(replica: RedisServer) -> bool:
    with Redis(port=replica.port) as client:
        return client.info("replication")["master_link_status"] == "up"


def _replicas_known(sentinel: int) -> int:
    with Redis(port=sentinel, decode_responses=True) as client:
        return int(client.sentinel_master(SERVICE)["num-slaves"])


def test_push_goes_to_the_master(watched: Watched) -> None:
    pairs = random_pairs(1, 5_000)
    client = connect(watched.url)
    generation = push(client, pairs)
    with Redis(port=watched.master.port) as master:
        assert pairs_in_redis(master, generation) == as_pairs(*pairs)


def test_unknown_service_is_said(watched: Watched) -> None:
    with pytest.raises(RedisLinkError, match="other"):
        connect(watched.url.replace(SERVICE, "other"))


def test_a_failover_while_writing(watched: Watched) -> None:
    """Writes that the dead master did not pass on are lost; the comparison must see that."""
    client = connect(watched.url)
    pairs = random_pairs(2, 50_000, peids=5_000)
    with GenerationPush(client, SOURCE, lock_seconds=300) as building:
        generation = building.token.generation
        with fenced_writer(client, building.token, patience_seconds=120) as writer:
            expected = writer.write(*pairs)
            writer.flush()
            with Redis(port=watched.master.port) as master:
                assert master.wait(1, 5_000) == 1
            # The lock is asked for again before the next sets: by then the master is gone.
            time.sleep(FENCE_SECONDS)
            watched.master.kill()
            more = random_pairs(3, 50_000, peids=5_000)
            expected += writer.write(*more)
        building.switch(expected, all_tallies(client, generation))
    with Redis(port=watched.replica.port) as new_master:
        assert new_master.info("replication")["role"] == "master"
        assert pairs_in_redis(new_master, generation) == as_pairs(*pairs) | as_pairs(*more)
