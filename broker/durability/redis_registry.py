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

from broker.durability.registry_scripts import FORGET, PUT_BACK, REGISTER
from broker.durability.scripts import run_script
from broker.effects import Resolve
from broker.shell.stores import StoreAwayError
from broker.subscription import Subscription
from broker.world_resolver import VersionResolution
from redis_link.wire import Word
from redis_link.wires import Wires
from schemas.canonical import neighborhood_hash
from schemas.descriptor_json import descriptor_json
from schemas.errors import RedisLinkError, SpapsError
from schemas.reading import read_neighborhood
from schemas.redis_keys import (
    broker_subscriptions_key,
    client_subscriptions_key,
    last_sub_id_key,
    registry_id_key,
    subscriptions_key,
)
from schemas.registration import Registration

log = logging.getLogger(__name__)

# Subscriptions that ended while Redis was away; more than these stay registered.
MOST_FORGOTTEN: Final = 100_000
ASKED_AT_ONCE: Final = 1_000


class RedisRegistry:
    """A ``SubscriptionRegistry`` (broker/shell/stores.py)."""

    def __init__(
        self, wires: Wires, broker: str, in_force: Callable[[], Mapping[int, int]]
    ) -> None:
        """``in_force`` are the core's neighborhood subscriptions by subId."""
        self._wires = wires
        self._broker = broker
        self._in_force = in_force
        self._id = ""
        self._one_at_a_time = asyncio.Lock()
        # In a dictionary for its order.
        self._forgotten: dict[int, None] = {}

    async def register(self, request: Resolve, resolution: VersionResolution) -> tuple[int, ...]:
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

    async def begin(
        self,
        subscriptions: Sequence[Subscription],
        renumber: Callable[[Subscription, int], None],
    ) -> None:
        """Before the first client: bring registry and restored subscriptions in step; may raise.

        A kill can leave the one ahead of the other. What is registered and not in force was
        never confirmed, and is over. What is in force and not registered gets a new number:
        generations made meanwhile may cover the old one, and do not hold it.
        """
        async with self._one_at_a_time:
            key = registry_id_key()
            await self._wires.ask(key, "SET", key, uuid.uuid4().hex, "NX")
            self._id = (await self._wires.ask(key, "GET", key)).decode()
            for subscription, registration in await self._not_registered(subscriptions):
                renumber(subscription, await self._register(registration))
            own = broker_subscriptions_key(self._broker)
            numbers = [one.terms.sub_id or 0 for one in subscriptions]
            for start in range(0, len(numbers), ASKED_AT_ONCE):
                await self._wires.ask(own, "SADD", own, *numbers[start : start + ASKED_AT_ONCE])
            registered = await self._wires.ask(own, "SMEMBERS", own)
        self._note_forgotten(set(map(int, registered)) - set(numbers))
        await self._forget_all()

    async def keep_in_step(self, subscriptions: Callable[[], Iterable[Subscription]]) -> None:
        """Put back what the registry has lost, and tell it what is over; may raise."""
        async with self._one_at_a_time:
            found = await self._wires.ask(registry_id_key(), "GET", registry_id_key())
            if found is None or found.decode() != self._id:
                await self._put_back(None if found is None else found.decode(), subscriptions())
        await self._forget_all()

    async def _register(self, registration: Registration) -> int:
        words: list[Word] = [registration.nsid, registration.to_json(), self._id]
        keys = self._keys_of(registration.client_id)
        new = await run_script(self._wires, REGISTER, keys, words)
        if not new:
            raise RedisLinkError("the registry was lost and is being restored")
        self._forgotten.pop(int(new), None)
        return int(new)

    async def _not_registered(
        self, subscriptions: Sequence[Subscription]
    ) -> list[tuple[Subscription, Registration]]:
        """Those whose number the registry does not know, or knows as something else."""
        key, missing = subscriptions_key(), []
        for start in range(0, len(subscriptions), ASKED_AT_ONCE):
            some = subscriptions[start : start + ASKED_AT_ONCE]
            numbers = [one.terms.sub_id or 0 for one in some]
            texts = await self._wires.ask(key, "HMGET", key, *numbers)
            for subscription, text in zip(some, texts, strict=True):
                registration = _registration(subscription.session.client_id, subscription)
                known = None if text is None else text.decode()
                if registration is not None and known != registration.to_json():
                    missing.append((subscription, registration))
        return missing

    async def _put_back(self, found: str | None, subscriptions: Iterable[Subscription]) -> None:
        """Make the registry whole again, then name it.

        A generation that was begun in between covers a registry of another name, or of none: it
        cannot be taken for one that holds what was put back.
        """
        count = 0
        for subscription in subscriptions:
            client_id = subscription.session.client_id
            registration = _registration(client_id, subscription)
            if registration is None:
                continue
            sub_id = subscription.terms.sub_id or 0
            words: list[Word] = [registration.nsid, registration.to_json(), sub_id]
            keys = self._keys_of(client_id)
            outcome = await run_script(self._wires, PUT_BACK, keys, words)
            count += outcome > 0
            if outcome < 0:
                log.error("subscription %d is another broker's in the registry", sub_id)
        if found is None or count:
            found = uuid.uuid4().hex
            await self._wires.ask(registry_id_key(), "SET", registry_id_key(), found)
        log.warning("the registry was lost; %d subscriptions were put back", count)
        self._id = found

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
            keys = [
                key,
                client_subscriptions_key(registration.client_id),
                broker_subscriptions_key(self._broker),
            ]
            await run_script(self._wires, FORGET, keys, [registration.nsid, sub_id])
        else:
            own = broker_subscriptions_key(self._broker)
            await self._wires.ask(own, "SREM", own, sub_id)

    def _keys_of(self, client_id: str) -> list[str]:
        return [
            registry_id_key(),
            last_sub_id_key(),
            subscriptions_key(),
            client_subscriptions_key(client_id),
            broker_subscriptions_key(self._broker),
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
