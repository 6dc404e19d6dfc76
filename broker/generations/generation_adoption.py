"""Adopts a generation: prepares it beside the old one, then switches in one step.

A generation holds the registered subscriptions up to a subId. Later subscriptions of this broker
are resolved live on the generation's world version and entered beside it. A subscription that is
made during the preparation is resolved on both worlds by its SUBSCRIBE.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeAlias

import numpy as np

from broker.core.subscribe.subscription import SubscriptionTerms
from broker.core.world_changes import Neighborhoods
from broker.filter.generation_builder import GenerationBuilder
from broker.filter.memberships_memory import MemoryMemberships
from broker.filter.memberships_redis import RedisMemberships
from broker.generations.change_counts import (
    NO_GENERATION,
    AdoptedGeneration,
    SwitchOutcome,
    covered_up_to,
)
from broker.generations.loader_process import (
    LoadRequest,
    LoadResult,
    SubscriptionSnapshot,
    load_generation,
    subscription_snapshot,
)
from broker.generations.switch_changes import SwitchChanges
from broker.generations.waiting_neighborhoods import AdoptionResolver, UnresolvedCause
from broker.resolver.live_resolver import ComingMembers, LiveResolver
from redis_link.connection.redis_router import RedisRouter
from schemas.errors import GenerationError, OtherWorldError, WorldError
from schemas.generation import GenerationFacts

log = logging.getLogger(__name__)

# How many times a generation is started again because the resolver did not answer.
ATTEMPTS: Final = 5
# Subscriptions that are resolved concurrently, and members entered per turn of the event loop.
RESOLVED_AT_ONCE: Final = 16
MEMBERS_AT_ONCE: Final = 1_000
# Fewer pairs than this are sorted on the event loop, in a millisecond or two.
FEW_PAIRS: Final = 10_000
NO_MEMBERS: Final = ComingMembers(0, np.empty(0, np.int64))


GenerationMemberships: TypeAlias = MemoryMemberships | RedisMemberships


def keeps_rows(memberships: GenerationMemberships) -> bool:
    """Return whether the rows of a generation are copied to this process, or stay in Redis."""
    return isinstance(memberships, MemoryMemberships)


class GenerationAdopter:
    """Adopts one generation after the other; all calls come from the event loop."""

    def __init__(
        self,
        router: RedisRouter,
        memberships: GenerationMemberships,
        resolver: LiveResolver,
        neighborhoods: Neighborhoods,
        changes: SwitchChanges,
        restore_seconds: float,
    ) -> None:
        self._late = AdoptionResolver(resolver, restore_seconds)
        self._router = router
        self._memberships = memberships
        self._resolver = resolver
        self._neighborhoods = neighborhoods
        self._changes = changes
        self._failed_attempts = 0
        # Number of neighborhoods that must be resolved before the next switch.
        self.unanswered = 0
        # Slots without members in the generation that is being adopted.
        self._waiting: dict[int, bool] = {}
        # Whether nothing is in force yet: what the start loaded has filtered no message.
        self.is_start = True

    async def adopt(
        self,
        facts: GenerationFacts | None,
        before: AdoptedGeneration | None,
        in_force: Callable[[SwitchOutcome], None],
    ) -> None:
        """Adopt a generation; call ``in_force`` in the same step. On an error nothing changes."""
        self._waiting = {}
        up_to = await covered_up_to(self._router, facts)
        is_other_world = facts is not None and await self._prepare(facts)
        builder = self._memberships.begin_generation(is_other_world=is_other_world)
        try:
            # No await before this: from now on the builder records every new subscription.
            own = await subscription_snapshot(self._neighborhoods, up_to, builder.arrived)
            members = await self._enter_late(builder, own.late)
            version = self._resolver.version if facts is None else facts.version
            counter = await self._changes.begin(facts, version, up_to, before, own)
            loaded = await self._load(facts, own, builder, counter.compare_with)
            has_both_worlds = is_other_world and not self.is_start
            await counter.count(loaded, members, has_both_worlds=has_both_worlds)
            await self._settle(builder)
            if has_both_worlds:
                await counter.count_arrivals()
                # Subscriptions made meanwhile were resolved on both worlds, or are settled now.
                await self._settle(builder)
        except BaseException:
            self._memberships.abandon()
            await self._resolver.drop_coming()
            raise
        # Large subscriptions that are half entered start again; their old slots match nothing.
        builder.unsettled.clear()
        # SubIds of another registry are other subscriptions, so its sets are not used.
        self._switch(builder, None if facts is None or up_to < 0 else facts.generation)
        world_before = self._resolver.switch()
        self._failed_attempts = 0
        self.is_start = False
        adopted = self._adopted_now(facts, up_to, before)
        self._changes.finish(counter)
        late, lacking = len(own.late), counter.lacking
        in_force(SwitchOutcome(adopted, late, counter.changes, lacking, self._waiting))
        if world_before is not None:
            await world_before.stop()

    def _switch(self, builder: GenerationBuilder, generation: int | None) -> None:
        """Put the built memberships in force, in one step."""
        if isinstance(self._memberships, MemoryMemberships):
            self._memberships.switch(builder)
        else:
            self._memberships.switch(builder, generation)

    def _adopted_now(
        self, facts: GenerationFacts | None, up_to: int, before: AdoptedGeneration | None
    ) -> AdoptedGeneration | None:
        """Return the generation that is in force now; None when Redis was emptied.

        The world before the first generation is returned too: without it the changes of the first
        generation could not be counted.
        """
        if facts is not None:
            return AdoptedGeneration(facts.generation, facts.token, facts.version, up_to)
        if before is None or not before.generation:
            return AdoptedGeneration(NO_GENERATION, "", self._resolver.version, -1)
        return None

    async def _prepare(self, facts: GenerationFacts) -> bool:
        """Load the world version; OtherWorldError when the generation is of another world."""
        try:
            is_other_version = await self._resolver.prepare(facts.version)
        except WorldError as error:
            self._check_world(facts)
            if self._may_try_again():
                raise GenerationError(str(error)) from error
            log.error("new neighborhoods stay on the old version: %s", error)  # noqa: TRY400
            return False
        try:
            self._check_world(facts)
        except OtherWorldError:
            await self._resolver.drop_coming()
            raise
        return is_other_version

    def _check_world(self, facts: GenerationFacts) -> None:
        """Raise OtherWorldError for another world: brokers of several worlds may share a Redis."""
        if facts.world and facts.world != self._resolver.world_id:
            raise OtherWorldError(
                f"generation {facts.generation} was built for another world ({facts.started_by}); "
                "brokers of one Redis should serve one world: give this one a Redis of its own"
            )

    async def _enter_late(
        self, builder: GenerationBuilder, late: Sequence[tuple[int, SubscriptionTerms]]
    ) -> dict[int, ComingMembers]:
        """Resolve what the generation does not hold, and enter it by slot; return members by subId.

        A subscription that ends meanwhile does no harm: its slot is dead at the switch.
        """
        found: dict[int, ComingMembers] = {}
        self.unanswered = len(late)
        for start in range(0, len(late), RESOLVED_AT_ONCE):
            some = late[start : start + RESOLVED_AT_ONCE]
            resolved = await asyncio.gather(*(self._resolve(terms) for _, terms in some))
            self.unanswered -= len(some)
            for (slot, terms), members in zip(some, resolved, strict=True):
                known = members if isinstance(members, ComingMembers) else NO_MEMBERS
                builder.add(slot, known.peids)
                found[terms.sub_id or 0] = known
                if isinstance(members, UnresolvedCause):
                    self._waiting[slot] = members is UnresolvedCause.UNANSWERED
        return found

    async def _resolve(self, terms: SubscriptionTerms) -> ComingMembers | UnresolvedCause:
        members = await self._late.resolve(terms, is_start=self.is_start)
        may_pass = members in (UnresolvedCause.UNANSWERED, UnresolvedCause.FAILED)
        if may_pass and not self.is_start and self._may_try_again():
            # The generation in force stays in use meanwhile.
            raise GenerationError(f"subscription {terms.sub_id} waits for the resolver")
        return members

    async def _load(
        self,
        facts: GenerationFacts | None,
        own: SubscriptionSnapshot,
        builder: GenerationBuilder,
        compare_with: int | None,
    ) -> LoadResult | None:
        """Have a process build the table; None when the pairs were few enough to enter here."""
        wants_rows = keeps_rows(self._memberships)
        is_asked = wants_rows or compare_with is not None
        reads = facts is not None and len(own.sub_ids) > 0 and is_asked
        peids, slots = builder.take_pairs()
        if not reads and len(peids) < FEW_PAIRS:
            builder.add_pairs(peids, slots)
            builder.build()
            return None
        generation = facts.generation if facts is not None and reads else None
        address, late = self._router.address, (peids, slots)
        loaded = await load_generation(
            LoadRequest(address, generation, wants_rows, compare_with, own, late)
        )
        builder.use(loaded.table)
        return loaded

    async def _settle(self, builder: GenerationBuilder) -> None:
        """Enter what arrived meanwhile, some members per turn of the event loop."""
        while True:
            unsettled = self._living(builder.unsettled)
            if unsettled:
                await self._enter_late(builder, unsettled)
            elif builder.fold_late(MEMBERS_AT_ONCE):
                await asyncio.sleep(0)
            else:
                return

    def _living(self, slots: Collection[int]) -> list[tuple[int, SubscriptionTerms]]:
        """Return the subscriptions with these slots; large ones that are half entered have none."""
        if not slots:
            return []
        return [(one.slot, one.terms) for one in self._neighborhoods if one.slot in slots]

    def _may_try_again(self) -> bool:
        """Return whether the failure may be temporary, and did not happen too often."""
        self._failed_attempts += 1
        return self._failed_attempts < ATTEMPTS
