"""Follows the generation in force: hears its notices, looks for lost ones, and changes over."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from broker.change_counting import Adopted, Told
from broker.generation_adoption import (
    ATTEMPTS,
    AdoptionResolver,
    GenerationAdopter,
    GenerationTarget,
    Outcome,
)
from broker.subscription import Subscription
from broker.switch_changes import SwitchChanges
from redis_link.wire import Wire
from redis_link.wires import Wires
from schemas.errors import GenerationError, SpapsError
from schemas.generation import GenerationFacts
from schemas.redis_keys import GENERATION_CHANNEL, current_generation_key, generations_key

log = logging.getLogger(__name__)

# A switch is to be noticed within a second also when its notice was lost.
LOOK_SECONDS: Final = 0.8


class SwitchTeller(Protocol):
    """Tells subscribers of a switch."""

    def listening(self) -> Mapping[int, str]:
        """The subIds whose clients want to know what changed, with their descriptors."""

    async def last_told(self) -> Told | None:
        """What they were last told of, by an earlier process maybe."""

    def switched(self, outcome: Outcome, facts: GenerationFacts | None) -> None:
        """Something else is in force from now on."""

    async def keep(self) -> None:
        """Note durably what they were told, once that is certain."""


class GenerationFollower:
    """``subscriptions`` are the neighborhoods in force; all calls come from the event loop."""

    def __init__(
        self,
        wires: Wires,
        target: GenerationTarget,
        resolver: AdoptionResolver,
        subscriptions: Callable[[], Iterable[Subscription]],
        teller: SwitchTeller,
    ) -> None:
        self._wires = wires
        self._target = target
        self._teller = teller
        self._changes = SwitchChanges(wires, resolver, teller.listening)
        self._adopter = GenerationAdopter(wires, target, resolver, subscriptions, self._changes)
        self.facts: GenerationFacts | None = None
        self._adopted: Adopted | None = None
        self._listening: Wire | None = None
        self._news = asyncio.Event()
        self.problem = ""
        self.switches = 0

    def look_soon(self) -> None:
        """Something may have changed."""
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
            current = await self._current()
            if self._is_other(current):
                await self._adopt(current)
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

    async def _current(self) -> GenerationFacts | None:
        number = await self._wires.ask(current_generation_key(), "GET", current_generation_key())
        if number is None:
            return None
        facts = await self._wires.ask(generations_key(), "HGET", generations_key(), number)
        if facts is None:
            raise GenerationError(f"generation {int(number)} is current, and its facts are gone")
        return GenerationFacts.from_json(int(number), facts)

    async def _adopt(self, facts: GenerationFacts | None) -> None:
        def in_force(outcome: Outcome) -> None:
            self.facts = facts
            # Of what was in force before Redis was emptied, subscribers know on.
            self._adopted = outcome.adopted or self._adopted
            self.switches += 1
            self._teller.switched(outcome, facts)
            log.info(
                "generation %s of world version %s in force; %d subscriptions beside it",
                "none" if facts is None else facts.generation,
                "none" if facts is None else facts.version,
                outcome.late,
            )

        if facts is not None:
            log.info("generation %d noticed: it is being loaded", facts.generation)
        await self._adopter.adopt(facts, self._adopted, in_force)
