"""A generation made out of the one in force: the same as one that was pushed whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from redis_link.connection.client import RedisClient, connect
from redis_link.generation.generation_push import PushReport
from redis_link.generation.generation_store import current_generation
from redis_link.generation.local_push import can_copy, push_changes
from redis_link.sets.pair_arrays import Int64s
from redis_link.sets.set_reader import read_index
from schemas.errors import GenerationError
from schemas.generation import GenerationFacts
from schemas.redis_keys import SHARD_COUNT, membership_key
from tests.servers.redis_content import (
    Pairs,
    as_pairs,
    numbers_of_generations,
    pairs_in_redis,
    random_pairs,
)
from tests.servers.redis_pushes import AT_ONCE, SOURCE, push
from tests.servers.redis_server import cluster_url, running_cluster

NONE = (np.empty(0, np.int64), np.empty(0, np.int64))


def arrays(pairs: Pairs) -> tuple[Int64s, Int64s]:
    listed = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return listed[:, 0], listed[:, 1]


def in_force(client: RedisClient) -> GenerationFacts:
    facts = current_generation(client)
    assert facts is not None
    return facts


def push_difference(client: RedisClient, old: Pairs, new: Pairs) -> PushReport:
    changes = arrays(new - old), arrays(old - new)
    report = push_changes(client, SOURCE, in_force(client), lambda: changes, retention=AT_ONCE)
    assert report.cleanup is not None
    report.cleanup.wait()
    return report


def changed(old: Pairs) -> Pairs:
    """Entities that lose everything, entities that are new, and some in between."""
    gone = {peid for peid, _ in sorted(old)[:40]}
    fewer = {pair for number, pair in enumerate(sorted(old)) if number % 50}
    more = {(peid, 60_000 + number) for number, (peid, _) in enumerate(sorted(old)[::70])}
    fresh = {(2**62 + number, number) for number in range(30)}
    return {pair for pair in fewer if pair[0] not in gone} | more | fresh


def assert_same_as_pushed_whole(client: RedisClient, old: Pairs, new: Pairs) -> None:
    push(client, arrays(old))
    report = push_difference(client, old, new)
    assert pairs_in_redis(client, report.generation) == new
    _, peids = read_index(client, report.generation, range(SHARD_COUNT))
    assert set(peids.tolist()) == {peid for peid, _ in new}
    assert numbers_of_generations(client) == ({report.generation} if new else set())
    made = in_force(client)
    push(client, arrays(new))
    whole = in_force(client)
    assert (made.pairs, made.peids, made.checksum) == (whole.pairs, whole.peids, whole.checksum)


def test_differences_give_what_a_whole_push_gives(redis_client: RedisClient) -> None:
    old = as_pairs(*random_pairs(1, 5_000))
    assert can_copy(redis_client)
    assert_same_as_pushed_whole(redis_client, old, changed(old))


@pytest.mark.parametrize("new", [set(), {(5, 1), (6, 2)}])
def test_nothing_left_nothing_different(redis_client: RedisClient, new: Pairs) -> None:
    assert_same_as_pushed_whole(redis_client, {(5, 1), (6, 2)}, new)


def test_out_of_nothing(redis_client: RedisClient) -> None:
    assert_same_as_pushed_whole(redis_client, set(), {(5, 1), (6, 2)})


def test_on_a_cluster(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as servers:
        client = connect(cluster_url(servers))
        old = as_pairs(*random_pairs(2, 2_000, peids=300))
        push(client, arrays(old))
        report = push_difference(client, old, changed(old))
        found = {
            (peid, int(member))
            for peid in read_index(client, report.generation, range(SHARD_COUNT))[1].tolist()
            for member in client.smembers(membership_key(report.generation, peid))
        }
        assert found == changed(old)
        client.close()


@pytest.mark.parametrize("damage", ["a set is gone", "a set has one more", "said to be there"])
def test_what_is_not_as_it_should_be_is_not_switched_to(
    redis_client: RedisClient, damage: str
) -> None:
    old = as_pairs(*random_pairs(3, 1_000))
    generation = push(redis_client, arrays(old))
    peids = sorted({peid for peid, _ in old})
    added = np.array([2**61]), np.array([1])
    match damage:
        case "a set is gone":
            redis_client.delete(membership_key(generation, peids[7]))
        case "a set has one more":
            redis_client.sadd(membership_key(generation, peids[7]), 77_777)
        case _:
            there = sorted(old)[5]
            added = np.array([there[0]]), np.array([there[1]])
    facts = in_force(redis_client)
    with pytest.raises(GenerationError, match="is not what was written"):
        push_changes(redis_client, SOURCE, facts, lambda: (added, NONE), retention=AT_ONCE)
    assert in_force(redis_client) == facts
    assert numbers_of_generations(redis_client) == {generation}


def test_only_the_generation_in_force_is_copied(redis_client: RedisClient) -> None:
    push(redis_client, arrays({(1, 1)}))
    old = in_force(redis_client)
    push(redis_client, arrays({(2, 2)}))
    with pytest.raises(GenerationError, match="no longer"):
        push_changes(redis_client, SOURCE, old, lambda: (NONE, NONE), retention=AT_ONCE)
