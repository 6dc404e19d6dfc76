"""Keeps the subscriptions of this broker in the registry: register, remove and restore them.

Calls run one after the other, in the order in which they were made: when a subscription ends and
is made again under the same nsid, the removal of the first must not remove the second.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from broker.core.requests import Resolve
from broker.core.subscribe.subscription import Subscription
from broker.durability.durable_state import other_broker_sets
from broker.durability.registrations import (
    registration_of,
    registrations_for,
    unknown_name,
    users_by_name,
)
from broker.ports import StoreAwayError
from broker.resolver.resolver_requests import NeighborhoodRefusedError, VersionResolution
from redis_link.connection.redis_router import RedisRouter, run_script
from redis_link.registry.registry_scripts import TAKEN, UNKNOWN_NAME, BrokerCalls, ScriptCall
from schemas.errors import RedisLinkError
from schemas.redis_keys import (
    broker_subscriptions_key,
    name_users_key,
    registry_id_key,
    subscriptions_key,
)
from schemas.subscription import Registration

log = logging.getLogger(__name__)

# At most this many subscriptions that ended while Redis was away are removed later.
MOST_FORGOTTEN: Final = 100_000
ASKED_AT_ONCE: Final = 1_000

Renumber = Callable[[Subscription, int], None]


class RedisRegistry:
    """A ``SubscriptionRegistry`` (broker/ports.py)."""

    def __init__(
        self,
        router: RedisRouter,
        broker: str,
        in_force: Callable[[], Mapping[int, int]],
        owner_token: str,
        on_loss: Callable[[], None] = lambda: None,
    ) -> None:
        """``in_force`` are the core's neighborhoods by subId.

        ``owner_token`` identifies this process. ``on_loss`` is called after subscriptions were
        restored: generations made meanwhile may lack them.
        """
        self._router = router
        self._broker = broker
        self._calls = BrokerCalls(broker, owner_token)
        self._in_force = in_force
        self._id = ""
        self._one_at_a_time = asyncio.Lock()
        # A dictionary, because it keeps the order of insertion.
        self._forgotten: dict[int, None] = {}
        # Whether the registry must hold subscriptions of this broker.
        self._has_any = False
        self._on_loss = on_loss

    async def register(self, request: Resolve, resolution: VersionResolution) -> tuple[int, ...]:
        """Return one subId for each filter; StoreAwayError when Redis does not answer."""
        sub_ids: list[int] = []
        try:
            async with self._one_at_a_time:
                for registration in registrations_for(self._broker, request, resolution):
                    sub_id = await self._register(registration)
                    sub_ids.append(sub_id)
        except RedisLinkError as error:
            # Registered ones get the same number when registered again, or are removed.
            self._note_forgotten(sub_ids)
            raise StoreAwayError(f"new neighborhoods cannot be registered: {error}") from error
        except NeighborhoodRefusedError:
            self._note_forgotten(sub_ids)
            raise
        return tuple(sub_ids)

    async def forget(self, sub_ids: Sequence[int]) -> None:
        """Remove subscriptions that ended, or later when Redis is away."""
        self._note_forgotten(sub_ids)
        try:
            await self._forget_all()
        except RedisLinkError as error:
            log.debug("ended subscriptions stay registered for now: %s", error)

    async def begin(self, subscriptions: Sequence[Subscription], renumber: Renumber) -> None:
        """Compare the registry with the restored subscriptions, before clients connect; may raise.

        After a kill they may differ. A subscription that is registered and not in force was never
        confirmed, and is removed. One that is in force and not registered gets a new number:
        generations made meanwhile may cover the old number without holding it. The same goes
        for one that an earlier release registered for several brokers under one number.
        """
        async with self._one_at_a_time:
            self._id = await self._open(is_first=True, has_any=bool(subscriptions))
            if not self._id:
                await self._name_anew()
            for subscription, registration in await self._not_registered(subscriptions):
                renumber(subscription, await self._register(registration, is_restored=True))
            own = broker_subscriptions_key(self._broker)
            numbers = [one.terms.sub_id or 0 for one in subscriptions]
            for start in range(0, len(numbers), ASKED_AT_ONCE):
                await self._router.ask(own, "SADD", own, *numbers[start : start + ASKED_AT_ONCE])
            for name, users in users_by_name(subscriptions).items():
                key = name_users_key(name)
                for start in range(0, len(users), ASKED_AT_ONCE):
                    await self._router.ask(key, "SADD", key, *users[start : start + ASKED_AT_ONCE])
            registered = await self._router.ask(own, "SMEMBERS", own)
        self._note_forgotten({int(one) for one in registered if one.isdigit()} - set(numbers))
        await self._forget_all()

    async def keep_in_step(
        self, subscriptions: Callable[[], Sequence[Subscription]], renumber: Renumber
    ) -> None:
        """Restore what the registry has lost, and remove ended subscriptions; may raise."""
        async with self._one_at_a_time:
            has_any = self._has_any and bool(self._in_force())
            found = await self._open(is_first=False, has_any=has_any)
            if found != self._id or not found:
                await self._put_back(found, subscriptions(), renumber)
        await self._forget_all()

    async def _open(self, *, is_first: bool, has_any: bool) -> str:
        """Return the id of the registry; empty when some of its data is lost."""
        found: bytes = await self._run(self._calls.open(takes_over=is_first, has_any=has_any))
        return found.decode()

    async def _name_anew(self) -> None:
        self._id = uuid.uuid4().hex
        await self._router.ask(registry_id_key(), "SET", registry_id_key(), self._id)

    async def _register(self, registration: Registration, *, is_restored: bool = False) -> int:
        call = self._calls.register(registration, self._id, is_restored=is_restored)
        new = await self._run(call)
        if new == UNKNOWN_NAME:
            raise unknown_name(registration.name)
        if not new:
            raise RedisLinkError("the registry was lost and is being restored")
        self._forgotten.pop(int(new), None)
        self._has_any = True
        return int(new)

    async def _not_registered(
        self, subscriptions: Sequence[Subscription]
    ) -> list[tuple[Subscription, Registration]]:
        """Return the subscriptions whose number is not in the registry, or belongs to another."""
        key, missing = subscriptions_key(), []
        for start in range(0, len(subscriptions), ASKED_AT_ONCE):
            some = subscriptions[start : start + ASKED_AT_ONCE]
            numbers = [one.terms.sub_id or 0 for one in some]
            texts = await self._router.ask(key, "HMGET", key, *numbers)
            for subscription, text in zip(some, texts, strict=True):
                registration = registration_of(self._broker, subscription)
                self._has_any |= registration is not None
                if registration is not None and text != registration.to_json().encode():
                    missing.append((subscription, registration))
        return missing

    async def _put_back(
        self, found: str, subscriptions: Sequence[Subscription], renumber: Renumber
    ) -> None:
        """Write every subscription into the registry, then give it a new id.

        A generation that was begun before covers a registry with another id or none. So no broker
        assumes that it holds the restored subscriptions.
        """
        count = 0
        taken: list[tuple[Subscription, Registration]] = []
        for subscription in subscriptions:
            registration = registration_of(self._broker, subscription)
            if registration is None:
                continue
            sub_id = subscription.terms.sub_id or 0
            outcome = int(await self._run(self._calls.put_back(registration, sub_id)))
            count += outcome > 0
            if outcome < 0:
                taken.append((subscription, registration))
        self._id = found
        if not found or count or taken:
            await self._name_anew()
        for subscription, registration in taken:
            renumber(subscription, await self._register(registration, is_restored=True))
        if count or taken:
            log.warning("the registry was lost; %d subscriptions were put back, %d of them under "
                        "other numbers", count + len(taken), len(taken))  # fmt: skip
            self._on_loss()

    def _note_forgotten(self, sub_ids: Iterable[int]) -> None:
        self._forgotten |= dict.fromkeys(sub_ids)
        while len(self._forgotten) > MOST_FORGOTTEN:
            del self._forgotten[next(iter(self._forgotten))]

    async def _forget_all(self) -> None:
        async with self._one_at_a_time:
            others: list[str] | None = None
            while self._forgotten:
                sub_id = next(iter(self._forgotten))
                # The same neighborhood, registered again, got the same number and is in force.
                if sub_id not in self._in_force():
                    registration = await self._found(sub_id)
                    if not registration.broker and others is None:
                        others = await other_broker_sets(self._router, self._broker)
                    await self._forget(sub_id, registration, others or [])
                self._forgotten.pop(sub_id, None)

    async def _found(self, sub_id: int) -> Registration:
        """Return the registration of a number; an empty one of ours when it is damaged or gone."""
        text = await self._router.ask(subscriptions_key(), "HGET", subscriptions_key(), sub_id)
        nothing = Registration("", 0, "", "", "", self._broker)
        try:
            return nothing if text is None else Registration.from_json(sub_id, text)
        except RedisLinkError:
            return nothing

    async def _forget(self, sub_id: int, registration: Registration, others: list[str]) -> None:
        if registration.broker in {self._broker, ""}:
            await self._run(self._calls.forget(registration, sub_id, others))
        else:
            own = broker_subscriptions_key(self._broker)
            await self._router.ask(own, "SREM", own, sub_id)

    async def _run(self, call: ScriptCall) -> Any:
        answer = await run_script(self._router, call.script, call.keys, call.words)
        if answer == TAKEN:
            raise RedisLinkError(f"another process runs the broker {self._broker!r} now")
        return answer
