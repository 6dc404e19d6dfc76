"""The parts of a broker that follow generations, without its sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest

from broker.filter.memberships_memory import MemoryMemberships
from broker.filter.memberships_redis import RedisMemberships
from broker.generations.generation_watch import GenerationFollower
from broker.generations.memberships_redis_reader import RedisReader
from redis_link.connection.redis_router import RedisRouter
from tests.scenes.membership_scene import ResolverOfTables, SilentNotices, Subscriptions

MODES = pytest.mark.parametrize("mode", ["memory", "redis"])


class Broker:
    """The parts of a broker that follow generations, in one of the two modes."""

    def __init__(self, url: str, mode: str) -> None:
        self.router = RedisRouter(url)
        self.subscriptions = Subscriptions()
        self.resolver = ResolverOfTables()
        self.memberships: MemoryMemberships | RedisMemberships
        self.reader: RedisReader | None = None
        self.memberships = MemoryMemberships() if mode == "memory" else RedisMemberships()
        self.follower = GenerationFollower(
            self.router, self.memberships, self.resolver, self.subscriptions, SilentNotices()
        )  # fmt: skip
        if isinstance(self.memberships, RedisMemberships):
            by_sub_id = self.subscriptions.slots_by_sub_id
            self.reader = RedisReader(
                self.router, self.memberships, by_sub_id, self.follower.look_soon,
                self.follower.sets_are_damaged,
            )  # fmt: skip

    async def slots_of(self, peid: int) -> list[int]:
        found = self.memberships.look_up(peid)
        if found is None and self.reader is not None:
            found = (await self.reader.look_up([peid]))[peid]
        return list(found or ())

    def subscribe(self, slot: int, sub_id: int, peids: list[int]) -> None:
        """As a client does it: resolved before, in force at once."""
        subscription = self.subscriptions.add(slot, sub_id)
        self.resolver.know(self.resolver.version, subscription, peids)
        self.memberships.add(slot, np.array(peids, np.int64))


@asynccontextmanager
async def loaded(url: str, mode: str) -> AsyncIterator[Broker]:
    """A broker that has adopted the generation in force, with one subscription that it holds."""
    broker = Broker(url, mode)
    broker.subscriptions.add(0, 1)
    await broker.follower.load()
    yield broker
    broker.router.close()
