"""A push that would take away too much from the generation in force does not switch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from redis_link.connection.client import RedisClient
from redis_link.generation.generation_losses import LossBase, Losses, read_back
from redis_link.generation.generation_push import PushSource
from redis_link.generation.generation_store import current_generation, current_number
from redis_link.generation.local_push import push_changes, push_pairs
from redis_link.generation.quality_gate import QualityGate, generation_in_force
from redis_link.generation.sweep import Retention
from redis_link.sets.pair_arrays import Pairs
from schemas.errors import QualityError, RedisLinkError
from schemas.generation import RegistryCoverage
from schemas.redis_keys import (
    SHARD_COUNT,
    current_generation_key,
    shard_index_key,
    subscriptions_key,
)
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


def nothing() -> Pairs:
    """No pairs."""
    return np.empty(0, np.int64), np.empty(0, np.int64)


def gate(entities_gone: float, members_gone: float) -> QualityGate:
    return QualityGate(QualitySettings(entities_gone, members_gone, 1.0, counted_from=ENTITIES))


def test_losses_are_counted(redis_client: RedisClient) -> None:
    left, _ = without(10, 5)
    old = push(redis_client, whole())
    new = push_reported(redis_client, left, SOURCE, Retention(60)).generation

    def lost(first: int, then: int, shards: range = range(SHARD_COUNT)) -> Losses:
        return read_back(redis_client, then, shards, LossBase(first, None))[1]

    assert lost(old, new) == Losses(100, 10, 400, 45)
    assert lost(new, old) == Losses(90, 0, 355, 0)
    parts = [lost(old, new, range(at, SHARD_COUNT, 7)) for at in range(7)]
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
            made = push_changes(
                redis_client,
                SOURCE,
                base,
                lambda: (nothing(), gone),
                retention=AT_ONCE,
                gate=limits,
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
    left, limits = without(90, 0)[0], gate(0.1, 0.1)
    made = push_pairs(redis_client, SOURCE, [left], retention=AT_ONCE, gate=limits)
    assert made.cleanup is not None
    with pytest.raises(RedisLinkError, match="rebuild --full"):
        made.cleanup.wait()
    assert current_number(redis_client) == old + 1
    redis_client.set(current_generation_key(), "77")
    assert generation_in_force(redis_client) is None


REGISTERED = replace(SOURCE, coverage=RegistryCoverage("the registry", EACH))


def register_first(client: RedisClient, count: int) -> None:
    """Have the registry hold the first subIds alone."""
    client.delete(subscriptions_key())
    for number in range(count):
        client.hset(subscriptions_key(), str(number), "{}")


def push_rest(
    client: RedisClient,
    rest: Pairs,
    limits: QualityGate,
    *,
    by_changes: bool,
    source: PushSource = REGISTERED,
) -> None:
    """Push what is left of all pairs, or has come, and wait for the sweep."""
    if by_changes:
        base = current_generation(client)
        assert base is not None
        before, after = (set(zip(*map(np.ndarray.tolist, pairs), strict=True))
                         for pairs in (whole(), rest))  # fmt: skip
        changes = (as_pairs(after - before), as_pairs(before - after))
        made = push_changes(client, source, base, lambda: changes, retention=AT_ONCE, gate=limits)
    else:
        made = push_pairs(client, source, [rest], retention=AT_ONCE, gate=limits)
    assert made.cleanup is not None
    made.cleanup.wait()


def as_pairs(pairs: set[tuple[int, int]]) -> Pairs:
    peids, sub_ids = np.array(sorted(pairs), np.int64).reshape(-1, 2).T
    return peids, sub_ids


@pytest.mark.parametrize("by_changes", [False, True])
@pytest.mark.parametrize("count", [2, 0])
def test_subscriptions_that_ended_are_not_lost(
    redis_client: RedisClient, by_changes: bool, count: int
) -> None:
    """Of four subscriptions with all entities two end, or all."""
    strict = gate(0.0, 0.0)
    peids, sub_ids = whole()
    rest = (peids[sub_ids < count], sub_ids[sub_ids < count])
    more = (peids[::EACH], np.full(ENTITIES, EACH + 1, np.int64))
    push_reported(redis_client, whole(), REGISTERED, AT_ONCE)
    register_first(redis_client, EACH)
    # They are registered, so their members are lost, also where a new subscription has more.
    with_more = (np.concatenate([rest[0], more[0]]), np.concatenate([rest[1], more[1]]))
    for pairs in (rest, with_more):
        words = f"{(EACH - count) * ENTITIES} of 400 members would be gone"
        with pytest.raises(QualityError, match=words):
            push_rest(redis_client, pairs, strict, by_changes=by_changes)
    register_first(redis_client, count)
    push_rest(redis_client, rest, strict, by_changes=by_changes)


@pytest.mark.parametrize("by_changes", [False, True])
@pytest.mark.parametrize("covered", [(1, EACH), (EACH, 1)])
def test_subscriptions_that_only_one_need_have_are_not_lost(
    redis_client: RedisClient, covered: tuple[int, int], by_changes: bool
) -> None:
    """Two of four subscriptions came while the old generation was resolved, or after the new."""
    old, new = (replace(SOURCE, coverage=RegistryCoverage("the registry", up_to))
                for up_to in covered)  # fmt: skip
    push_reported(redis_client, whole(), old, AT_ONCE)
    register_first(redis_client, EACH)
    peids, sub_ids = whole()
    strict = gate(0.0, 0.0)
    with pytest.raises(QualityError, match="100 of 200 members would be gone"):
        push_rest(redis_client, (peids[sub_ids < 1], sub_ids[sub_ids < 1]), strict,
                  by_changes=by_changes, source=new)  # fmt: skip
    push_rest(redis_client, (peids[sub_ids < 2], sub_ids[sub_ids < 2]), strict,
              by_changes=by_changes, source=new)  # fmt: skip


@pytest.mark.parametrize("by_changes", [False, True])
def test_what_others_lose_is_a_share_of_what_they_had(
    redis_client: RedisClient, by_changes: bool
) -> None:
    """Three of four subscriptions end. The fourth loses 10 of its 100 entities."""
    push_reported(redis_client, whole(), REGISTERED, AT_ONCE)
    register_first(redis_client, 1)
    peids, sub_ids = whole()
    left = (sub_ids == 0) & (peids >= 10 * 10**9)
    rest = (peids[left], sub_ids[left])
    for limits, words in (
        (gate(0.099, 1.0), "10 of 100 entities with members would be gone"),
        (gate(1.0, 0.099), "10 of 100 members would be gone"),
    ):
        with pytest.raises(QualityError, match=words):
            push_rest(redis_client, rest, limits, by_changes=by_changes)
    push_rest(redis_client, rest, gate(0.1, 0.1), by_changes=by_changes)
