"""A real cluster of three nodes: a generation spreads over it and is one there, too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis import Redis, RedisCluster

from redis_link.connection.client import RedisClient, connect
from redis_link.generation import generation_store
from redis_link.generation.generation_push import GenerationPush
from redis_link.registry.named_neighborhoods import add_name, remove_name
from redis_link.registry.registry_reader import registered_subscriptions
from redis_link.sets.set_writer import write_pairs
from redis_link.sets.shard_pipe import ShardPipe
from schemas.errors import NameInUseError, PushBusyError
from schemas.language.notation import read_neighborhood
from schemas.redis_keys import membership_key, shard_index_key
from schemas.subscription import Registration
from tests.scenes.registrations import BROKER, register, unregister
from tests.servers.redis_content import (
    as_pairs,
    generation_keys,
    numbers_of_generations,
    pairs_in_redis,
    random_pairs,
)
from tests.servers.redis_pushes import SOURCE, all_tallies, push
from tests.servers.redis_server import RedisServer, cluster_url, running_cluster


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RedisServer]]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as servers:
        yield servers


@pytest.fixture
def cluster(nodes: list[RedisServer]) -> Iterator[RedisClient]:
    """A client that knows one node and finds the others; the cluster is empty."""
    for node in nodes:
        with Redis(port=node.port) as client:
            client.flushall()
    client = connect(cluster_url(nodes[:1]))
    yield client
    client.close()


def test_a_generation_is_spread_over_the_nodes(
    nodes: list[RedisServer], cluster: RedisClient
) -> None:
    pairs = random_pairs(1, 60_000, peids=6_000)
    generation = push(cluster, pairs)
    assert pairs_in_redis(cluster, generation) == as_pairs(*pairs)
    counts = []
    for node in nodes:
        with Redis(port=node.port) as client:
            counts.append(sum(1 for _ in client.scan_iter(match=f"spaps:*:g{generation}:*")))
    assert min(counts) > 0.8 * sum(counts) / len(nodes)


def test_a_shard_lies_in_one_slot(cluster: RedisClient) -> None:
    assert isinstance(cluster, RedisCluster)
    keys = [membership_key(7, 5), membership_key(8, 5 + 1021), shard_index_key(9, 5)]
    assert len({cluster.keyslot(key) for key in keys}) == 1


def test_next_push_replaces_and_leaves_no_key(cluster: RedisClient) -> None:
    push(cluster, random_pairs(2, 5_000))
    pairs = random_pairs(3, 5_000)
    second = push(cluster, pairs)
    assert numbers_of_generations(cluster) == {second}
    assert pairs_in_redis(cluster, second) == as_pairs(*pairs)


def test_two_at_once(nodes: list[RedisServer], cluster: RedisClient) -> None:
    with GenerationPush(cluster, SOURCE), pytest.raises(PushBusyError):
        push(connect(cluster_url(nodes)), random_pairs(4, 10))


def test_a_slot_that_moves_is_followed(nodes: list[RedisServer], cluster: RedisClient) -> None:
    """The pipe still has the old map when it meets a slot that another node took over."""
    assert isinstance(cluster, RedisCluster)
    pairs = random_pairs(5, 20_000, peids=3_000)
    slot = int(cluster.keyslot(shard_index_key(1, int(pairs[0][0]) % 1021)))
    ids = {port: _node_id(port) for port in (node.port for node in nodes)}
    holder = cluster.get_node_from_key(shard_index_key(1, int(pairs[0][0]) % 1021)).port
    taker = next(port for port in ids if port != holder)
    with GenerationPush(cluster, SOURCE) as building:
        generation = building.token.generation
        for port in (taker, holder, *ids):
            with Redis(port=port) as client:
                client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", ids[taker])
        with ShardPipe(cluster) as pipe:
            expected = write_pairs(pipe, generation, *pairs)
        assert cluster.get_node_from_key(shard_index_key(1, int(pairs[0][0]) % 1021)).port == taker
        building.switch(expected, all_tallies(cluster, generation))
    assert generation_store.current_number(cluster) == generation
    assert pairs_in_redis(cluster, generation) == as_pairs(*pairs)
    assert generation_keys(cluster, generation)


def _node_id(port: int) -> str:
    with Redis(port=port) as client:
        return str(client.execute_command("CLUSTER", "MYID").decode())


def test_registry(cluster: RedisClient) -> None:
    registration = Registration("client", 1, "a/#", "{}", "h", BROKER)
    sub_id = register(cluster, registration)
    assert dict(registered_subscriptions(cluster)) == {sub_id: registration}
    assert unregister(cluster, "client") == (sub_id,)


def test_named_neighborhoods(cluster: RedisClient) -> None:
    add_name(cluster, "old", read_neighborhood("({1},{#},C)"))
    register(cluster, Registration("client", 1, "t", "{}", "h", BROKER, "old"))
    with pytest.raises(NameInUseError):
        remove_name(cluster, "old", forced=False)
    assert unregister(cluster, "client")
    assert remove_name(cluster, "old", forced=False) == 0
