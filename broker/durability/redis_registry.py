"""The subscriptions of this broker in the registry of all: numbered, removed, put back.

One thing at a time, in the order in which it was asked for: a subscription that ends and comes
again under the same nsid must not be removed by the end of the first.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from broker.durability.scripts import make_script, run_script
from broker.effects import Resolve
from broker.live_resolver import LiveResolution
from broker.shell.stores import StoreAwayError
from broker.subscription import Subscription
from redis_link.registry import REGISTER
from redis_link.wire import Word
from redis_link.wires import Wires
from schemas.canonical import neighborhood_hash
from schemas.descriptor_json import descriptor_json
from schemas.errors import RedisLinkError, SpapsError
from schemas.reading import read_neighborhood
from schemas.redis_keys import (
    client_subscriptions_key,
    last_sub_id_key,
    registry_id_key,
    subscriptions_key,
)
from schemas.registration import Registration

log = logging.getLogger(__name__)

# Subscriptions that ended while Redis was away; more than these stay registered.
MOST_FORGOTTEN: Final = 100_000

# As REGISTER, unless the registry is not the one we know: then its numbers are not ours.
_REGISTER: Final = make_script(
    "if redis.call('GET', KEYS[1]) ~= ARGV[4] then return {'', ''} end\n" + REGISTER
)
# KEYS: id, counter, subscriptions, client. ARGV: an id for a new registry, nsid, registration,
# subId. Puts back what an emptied registry has lost; gives whether the number is ours.
_PUT_BACK: Final = make_script(
    """
redis.call('SET', KEYS[1], ARGV[1], 'NX')
if tonumber(redis.call('GET', KEYS[2]) or '0') < tonumber(ARGV[4]) then
  redis.call('SET', KEYS[2], ARGV[4])
end
redis.call('HSETNX', KEYS[3], ARGV[4], ARGV[3])
if redis.call('HGET', KEYS[3], ARGV[4]) ~= ARGV[3] then return 0 end
redis.call('HSET', KEYS[4], ARGV[2], ARGV[4])
return 1
"""
)
# KEYS: subscriptions, client. ARGV: nsid, subId. The nsid may belong to another one by now.
_FORGET: Final = make_script(
    """
redis.call('HDEL', KEYS[1], ARGV[2])
if redis.call('HGET', KEYS[2], ARGV[1]) == ARGV[2] then redis.call('HDEL', KEYS[2], ARGV[1]) end
return 1
"""
)


class RedisRegistry:
    """A ``SubscriptionRegistry`` (broker/shell/stores.py)."""

    def __init__(self, wires: Wires, in_force: Callable[[], Mapping[int, int]]) -> None:
        """``in_force`` are the core's neighborhood subscriptions by subId."""
        self._wires = wires
        self._in_force = in_force
        self._id = ""
        self._one_at_a_time = asyncio.Lock()
        # In a dictionary for its order.
        self._forgotten: dict[int, None] = {}

    async def register(self, request: Resolve, resolution: LiveResolution) -> tuple[int, ...]:
        """One subId for each filter; StoreAwayError when none can be given."""
        client_id = request.client.client_id
        sub_ids = []
        try:
            async with self._one_at_a_time:
                for topic_filter, nsid in zip(request.filters, request.nsids, strict=True):
                    registration = Registration(
                        client_id,
                        nsid,
                        topic_filter,
                        resolution.descriptor,
                        resolution.neighborhood_hash,
                    )
                    sub_ids.append(await self._register(registration))
        except RedisLinkError as error:
            # What was registered is registered again under the same number, or forgotten.
            self._note_forgotten(sub_ids)
            raise StoreAwayError(f"new neighborhoods cannot be registered: {error}") from error
        return tuple(sub_ids)

    async def forget(self, sub_ids: Sequence[int]) -> None:
        """These subscriptions are over; when Redis is away, it hears of it later."""
        self._note_forgotten(sub_ids)
        try:
            await self._forget_all()
        except RedisLinkError as error:
            log.debug("subscriptions stay registered for now: %s", error)

    async def keep_in_step(self, subscriptions: Callable[[], Iterable[Subscription]]) -> None:
        """Put back what the registry has lost, and tell it what is over; may raise."""
        async with self._one_at_a_time:
            found = await self._wires.ask(registry_id_key(), "GET", registry_id_key())
            if found is None or found.decode() != self._id:
                await self._put_back(subscriptions())
        await self._forget_all()

    async def _register(self, registration: Registration) -> int:
        words: list[Word] = ["", str(registration.nsid), registration.to_json(), self._id]
        new, _ = await run_script(self._wires, _REGISTER, _keys_of(registration.client_id), words)
        if not new:
            raise RedisLinkError("the registry was lost and is being restored")
        self._forgotten.pop(int(new), None)
        return int(new)

    async def _put_back(self, subscriptions: Iterable[Subscription]) -> None:
        name = uuid.uuid4().hex
        await self._wires.ask(registry_id_key(), "SET", registry_id_key(), name, "NX")
        count = 0
        for subscription in subscriptions:
            client_id = subscription.session.client_id
            registration = _registration(client_id, subscription)
            if registration is None:
                continue
            sub_id = subscription.terms.sub_id or 0
            words: list[Word] = [name, registration.nsid, registration.to_json(), sub_id]
            if await run_script(self._wires, _PUT_BACK, _keys_of(client_id), words):
                count += 1
            else:
                log.error("subscription %d is another broker's in the registry", sub_id)
        found = await self._wires.ask(registry_id_key(), "GET", registry_id_key())
        if self._id:
            log.warning("the registry was lost; %d subscriptions were put back", count)
        self._id = found.decode()

    def _note_forgotten(self, sub_ids: Iterable[int]) -> None:
        self._forgotten |= dict.fromkeys(sub_ids)
        while len(self._forgotten) > MOST_FORGOTTEN:
            del self._forgotten[next(iter(self._forgotten))]

    async def _forget_all(self) -> None:
        async with self._one_at_a_time:
            while self._forgotten:
                sub_id = next(iter(self._forgotten))
                # The same neighborhood again got the same number: it is in force.
                if sub_id not in self._in_force():
                    await self._forget(sub_id)
                self._forgotten.pop(sub_id, None)

    async def _forget(self, sub_id: int) -> None:
        key = subscriptions_key()
        text = await self._wires.ask(key, "HGET", key, sub_id)
        if text is not None:
            registration = Registration.from_json(sub_id, text)
            keys = [key, client_subscriptions_key(registration.client_id)]
            await run_script(self._wires, _FORGET, keys, [registration.nsid, sub_id])


def _keys_of(client_id: str) -> list[str]:
    return [
        registry_id_key(),
        last_sub_id_key(),
        subscriptions_key(),
        client_subscriptions_key(client_id),
    ]


def _registration(client_id: str, subscription: Subscription) -> Registration | None:
    """The registration of a subscription in force, as it was made when it was new."""
    terms = subscription.terms
    if terms.descriptor is None or terms.nsid is None:
        return None
    try:
        neighborhood = read_neighborhood(terms.descriptor)
        is_json = terms.descriptor.lstrip().startswith("{")
        text = terms.descriptor if is_json else descriptor_json(neighborhood)
    except SpapsError as error:
        log.error("a neighborhood of %r is not understood any more: %s", client_id, error)  # noqa: TRY400
        return None
    return Registration(
        client_id, terms.nsid, terms.topic_filter, text, neighborhood_hash(neighborhood)
    )
