"""Follows the generation in force: hears its notices, looks once a second, and changes over.

A generation holds the registered subscriptions up to a number. Whatever this broker has beyond
that is resolved live on the generation's world version and put beside it. Everything is
prepared while the old one serves on, and put in force in one step.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

import numpy as np

from broker.codec.reason_codes import ReasonCode
from broker.generation_rows import OwnRows, read_own_rows
from broker.live_resolver import LiveResolution, NeighborhoodRefusedError
from broker.memberships_memory import GenerationBuilder
from broker.subscription import Subscription
from redis_link.wire import Wire
from redis_link.wires import Wires
from schemas.errors import GenerationError, SpapsError, WorldError
from schemas.generation import GenerationFacts
from schemas.redis_keys import (
    GENERATION_CHANNEL,
    current_generation_key,
    generations_key,
    registry_id_key,
)

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
# How often a generation is begun anew because the resolver could not answer just then.
ATTEMPTS: Final = 5


class LateResolver(Protocol):
    """The live resolver, as far as it is needed here."""

    async def use_version(self, version: int) -> None:
        """Resolve on this world version from now on; WorldError when it is not there."""

    async def resolve(self, descriptor: str) -> LiveResolution:
        """The members; NeighborhoodRefusedError when there are none to be had."""


class GenerationTarget(Protocol):
    """The memberships of a mode."""

    # Whether the rows of the generation are wanted here, or stay in Redis.
    wants_rows: bool

    def begin(self) -> GenerationBuilder:
        """Start to build what shall replace everything."""

    def abandon(self) -> None:
        """Stay with what is in force."""

    def switch(self, builder: GenerationBuilder, generation: int | None) -> None:
        """Put it in force, in one step."""

    def confirm(self, at: float) -> None:
        """What is in force here was in force in Redis at this time of the monotonic clock."""


class GenerationFollower:
    """``subscriptions`` are the neighborhoods in force; all calls come from the event loop."""

    def __init__(
        self,
        wires: Wires,
        target: GenerationTarget,
        resolver: LateResolver,
        subscriptions: Callable[[], Iterable[Subscription]],
    ) -> None:
        self._wires = wires
        self._target = target
        self._resolver = resolver
        self._subscriptions = subscriptions
        self.facts: GenerationFacts | None = None
        self._failed_attempts = 0
        self._listening: Wire | None = None
        self._news = asyncio.Event()
        self._problem = ""
        self.switches = 0

    def look_soon(self) -> None:
        """Something may have changed."""
        self._news.set()

    async def load(self) -> None:
        """Adopt what is in force, before the first client comes; raises when it cannot."""
        asked_at = time.monotonic()
        await self._adopt(await self._current())
        self._target.confirm(asked_at)

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
            self._problem = ""
        except SpapsError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                log.warning("the generation in force stays: %s", error)

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

    # --- changing over

    async def _adopt(self, facts: GenerationFacts | None) -> None:
        up_to = await self._covered_up_to(facts)
        if facts is not None:
            await self._use_version(facts.version)
        builder = self._target.begin()
        # In the same moment: whatever is added from now on is noted by the builder.
        own = [one for one in self._subscriptions() if one.terms.sub_id is not None]
        slots = {one.terms.sub_id or 0: one.slot for one in own}
        covered = {number: slot for number, slot in slots.items() if number <= up_to}
        try:
            if facts is not None and covered and self._target.wants_rows:
                rows = OwnRows(covered)
                await asyncio.to_thread(
                    read_own_rows, self._wires.address, facts.generation, rows, builder
                )
            late = [one for one in own if (one.terms.sub_id or 0) > up_to]
            await self._add_late(builder, slots, late)
            builder.fold_late()
            await asyncio.to_thread(builder.build)
        except BaseException:
            self._target.abandon()
            raise
        # SubIds of another registry would name other subscriptions: such sets are not for us.
        self._target.switch(builder, None if facts is None or up_to < 0 else facts.generation)
        self.facts = facts
        self._failed_attempts = 0
        self.switches += 1
        log.info(
            "generation %s of world version %s in force; %d subscriptions beside it",
            "none" if facts is None else facts.generation,
            "none" if facts is None else facts.version,
            len(late),
        )

    async def _covered_up_to(self, facts: GenerationFacts | None) -> int:
        """The last subId that the generation holds, of the registry that numbers ours."""
        if facts is None:
            return -1
        registry = await self._wires.ask(registry_id_key(), "GET", registry_id_key())
        if registry is None or facts.coverage.registry != registry.decode():
            return -1
        return facts.coverage.up_to

    async def _use_version(self, version: int) -> None:
        try:
            await self._resolver.use_version(version)
        except WorldError as error:
            log.error("new neighborhoods stay on the version before: %s", error)  # noqa: TRY400

    async def _add_late(
        self, builder: GenerationBuilder, slots: dict[int, int], late: Sequence[Subscription]
    ) -> None:
        for subscription in late:
            terms = subscription.terms
            if terms.sub_id is None or terms.descriptor is None:
                continue
            try:
                resolution = await self._resolver.resolve(terms.descriptor)
            except NeighborhoodRefusedError as error:
                if self._may_try_again(error):
                    raise GenerationError(f"subscription {terms.sub_id}: {error}") from error
                # It was served on another version; on this one it holds nothing.
                log.warning("subscription %d holds nothing now: %s", terms.sub_id, error)
                builder.add(slots[terms.sub_id], np.empty(0, np.int64))
            else:
                builder.add(slots[terms.sub_id], resolution.peids)

    def _may_try_again(self, error: NeighborhoodRefusedError) -> bool:
        """Whether the resolver itself was the problem, and not yet too often."""
        self._failed_attempts += 1
        return error.reason is ReasonCode.UNSPECIFIED_ERROR and self._failed_attempts < ATTEMPTS
