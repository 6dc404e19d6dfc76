"""What a person is shown of the sets in Redis."""

from __future__ import annotations

import numpy as np

from redis_link.connection.client import RedisClient
from spaps.cli.show_generation import generation_lines
from tests.servers.redis_pushes import push


def test_nothing_pushed_yet(redis_client: RedisClient) -> None:
    assert list(generation_lines(redis_client, {})) == ["Redis holds no generation yet"]


def test_named_entities_come_first_with_their_subscriptions(redis_client: RedisClient) -> None:
    peids = np.array([1] * 20 + [5_000, 2, 3, 4, 6], np.int64)
    push(redis_client, (peids, np.arange(25)), version=4)
    names = {5_000: "Casino Square", 1: "Harbour"}
    head, *lines = generation_lines(redis_client, names, shown=3)
    assert "world version 4: 25 pairs of 6 entities" in head
    assert lines[0].startswith("  entity 1 Harbour → subscriptions 0, 1, 2")
    assert lines[0].endswith("… and 8 more")
    assert lines[1] == "  entity 5000 Casino Square → subscriptions 20"
    assert len(lines) == 3


def test_asked_entities_are_shown_also_without_a_set(redis_client: RedisClient) -> None:
    push(redis_client, (np.array([7]), np.array([9])))
    _, *lines = generation_lines(redis_client, {}, peids=[7, 8])
    assert lines == ["  entity 7 → subscriptions 9", "  entity 8 → subscriptions none"]
