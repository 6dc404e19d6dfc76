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
from broker.generations.generation_watch import GenerationFollower
from broker.generations.name_changes import NameChange, NameChanger
from broker.generations.redis_definitions import RedisDefinitions
from broker.resolver.live_resolver import LiveResolver
from broker.resolver.resolver_requests import NeighborhoodRefusedError
from redis_link.connection.redis_connection import RedisConnection
from schemas.errors import SpapsError
from schemas.language.neighborhood import neighborhood_hash
from schemas.language.notation import read_neighborhood
from schemas.named_neighborhood import NamedNeighborhood

log = logging.getLogger(__name__)

# A change must be noticed within a second, even when its notice was lost.
LOOK_SECONDS: Final = 0.8
# Pause before a definition that the resolver refused is tried again.
REFUSED_SECONDS: Final = 60.0
# Subscriptions looked at in one turn of the event loop: about a millisecond.
LOOKED_AT_ONCE: Final = 2_000


class NameFollower:
    """Keeps the subscriptions by name of one broker up to date; all calls from the event loop."""

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
        self._definitions = definitions
        self._named = core.named_subscriptions
        self._changer = NameChanger(registry, resolver, core, generations, wake)
        # The edition that all but the unchecked ones were compared with; empty before the first.
        self._edition = ""
        self._must_check_all = False
        self._unchecked: dict[Subscription, None] = {}
        # When to try again, by name and descriptor.
        self._refused: dict[tuple[str, str], float] = {}
        self._news = asyncio.Event()
        self._listening: RedisConnection | None = None
        self.problem = ""

    def check_all(self) -> None:
        """Compare all subscriptions: the rights of their clients changed."""
        self._must_check_all = True
        self._news.set()

    async def follow(self) -> None:
        """Compare and change subscriptions, until cancelled."""
        try:
            while True:
                # Cleared first, so that a notice that arrives meanwhile starts another look.
                self._news.clear()
                await self._look_safely()
                try:
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._news.wait()
                except TimeoutError:
                    continue
        finally:
            if self._listening is not None:
                self._listening.close()

    async def _look_safely(self) -> None:
        try:
            await self._apply_rights()
            if self._listening is None or not self._listening.is_open:
                self._listening = await self._definitions.listen(self._news.set)
            refusal = await self._look()
            self._note("" if refusal is None else str(refusal))
        except SpapsError as error:
            self._note(str(error))
        except Exception as error:
            # Subscriptions keep what they hold, and the next look tries again.
            log.exception("named neighborhoods could not be followed")
            self._note(f"{type(error).__name__}: {error}")

    def _note(self, problem: str) -> None:
        if problem and problem != self.problem:
            log.warning("subscriptions by name stay as they are: %s", problem)
        self.problem = problem

    async def _apply_rights(self) -> None:
        """Take the members from subscriptions whose clients lost the right to their name.

        That waits for nobody. Those that have a right again are compared with Redis after it.
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

    async def _look(self) -> NeighborhoodRefusedError | None:
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
