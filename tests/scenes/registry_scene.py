"""What tests of the registry share: requests, and registries as brokers have them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np

from broker.core.requests import Resolve
from broker.core.subscribe.subscription import Subscription
from broker.core.verdicts import Identity
from broker.durability.redis_registry import RedisRegistry
from broker.resolver.resolver_requests import VersionResolution
from redis_link.connection.client import RedisClient
from redis_link.connection.redis_router import RedisRouter
from redis_link.registry.registry_reader import registered_subscriptions
from schemas.subscription import Registration
from tests.scenes.membership_scene import Subscriptions

DESCRIPTOR = '{"refs": [1], "stages": [{"cats": ["#"], "cond": "I"}]}'


def renumber(subscription: Subscription, sub_id: int) -> None:
    subscription.terms = replace(subscription.terms, sub_id=sub_id)


def request(client_id: str, *nsids: int) -> Resolve:
    filters = tuple(f"f/{nsid}" for nsid in nsids)
    return Resolve(
        Identity(client_id, None), client_id, DESCRIPTOR, filters, nsids, lambda _answer: None
    )


def resolution(digest: str = "hash") -> VersionResolution:
    return VersionResolution(1, DESCRIPTOR, digest, np.array([1], np.int64))


def registered(client: RedisClient) -> dict[int, Registration]:
    return dict(registered_subscriptions(client))


@asynccontextmanager
async def opened_registry(
    url: str,
    broker: str,
    subscriptions: Subscriptions,
    token: str = "1",  # noqa: S107 - no password
    on_loss: Callable[[], None] = lambda: None,
) -> AsyncIterator[RedisRegistry]:
    """The registry as a broker of this name has it after its start."""
    router = RedisRouter(url, answer_seconds=2.0)
    registry = RedisRegistry(router, broker, subscriptions.slots_by_sub_id, token, on_loss)
    try:
        await registry.begin(subscriptions.in_force(), renumber)
        yield registry
    finally:
        router.close()
