"""The live resolver: resolves neighborhoods of new subscriptions off the event loop.

While another generation is being loaded there are two worlds: the one in force, and the coming
one. A new neighborhood is then resolved on both, so that its subscription is right before and
after the switch, and waits for neither.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

import numpy as np

from broker.codec.reason_codes import ReasonCode
from broker.resolver.resolver_requests import (
    BROKER,
    Asker,
    NeighborhoodRefusedError,
    ResolverCounts,
    ResolverLimits,
    ResolverLostError,
    VersionResolution,
)
from broker.resolver.resolver_supervisor import RESTART_DELAY
from broker.resolver.world_resolver import WorldResolver
from spatial_udfs.entity_table import Int64s
from spatial_udfs.exact.stage_findings import StageFinding

log = logging.getLogger(__name__)

START_ATTEMPTS: Final = 10

# A subscription in force was granted before: on another version it may cost more, up to these
# limits.
IN_FORCE: Final = ResolverLimits(
    seconds=120.0, away_seconds=60.0, members=None, waiting=None, waiting_of_owner=None
)


@dataclass(frozen=True, slots=True, eq=False)
class ComingMembers:
    """The members of a neighborhood in the coming world."""

    version: int
    peids: Int64s
    lacks_references: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class LiveResolution:
    """The members of a neighborhood in the world in force, and in the coming one, if any.

    ``coming`` is None also when the coming world did not answer: its loading resolves it then.
    """

    present: VersionResolution
    coming: ComingMembers | None = None
    # The version that was coming at the time of the request, whether it answered or not.
    coming_version: int | None = None


class LiveResolver:
    """Resolves neighborhoods on the world in force; all calls come from the event loop."""

    def __init__(self, world: str, limits: ResolverLimits) -> None:
        self._world = world
        self._limits = limits
        self._present: WorldResolver | None = None
        self._coming: WorldResolver | None = None
        self.counts = ResolverCounts()

    @property
    def version(self) -> int:
        """The world version in force; 0 before the first one is loaded."""
        return self._present.version if self._present is not None else 0

    @property
    def world_id(self) -> str:
        """The identifier of the coming world, or else of the one in force."""
        world = self._coming or self._present
        return "" if world is None else world.world_id

    @property
    def is_running(self) -> bool:
        """Whether the process of the world in force can answer now."""
        return self._present is not None and self._present.is_running

    @property
    def waiting(self) -> int:
        """Number of neighborhoods that are being resolved."""
        return sum(one.waiting for one in (self._present, self._coming) if one is not None)

    def knows(self, peid: int) -> bool | None:
        """Return whether the world in force has this entity; None before one is loaded."""
        return None if self._present is None else self._present.knows(peid)

    async def start(self, version: int | None = None) -> None:
        """Load a world version, by default the newest; WorldError if there is none.

        A process that ends while it loads is started again some times.
        """
        for attempts_left in range(START_ATTEMPTS - 1, -1, -1):
            try:
                self._present = await WorldResolver.load(self._world, version, self.counts)
            except ResolverLostError as error:
                if not attempts_left:
                    raise
                log.warning("%s; starting it again", error)
                await asyncio.sleep(RESTART_DELAY)
            else:
                return

    async def stop(self) -> None:
        """End the processes; requests that wait get an error."""
        worlds = [one for one in (self._present, self._coming) if one is not None]
        for world in worlds:
            await world.stop()

    async def prepare(self, version: int) -> bool:
        """Load a version beside the one in force; False when it is the one in force."""
        await self.drop_coming()
        if version == self.version:
            return False
        self._coming = await WorldResolver.load(self._world, version, self.counts)
        return True

    async def drop_coming(self) -> None:
        """Discard the coming world."""
        dropped, self._coming = self._coming, None
        if dropped is not None:
            await dropped.stop()

    def switch(self) -> WorldResolver | None:
        """Put the coming world in force; return the one before, which the caller must stop."""
        if self._coming is None:
            return None
        before, self._present, self._coming = self._present, self._coming, None
        return before

    async def resolve(self, descriptor: str, asker: Asker) -> LiveResolution:
        """Return the members; NeighborhoodRefusedError with reason code and text."""
        while True:
            present, coming = self._present, self._coming
            if present is None:
                raise NeighborhoodRefusedError(
                    ReasonCode.UNSPECIFIED_ERROR, "no world version is loaded"
                )
            asked_beside = None
            if coming is not None:
                asked_beside = asyncio.create_task(_members_in(coming, descriptor, asker))
            try:
                found = await present.resolve(descriptor, self._limits, asker)
            except NeighborhoodRefusedError:
                if present is self._present:
                    raise
                continue  # another version came into force meanwhile: that one counts
            if asked_beside is None or coming is None:
                resolution = LiveResolution(found)
            else:
                members = await asked_beside
                if found.is_rewritten:
                    # A name may be that of another entity there: what counts are the peids.
                    members = await _members_in(coming, found.descriptor, asker)
                resolution = LiveResolution(found, members, coming.version)
            if self.is_current(resolution):
                return resolution

    async def resolve_in_force(self, descriptor: str) -> VersionResolution:
        """Return the members in the world in force, for a subscription that was granted before."""
        if self._present is None:
            raise NeighborhoodRefusedError(
                ReasonCode.UNSPECIFIED_ERROR, "no world version is loaded"
            )
        return await self._present.resolve(descriptor, IN_FORCE)

    async def resolve_coming(self, descriptor: str) -> ComingMembers:
        """Return the members in the coming world, or in the one in force when there is no other.

        NeighborhoodRefusedError when it cannot be resolved now. That no reference exists is an
        answer.
        """
        world = self._present if self._coming is None else self._coming
        if world is None:
            raise NeighborhoodRefusedError(
                ReasonCode.UNSPECIFIED_ERROR, "no world version is loaded"
            )
        return await _answer_of(world, descriptor)

    async def find_in_force(
        self, descriptor: str, peid: int, limits: ResolverLimits, asker: Asker
    ) -> tuple[StageFinding, ...]:
        """Return what each stage has to do with an entity in the world in force; as ``resolve``."""
        if self._present is None:
            raise NeighborhoodRefusedError(
                ReasonCode.UNSPECIFIED_ERROR, "no world version is loaded"
            )
        return await self._present.find(descriptor, peid, limits, asker)

    def is_current(self, resolution: LiveResolution) -> bool:
        """Return whether the worlds are still those on which it was resolved."""
        coming = None if self._coming is None else self._coming.version
        return (resolution.present.version, resolution.coming_version) == (self.version, coming)


async def _answer_of(world: WorldResolver, descriptor: str, asker: Asker = BROKER) -> ComingMembers:
    try:
        found = await world.resolve(descriptor, IN_FORCE, asker)
    except NeighborhoodRefusedError as error:
        if not error.lacks_references:
            raise
        return ComingMembers(world.version, np.empty(0, np.int64), lacks_references=True)
    return ComingMembers(world.version, found.peids)


async def _members_in(world: WorldResolver, descriptor: str, asker: Asker) -> ComingMembers | None:
    """Return the members, or None when the world does not answer now."""
    try:
        return await _answer_of(world, descriptor, asker)
    except NeighborhoodRefusedError as error:
        log.warning("a new neighborhood is not resolved on version %d: %s", world.version, error)
        return None
