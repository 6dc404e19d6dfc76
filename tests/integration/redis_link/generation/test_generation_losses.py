"""A push that would take away too much from the generation in force does not switch."""

from __future__ import annotations

import numpy as np
import pytest

from redis_link.connection.client import RedisClient
from redis_link.generation.generation_store import current_generation, current_number
from redis_link.generation.local_push import push_changes, push_pairs
from redis_link.generation.quality_gate import (
    Losses,
    QualityGate,
    count_losses,
    generation_in_force,
)
from redis_link.generation.sweep import Retention
from redis_link.sets.pair_arrays import Pairs
from schemas.errors import QualityError
from schemas.redis_keys import SHARD_COUNT, current_generation_key, shard_index_key
from schemas.settings import QualitySettings
from tests.servers.redis_content import numbers_of_generations
from tests.servers.redis_pushes import AT_ONCE, SOURCE, push, push_reported

ENTITIES, EACH = 100, 4


def whole() -> Pairs:
    """100 entities with 4 members each."""
    peids = np.repeat(np.arange(ENTITIES, dtype=np.int64) * 10**9, EACH)
    return peids, np.tile(np.arange(EACH, dtype=np.int64), ENTITIES)


def without(entities: int, members: int) -> tuple[Pairs, Pairs]:
    """What is left of them, and what is gone: whole entities, then one member of others."""
    peids, sub_ids = whole()
    gone = np.zeros(len(peids), np.bool_)
    gone[: entities * EACH] = True
    gone[entities * EACH :: EACH][:members] = True
    return (peids[~gone], sub_ids[~gone]), (peids[gone], sub_ids[gone])


def gate(entities_gone: float, members_gone: float) -> QualityGate:
    return QualityGate(QualitySettings(entities_gone, members_gone, 1.0, counted_from=ENTITIES))


def test_losses_are_counted(redis_client: RedisClient) -> None:
    left, _ = without(10, 5)
    old = push(redis_client, whole())
    new = push_reported(redis_client, left, SOURCE, Retention(60)).generation
    shards = range(SHARD_COUNT)
    assert count_losses(redis_client, old, new, shards) == Losses(100, 10, 400, 45)
    assert count_losses(redis_client, new, old, shards) == Losses(90, 0, 355, 0)
    parts = [count_losses(redis_client, old, new, range(at, SHARD_COUNT, 7)) for at in range(7)]
    assert sum(parts, Losses()) == Losses(100, 10, 400, 45)


@pytest.mark.parametrize("changes", [False, True])
def test_a_push_stops_beyond_the_edge(redis_client: RedisClient, changes: bool) -> None:
    """40 of 400 members are gone with 10 of 100 entities."""

    def push_left(limits: QualityGate) -> int:
        left, gone = without(10, 0)
        if not changes:
            made = push_pairs(redis_client, SOURCE, [left], retention=AT_ONCE, gate=limits)
        else:
            base = current_generation(redis_client)
            assert base is not None
            nothing = (np.empty(0, np.int64), np.empty(0, np.int64))
            made = push_changes(
                redis_client, SOURCE, base, lambda: (nothing, gone), retention=AT_ONCE, gate=limits
            )
        assert made.cleanup is not None
        made.cleanup.wait()
        return made.generation

    old = push(redis_client, whole())
    for limits, words in (
        (gate(0.099, 1.0), "10 of 100 entities with members would be gone"),
        (gate(1.0, 0.099), "40 of 400 members would be gone"),
    ):
        with pytest.raises(QualityError, match=words):
            push_left(limits)
        assert current_number(redis_client) == old
        assert numbers_of_generations(redis_client) == {old}
    new = push_left(gate(0.1, 0.1))
    assert current_number(redis_client) == new


def test_a_generation_that_cannot_be_read_stops_no_push(redis_client: RedisClient) -> None:
    old = push(redis_client, whole())
    for shard in range(SHARD_COUNT):
        redis_client.set(shard_index_key(old, shard), "no set")
    push_pairs(redis_client, SOURCE, [without(90, 0)[0]], retention=AT_ONCE, gate=gate(0.1, 0.1))
    assert current_number(redis_client) == old + 1
    redis_client.set(current_generation_key(), "77")
    assert generation_in_force(redis_client) is None
