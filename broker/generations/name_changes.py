"""Gives subscriptions by name the members of another definition.

Each subscription changes in one step: what it held before filters until then, and what it holds
from then on is complete. New members are entered beside the old ones, some at each turn of the
loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from broker.core.broker_core import Core
from broker.core.requests import Resolve
from broker.core.subscribe.subscription import Subscription, SubscriptionTerms
from broker.core.world_changes import MemberChange, WorldInForce
from broker.durability.redis_registry import RedisRegistry
from broker.generations.change_counts import difference
from broker.generations.generation_watch import GenerationFollower
from broker.resolver.live_resolver import LiveResolver
from broker.resolver.resolver_requests import NeighborhoodRefusedError, VersionResolution
from schemas.named_neighborhood import NamedNeighborhood
from spatial_udfs.entity_table import Int64s

# Members entered, and subscriptions changed, in one turn of the event loop: some milliseconds.
MEMBERS_AT_ONCE: Final = 1_000
CHANGED_AT_ONCE: Final = 100
# How long a subscription that loses its members may wait until they are counted.
COUNT_SECONDS: Final = 2.0
NO_MEMBERS: Final = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class NameChange:
    """From the descriptor that subscriptions hold to the definition that they should hold.

    ``wanted`` is None when the name is removed, or when their clients may not use it.
    """

    before: str | None
    wanted: NamedNeighborhood | None
    is_denied: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _PreparedChange:
    """A subscription as it was found, with its coming subId, and the slot of its new members."""

    subscription: Subscription
    terms: SubscriptionTerms
    sub_id: int | None
    slot: int | None = None


class NameChanger:
    """Changes the subscriptions of one broker; all calls from the event loop."""

    def __init__(
        self,
        registry: RedisRegistry,
        resolver: LiveResolver,
        core: Core,
        generations: GenerationFollower,
        wake: Callable[[], None],
    ) -> None:
        self._registry = registry
        self._resolver = resolver
        self._core = core
        self._named = core.named_subscriptions
        self._generations = generations
        self._wake = wake

    async def change(self, change: NameChange, subscriptions: Sequence[Subscription]) -> None:
        """Change subscriptions that all hold the same; NeighborhoodRefusedError if unresolved."""
        if change.wanted is None:
            await self._take_members(change, subscriptions)
            return
        while True:
            resolved, lacks_references = await self._resolved(change.wanted)
            before = await self._members_before(change.before)
            registered = await self._registered(resolved, subscriptions)
            # While it is held no generation is loaded, so that the world stays the same.
            async with self._generations.waiting.adopting:
                if resolved.version == self._resolver.version:
                    counted = _counted(before, resolved.peids, lacks_references=lacks_references)
                    await self._put_in_force(change, registered, resolved.peids, counted)
                    return

    async def _take_members(
        self, change: NameChange, subscriptions: Sequence[Subscription]
    ) -> None:
        """Leave subscriptions without members; neither Redis nor a resolver is needed for that."""
        before: Int64s | None = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(COUNT_SECONDS):
                before = await self._members_before(change.before)
        counted = _counted(before, NO_MEMBERS, lacks_references=True)
        prepared = [_PreparedChange(one, one.terms, None) for one in subscriptions]
        await self._put_in_force(change, prepared, NO_MEMBERS, counted)

    async def _resolved(self, wanted: NamedNeighborhood) -> tuple[VersionResolution, bool]:
        """Return the members, and whether no reference exists."""
        version = self._resolver.version
        try:
            return await self._resolver.resolve_in_force(wanted.descriptor), False
        except NeighborhoodRefusedError as error:
            if not error.lacks_references:
                raise
        # It is kept: it has members again when its references are back.
        digest = wanted.neighborhood_hash
        return VersionResolution(version, wanted.descriptor, digest, NO_MEMBERS), True

    async def _members_before(self, descriptor: str | None) -> Int64s | None:
        """Return what subscriptions held until now; None when it cannot be counted."""
        if descriptor is None:
            return NO_MEMBERS
        try:
            return (await self._resolver.resolve_in_force(descriptor)).peids
        except NeighborhoodRefusedError as error:
            return NO_MEMBERS if error.lacks_references else None

    async def _registered(
        self, resolved: VersionResolution, subscriptions: Sequence[Subscription]
    ) -> list[_PreparedChange]:
        """Register each subscription with what it will hold: a registration never changes."""
        found = []
        for one in subscriptions:
            terms = one.terms
            if not self._named.is_in_force(one) or terms.nsid is None:
                continue
            session = one.session
            request = Resolve(
                session.identity, session.owner, resolved.descriptor, (terms.topic_filter,),
                (terms.nsid,), lambda _: None, terms.name,
            )  # fmt: skip
            (sub_id,) = await self._registry.register(request, resolved)
            found.append(_PreparedChange(one, terms, sub_id))
        return found

    async def _put_in_force(
        self,
        change: NameChange,
        registered: Sequence[_PreparedChange],
        peids: Int64s,
        counted: MemberChange,
    ) -> None:
        for start in range(0, len(registered), CHANGED_AT_ONCE):
            prepared = await self._with_members(registered[start : start + CHANGED_AT_ONCE], peids)
            # No await before the end: these change together.
            for one in prepared:
                self._change_one(change, one, peids, counted)
            self._wake()
            await asyncio.sleep(0)

    async def _with_members(
        self, registered: Sequence[_PreparedChange], peids: Int64s
    ) -> list[_PreparedChange]:
        """Enter the members under a slot for each."""
        prepared: list[_PreparedChange] = []
        try:
            for one in registered:
                if not len(peids):
                    prepared.append(one)
                    continue
                slot = self._named.announce(peids)
                prepared.append(_PreparedChange(one.subscription, one.terms, one.sub_id, slot))
                for _ in range(0, len(peids), MEMBERS_AT_ONCE):
                    self._named.enter_some(slot, MEMBERS_AT_ONCE)
                    await asyncio.sleep(0)
        except BaseException:
            for one in prepared:
                if one.slot is not None:
                    self._named.give_up(one.slot)
            raise
        return prepared

    def _change_one(
        self, change: NameChange, one: _PreparedChange, peids: Int64s, counted: MemberChange
    ) -> None:
        subscription = one.subscription
        if subscription.terms is not one.terms or not self._named.is_in_force(subscription):
            # It ended, or its client subscribed again and holds what is wanted.
            if one.slot is not None:
                self._named.give_up(one.slot)
            if one.sub_id is not None and one.sub_id != subscription.terms.sub_id:
                self._named.forget(one.sub_id)
            return
        definition = None
        if change.wanted is not None and one.sub_id is not None:
            definition = one.sub_id, change.wanted.descriptor
        self._named.change(
            subscription, definition, one.slot, peids, keeps_messages=not change.is_denied
        )
        if counted.gained == counted.lost == 0 and not counted.lacks_references:
            return
        facts = self._generations.facts
        world = WorldInForce(self._resolver.version, None if facts is None else facts.generation)
        self._core.world_notifier.notify_of_name(subscription, counted, world)


def _counted(before: Int64s | None, after: Int64s, *, lacks_references: bool) -> MemberChange:
    if before is None:
        return MemberChange(None, None, lacks_references)
    gained, lost = difference(before, after)
    return MemberChange(gained, lost, lacks_references)
