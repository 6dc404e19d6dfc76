"""Follows the generation in force: hears its notices, looks for lost ones, and changes over."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, Protocol

from broker.core.subscribe.subscription import Subscription
from broker.generations.change_counts import AdoptedGeneration, LastNotified
from broker.generations.generation_adoption import (
    ATTEMPTS,
    AdoptionResolver,
    GenerationAdopter,
    GenerationTarget,
    Outcome,
)
from broker.generations.switch_changes import SwitchChanges
from broker.generations.waiting_neighborhoods import WaitingNeighborhoods
from redis_link.connection.failures import is_wrong_type
from redis_link.connection.redis_connection import RedisConnection, RedisReplyError
from redis_link.connection.redis_router import RedisRouter
from schemas.errors import DamagedRedisError, GenerationError, OtherWorldError, SpapsError
from schemas.generation import FROM_FILE, GenerationFacts
from schemas.redis_keys import GENERATION_CHANNEL, current_generation_key, generations_key

log = logging.getLogger(__name__)

RESTORE_SECONDS: Final = 60.0
# A switch is to be noticed within a second also when its notice was lost.
LOOK_SECONDS: Final = 0.8


class SwitchTeller(Protocol):
    """Tells subscribers of a switch."""

    def listening(self) -> Mapping[int, str]:
        """The subIds whose clients want to know what changed, with their descriptors."""

    async def last_told(self) -> LastNotified | None:
        """What they were last told of, by an earlier process maybe."""

    def switched(self, outcome: Outcome, facts: GenerationFacts | None) -> None:
        """Something else is in force from now on."""

    async def keep(self) -> None:
        """Note durably what they were told, once that is certain."""


class GenerationFollower:
    """``subscriptions`` are the neighborhoods in force; all calls come from the event loop."""

    def __init__(
        self,
        wires: RedisRouter,
        target: GenerationTarget,
        resolver: AdoptionResolver,
        subscriptions: Callable[[], Iterable[Subscription]],
        teller: SwitchTeller,
        restore_seconds: float = RESTORE_SECONDS,
    ) -> None:
        self._wires = wires
        self._target = target
        self._teller = teller
        self._changes = SwitchChanges(wires, resolver, teller.listening)
        self._adopter = GenerationAdopter(
            wires, target, resolver, subscriptions, self._changes, restore_seconds
        )
        self.waiting = WaitingNeighborhoods(resolver)
        self.facts: GenerationFacts | None = None
        self._adopted: AdoptedGeneration | None = None
        self._listening: RedisConnection | None = None
        self._news = asyncio.Event()
        # What is in force may lack subscriptions of ours.
        self._is_doubtful = False
        self.problem = ""
        # What is wrong with the sets of the generation in force: they are not used then.
        self.damage = ""
        # Generation and token of one that was built for another world: it is not for us.
        self._foreign: tuple[int, str] | None = None
        self.switches = 0

    @property
    def unanswered(self) -> int:
        """Neighborhoods whose members are not known because the resolver has not answered."""
        at_start = self._adopter.unanswered if self._adopter.is_start else 0
        return at_start + self.waiting.unanswered

    def look_soon(self) -> None:
        """Something may have changed."""
        self._news.set()

    def adopt_again(self) -> None:
        """Adopt the generation in force anew: it may lack subscriptions of ours."""
        self._is_doubtful = True
        self._news.set()

    async def load(self) -> None:
        """Adopt what is in force, before the first client comes; raises when it cannot."""
        told = await self._teller.last_told()
        if told is not None:
            self._adopted = told.adopted
            self._changes.lacking = set(told.lacking)
        for attempt in range(ATTEMPTS):
            asked_at = time.monotonic()
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
                self._target.confirm(asked_at)
                return

    async def follow(self) -> None:
        """Keep in step until cancelled."""
        try:
            while True:
                # Before the look: news that come during it lead to another one.
                self._news.clear()
                await self._look()
                try:
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._news.wait()
                except TimeoutError:
                    continue
        finally:
            if self._listening is not None:
                self._listening.close()

    async def _look(self) -> None:
        """One look; what goes wrong is said once and tried again."""
        try:
            if self._listening is None or not self._listening.is_open:
                self._listening = await self._wires.listen(GENERATION_CHANNEL, self._news.set)
            asked_at = time.monotonic()
            current = await self._current_or_none()
            if self._is_doubtful or self._is_other(current):
                await self._adopt(current)
                self._is_doubtful = False
            if current is not None:
                self._target.confirm(asked_at)
            await self._teller.keep()
            self.problem = ""
        except SpapsError as error:
            self._note(str(error))
        except Exception as error:
            # Whatever it is, the generation in force serves on, and the next look tries again.
            log.exception("a generation could not be adopted")
            self._note(f"{type(error).__name__}: {error}")

    def sets_are_damaged(self, what: str) -> None:
        """Give up the sets of the generation in force, and resolve what they held."""
        if not self.damage:
            self._note_damage(what)
            self.adopt_again()

    def _note_damage(self, what: str) -> None:
        if what != self.damage:
            log.error("neighborhoods are resolved by this broker: %s", what)
        self.damage = what

    def _note(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            log.warning("the generation in force stays: %s", problem)

    def _is_other(self, current: GenerationFacts | None) -> bool:
        if current is None:
            # Redis was emptied. What was read of it serves on; sets that stayed there are gone.
            return self.facts is not None and not self._target.wants_rows
        known = self.facts
        return known is None or (known.generation, known.token) != (
            current.generation,
            current.token,
        )

    async def _current_or_none(self) -> GenerationFacts | None:
        """The same; none, when what is in force has to be given up and Redis does not tell."""
        try:
            return await self._current()
        except DamagedRedisError:
            if self._is_doubtful:
                return None
            raise

    async def _current(self) -> GenerationFacts | None:
        """The generation in force; DamagedRedisError when Redis does not tell.

        None too where it is known to be of another world.
        """
        try:
            key = current_generation_key()
            number = await self._wires.ask(key, "GET", key)
            if number is None:
                return None
            if not number.isdigit():
                raise DamagedRedisError("Redis: the pointer to the generation in force is damaged")
            facts = await self._wires.ask(generations_key(), "HGET", generations_key(), number)
        except RedisReplyError as error:
            if is_wrong_type(error):
                raise DamagedRedisError(f"Redis: {error}") from error
            raise
        if facts is None:
            raise DamagedRedisError(f"generation {int(number)} is in force, and its facts are gone")
        found = GenerationFacts.from_json(int(number), facts)
        return None if (found.generation, found.token) == self._foreign else found

    async def _adopt(self, facts: GenerationFacts | None) -> None:
        """Change over; where the generation is of another world, go on without it.

        Rows that were read before serve on. Sets that stayed in Redis are removed there.
        """
        try:
            await self._adopt_or_refuse(facts)
        except OtherWorldError as error:
            if facts is None:
                raise
            self._note_damage(str(error))
            if self.facts is None or not self._target.wants_rows:
                await self._adopt_or_refuse(None)
            self._foreign = (facts.generation, facts.token)

    async def _adopt_or_refuse(self, facts: GenerationFacts | None) -> None:
        def in_force(outcome: Outcome) -> None:
            self.facts = facts
            # Of what was in force before Redis was emptied, subscribers know on.
            self._adopted = outcome.adopted or self._adopted
            self.switches += 1
            self.waiting.replace(outcome.waiting)
            self._teller.switched(outcome, facts)
            log.info(
                "generation %s of world version %s in force; %d subscriptions beside it",
                "none" if facts is None else facts.generation,
                "none" if facts is None else facts.version,
                outcome.late,
            )

        async with self.waiting.adopting:
            await self._adopt_sets(facts, in_force)

    async def _adopt_sets(
        self, facts: GenerationFacts | None, in_force: Callable[[Outcome], None]
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
    """A generation of which no set is used: all subscriptions are resolved on its version."""
    return None if facts is None else replace(facts, coverage=FROM_FILE)
