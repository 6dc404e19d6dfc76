"""Follows the generation in force: receives notices, polls for lost ones, and adopts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from broker.core.world_changes import Neighborhoods
from broker.generations.change_counts import AdoptedGeneration, SwitchOutcome, generation_in_force
from broker.generations.change_follower import LOOK_SECONDS, ChangeFollower
from broker.generations.generation_adoption import (
    ATTEMPTS,
    GenerationAdopter,
    GenerationMemberships,
    keeps_rows,
)
from broker.generations.switch_changes import SwitchChanges
from broker.generations.switch_notices import SwitchNotices
from broker.generations.waiting_neighborhoods import WaitingNeighborhoods
from broker.resolver.live_resolver import LiveResolver
from redis_link.connection.redis_router import RedisRouter
from schemas.errors import DamagedRedisError, GenerationError, OtherWorldError
from schemas.generation import FROM_FILE, GenerationFacts
from schemas.redis_keys import GENERATION_CHANNEL

log = logging.getLogger(__name__)

RESTORE_SECONDS: Final = 60.0


class GenerationFollower(ChangeFollower):
    """Keeps the memberships of one broker up to date; all calls come from the event loop."""

    log = log
    kept = "the generation in force stays"
    failure = "a generation could not be adopted"

    def __init__(
        self,
        router: RedisRouter,
        memberships: GenerationMemberships,
        resolver: LiveResolver,
        neighborhoods: Neighborhoods,
        notices: SwitchNotices,
        restore_seconds: float = RESTORE_SECONDS,
    ) -> None:
        super().__init__(lambda on_notice: router.listen(GENERATION_CHANNEL, on_notice))
        self._router = router
        self._memberships = memberships
        self._notices = notices
        self._changes = SwitchChanges(router, resolver, notices.notice_readers)
        self._adopter = GenerationAdopter(
            router, memberships, resolver, neighborhoods, self._changes, restore_seconds
        )
        self.waiting = WaitingNeighborhoods(resolver, neighborhoods)
        self.facts: GenerationFacts | None = None
        self._adopted: AdoptedGeneration | None = None
        # The generation in force may lack subscriptions of this broker.
        self._is_doubtful = False
        # What is wrong with the sets of the generation in force, which are then not used.
        self.damage = ""
        # Generation and token of one that was built for another world, and is not used.
        self._foreign: tuple[int, str] | None = None
        self.switches = 0

    @property
    def unanswered(self) -> int:
        """Number of neighborhoods without members because the resolver has not answered."""
        at_start = self._adopter.unanswered if self._adopter.is_start else 0
        return at_start + self.waiting.unanswered

    def adopt_again(self) -> None:
        """Adopt the generation in force again: it may lack subscriptions of this broker."""
        self._is_doubtful = True
        self.look_soon()

    async def load(self) -> None:
        """Adopt the generation in force before the first client connects; raises on failure."""
        known = await self._notices.last_notified()
        if known is not None:
            self._adopted = known.adopted
            self._changes.restore(known.lacking)
        for attempt in range(ATTEMPTS):
            try:
                await self._adopt(await self._current())
            except DamagedRedisError as error:
                self._note_damage(str(error))
                await self._adopt(None)
                return
            except GenerationError:
                if attempt == ATTEMPTS - 1:
                    raise
                await asyncio.sleep(LOOK_SECONDS)
            else:
                return

    async def _look_once(self) -> str:
        await self._listen_again()
        current = await self._current_or_none()
        if self._is_doubtful or self._is_other(current):
            await self._adopt(current)
            self._is_doubtful = False
        await self._notices.store_notified()
        return ""

    def sets_are_damaged(self, what: str) -> None:
        """Stop using the sets of the generation in force, and resolve their subscriptions live."""
        if not self.damage:
            self._note_damage(what)
            self.adopt_again()

    def _note_damage(self, what: str) -> None:
        if what != self.damage:
            log.error("neighborhoods are resolved by this broker: %s", what)
        self.damage = what

    def _is_other(self, current: GenerationFacts | None) -> bool:
        if current is None:
            # Redis was emptied. Rows that were read stay in use; sets in Redis are gone.
            return self.facts is not None and not keeps_rows(self._memberships)
        known = self.facts
        return known is None or (known.generation, known.token) != (
            current.generation,
            current.token,
        )

    async def _current_or_none(self) -> GenerationFacts | None:
        """Return the generation in force; None when ours is given up and Redis has none."""
        try:
            return await self._current()
        except DamagedRedisError:
            if self._is_doubtful:
                return None
            raise

    async def _current(self) -> GenerationFacts | None:
        """Return the generation in force; None also when it is known to be of another world."""
        found = await generation_in_force(self._router)
        if found is None or (found.generation, found.token) == self._foreign:
            return None
        return found

    async def _adopt(self, facts: GenerationFacts | None) -> None:
        """Adopt a generation; continue without one when it is of another world.

        Rows that were read before stay in use. Sets that stayed in Redis will be removed there.
        """
        try:
            await self._adopt_or_refuse(facts)
        except OtherWorldError as error:
            if facts is None:
                raise
            self._note_damage(str(error))
            if self.facts is None or not keeps_rows(self._memberships):
                await self._adopt_or_refuse(None)
            self._foreign = (facts.generation, facts.token)

    async def _adopt_or_refuse(self, facts: GenerationFacts | None) -> None:
        def in_force(outcome: SwitchOutcome) -> None:
            self.facts = facts
            # Subscribers were notified of what was in force before Redis was emptied.
            self._adopted = outcome.adopted or self._adopted
            self.switches += 1
            self.waiting.replace(outcome.waiting)
            self._notices.switched(outcome, facts)
            if facts is None:
                text = "no generation in force; %d subscriptions of this broker resolved"
                log.info(text, outcome.late)
            else:
                log.info(
                    "generation %d of world version %d in force; %d subscriptions beside it",
                    *(facts.generation, facts.version, outcome.late),
                )

        async with self.waiting.adopting:
            await self._adopt_sets(facts, in_force)

    async def _adopt_sets(
        self, facts: GenerationFacts | None, in_force: Callable[[SwitchOutcome], None]
    ) -> None:
        is_same = facts is not None and not self._is_other(facts)
        if facts is None or (is_same and self.damage):
            await self._adopter.adopt(_without_sets(facts), self._adopted, in_force)
            return
        log.info("generation %d noticed: it is being loaded", facts.generation)
        try:
            await self._adopter.adopt(facts, self._adopted, in_force)
            self.damage = ""
        except DamagedRedisError as error:
            self._note_damage(str(error))
            await self._adopter.adopt(_without_sets(facts), self._adopted, in_force)


def _without_sets(facts: GenerationFacts | None) -> GenerationFacts | None:
    """Return facts of a generation whose sets are not used: all is resolved on its version."""
    return None if facts is None else replace(facts, coverage=FROM_FILE)
