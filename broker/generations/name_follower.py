"""Follows what names of neighborhoods stand for: receives notices, and looks for lost ones.

A subscription by name holds what its name stood for when it was made. It is compared with Redis
soon after it came into force, and whenever the edition of the names or the rights of clients have
changed. So no notice needs to arrive.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from itertools import islice
from typing import Final

from broker.core.broker_core import Core
from broker.core.subscribe.subscription import Subscription
from broker.durability.redis_registry import RedisRegistry
from broker.generations.change_follower import ChangeFollower
from broker.generations.generation_watch import GenerationFollower
from broker.generations.name_changes import NameChange, NameChanger
from broker.generations.redis_definitions import RedisDefinitions
from broker.resolver.live_resolver import LiveResolver
from broker.resolver.resolver_requests import NeighborhoodRefusedError
from schemas.language.neighborhood import neighborhood_hash
from schemas.language.notation import read_neighborhood
from schemas.named_neighborhood import NamedNeighborhood

log = logging.getLogger(__name__)

# Pause before a definition that the resolver refused is tried again.
REFUSED_SECONDS: Final = 60.0
# Subscriptions looked at in one turn of the event loop: about a millisecond.
LOOKED_AT_ONCE: Final = 2_000


class NameFollower(ChangeFollower):
    """Keeps the subscriptions by name of one broker up to date; all calls from the event loop."""

    log = log
    kept = "subscriptions by name stay as they are"
    failure = "named neighborhoods could not be followed"

    def __init__(
        self,
        definitions: RedisDefinitions,
        registry: RedisRegistry,
        resolver: LiveResolver,
        core: Core,
        generations: GenerationFollower,
        wake: Callable[[], None],
    ) -> None:
        """``wake`` makes the core send."""
        super().__init__(definitions.listen)
        self._definitions = definitions
        self._named = core.named_subscriptions
        self._changer = NameChanger(registry, resolver, core, generations, wake)
        # The edition that all but the unchecked ones were compared with; empty before the first.
        self._edition = ""
        self._must_check_all = False
        self._unchecked: dict[Subscription, None] = {}
        # When to try again, by name and descriptor.
        self._refused: dict[tuple[str, str], float] = {}

    def check_all(self) -> None:
        """Compare all subscriptions: the rights of their clients changed."""
        self._must_check_all = True
        self.look_soon()

    async def _look_once(self) -> str:
        await self._apply_rights()
        await self._listen_again()
        refusal = await self._compare_changed()
        return "" if refusal is None else str(refusal)

    async def _apply_rights(self) -> None:
        """Take the members from subscriptions whose clients lost the right to their name.

        It needs neither Redis nor the resolver. Those that have a right again are compared with
        Redis after it.
        """
        if not self._must_check_all:
            return
        self._must_check_all = False
        await self._add_all()
        denied: dict[NameChange, list[Subscription]] = {}
        for subscription in self._unchecked:
            before = subscription.terms.descriptor
            if (
                before is not None
                and self._named.is_in_force(subscription)
                and not self._named.may_be_used(subscription)
            ):
                change = NameChange(before, None, is_denied=True)
                denied.setdefault(change, []).append(subscription)
        for change, subscriptions in denied.items():
            await self._change(change, subscriptions)

    async def _compare_changed(self) -> NeighborhoodRefusedError | None:
        """Compare what is new or was changed; return the last refusal of the resolver."""
        self._unchecked |= dict.fromkeys(self._named.take_arrivals())
        edition = await self._definitions.edition()
        if self._is_lost(edition):
            await self._put_back()
            edition = await self._definitions.edition()
        if edition != self._edition:
            await self._add_all()
            self._edition = edition
            self._refused.clear()
        by_name: dict[str, list[Subscription]] = {}
        for subscription in list(self._unchecked):
            name = subscription.terms.name
            if name is None or not self._named.is_in_force(subscription):
                del self._unchecked[subscription]
            else:
                by_name.setdefault(name, []).append(subscription)
        if not by_name:
            return None
        found = await self._definitions.of_names(by_name)
        refusal = None
        for name, subscriptions in by_name.items():
            try:
                await self._compare(found.get(name), subscriptions)
            except NeighborhoodRefusedError as error:
                refusal = error
        return refusal

    def _is_lost(self, edition: str) -> bool:
        """Return whether Redis lacks definitions that were in force.

        An edition with another ID was begun after they were lost. Without an edition no name was
        ever given, and no subscription is by name, or all are lost.
        """
        if not edition:
            return bool(self._edition or self._unchecked)
        known = self._edition.partition(":")[0]
        return bool(known) and known != edition.partition(":")[0]

    async def _put_back(self) -> None:
        """Write the definitions that are in use here, as far as Redis lacks them."""
        await self._add_all()
        in_use: dict[str, NamedNeighborhood] = {}
        for subscription in self._unchecked:
            name, text = subscription.terms.name, subscription.terms.descriptor
            if name is None or text is None or name in in_use:
                continue
            if self._named.is_in_force(subscription):
                digest = neighborhood_hash(read_neighborhood(text))
                in_use[name] = NamedNeighborhood(name, text, digest, time.time())
        if in_use and (lost := await self._definitions.put_back(in_use.values())):
            log.warning("%d named neighborhoods that Redis had lost were put back", lost)

    async def _add_all(self) -> None:
        every = iter(self._named)
        while some := list(islice(every, LOOKED_AT_ONCE)):
            self._unchecked |= dict.fromkeys(some)
            await asyncio.sleep(0)

    async def _compare(
        self, definition: NamedNeighborhood | None, subscriptions: list[Subscription]
    ) -> None:
        """Change the subscriptions by one name that hold something else than they should."""
        changes: dict[NameChange, list[Subscription]] = {}
        for subscription in subscriptions:
            is_denied = not self._named.may_be_used(subscription)
            wanted = None if is_denied else definition
            before = subscription.terms.descriptor
            if before == (None if wanted is None else wanted.descriptor):
                del self._unchecked[subscription]
            else:
                change = NameChange(before, wanted, is_denied=is_denied)
                changes.setdefault(change, []).append(subscription)
        for change, some in changes.items():
            await self._change(change, some)

    async def _change(self, change: NameChange, subscriptions: list[Subscription]) -> None:
        wanted = change.wanted
        key = ("", "") if wanted is None else (wanted.name, wanted.descriptor)
        if time.monotonic() < self._refused.get(key, 0.0):
            return
        try:
            await self._changer.change(change, subscriptions)
        except NeighborhoodRefusedError as error:
            if not error.is_passing:
                self._refused[key] = time.monotonic() + REFUSED_SECONDS
            raise
        descriptor = None if wanted is None else wanted.descriptor
        for subscription in subscriptions:
            # One that got another subId meanwhile was left as it is: the next look changes it.
            is_done = subscription.terms.descriptor == descriptor
            if is_done or not self._named.is_in_force(subscription):
                self._unchecked.pop(subscription, None)
