"""Building one generation and switching to it: the same steps for Spark and for one process.

Lock → sweep what killed pushes left → number and record → (write) → (read back) → compare →
switch. Until the switch nobody sees anything of it; whatever fails before leaves the old
generation in force.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from redis_link.connection.client import RedisClient
from redis_link.generation.generation_store import begin_generation, server_time, switch_generation
from redis_link.generation.push_lock import LOCK_SECONDS, PushLock, is_held
from redis_link.generation.sweep import KEEP_ALL, remove_generation, sweep_generations
from redis_link.sets.tally import Tally
from schemas.errors import GenerationError, RedisFullError, SpapsError
from schemas.generation import FROM_FILE, GenerationFacts, GenerationState, RegistryCoverage


@dataclass(frozen=True, slots=True)
class PushTicket:
    """What a writer needs besides the URL; travels to executors."""

    generation: int
    lock_value: str


@dataclass(frozen=True, slots=True)
class PushSource:
    """What a generation is made of, and what pushes it, in words.

    ``run`` computed it and wrote it as ``commit`` of the Delta table, and ``world`` is the id of
    the world that the version belongs to, where that is known.
    """

    version: int
    what: str
    coverage: RegistryCoverage = FROM_FILE
    run: str = ""
    commit: int | None = None
    world: str = ""


class GenerationPush:
    """One generation in the making, inside a ``with`` block."""

    def __init__(
        self, client: RedisClient, source: PushSource, *, lock_seconds: float = LOCK_SECONDS
    ) -> None:
        self._client = client
        self._source = source
        self._lock = PushLock(client, source.what, lock_seconds=lock_seconds)
        self._open = contextlib.ExitStack()
        self._facts: GenerationFacts | None = None
        self.swept: tuple[int, ...] = ()
        self.completed: GenerationFacts | None = None
        self.replaced: GenerationFacts | None = None

    def __enter__(self) -> Self:
        """Take the lock, clean up after killed pushes, begin a generation."""
        with self._open:
            self._take_lock()
            # Whoever built it held this lock: what is still "building" has no builder.
            self.swept = sweep_generations(self._client, KEEP_ALL, building_is_dead=True).removed
            holder = self._lock.holder
            facts = GenerationFacts(
                generation=0,
                version=self._source.version,
                state=GenerationState.BUILDING,
                started_by=f"{holder.what}, process {holder.pid} on {holder.host}",
                started_at=server_time(self._client),
                token=holder.token,
                coverage=self._source.coverage,
                run=self._source.run,
                commit=self._source.commit,
                world=self._source.world,
            )
            self._facts = begin_generation(self._client, self._lock.value, facts)
            self._open = self._open.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the lock back, and remove what did not become current.

        In this order: a switch that may still be on its way, because its answer did not come,
        finds the lock gone and does nothing.
        """
        self._open.close()
        if self._facts is not None:
            # When Redis is away just now, the next push does it.
            with contextlib.suppress(SpapsError):
                remove_generation(self._client, self._facts)

    def _take_lock(self) -> None:
        try:
            self._open.enter_context(self._lock)
        except RedisFullError:
            # Perhaps of what a killed push left. Nobody can hold the lock and build: should
            # somebody get it at this moment, the comparison before the switch stops that one.
            if is_held(self._client):
                raise
            sweep_generations(self._client, KEEP_ALL, building_is_dead=True)
            self._open.enter_context(self._lock)

    @property
    def ticket(self) -> PushTicket:
        """For the writers of this generation."""
        return PushTicket(self._building().generation, self._lock.value)

    def switch(self, expected: Tally, found: Tally, commit: int | None = None) -> None:
        """Make the generation current when Redis holds what it should.

        ``commit``: where it was not known when the push began.
        """
        facts = self._building()
        self._lock.check()
        if found != expected:
            raise GenerationError(
                f"generation {facts.generation} is not what was written and was dropped: "
                f"{_difference(expected, found)}"
            )
        completed = replace(
            facts,
            state=GenerationState.COMPLETE,
            pairs=found.pairs,
            peids=found.peids,
            checksum=found.checksum(),
            completed_at=server_time(self._client),
            commit=facts.commit if commit is None else commit,
        )
        self.replaced = switch_generation(self._client, self._lock.value, facts, completed)
        self.completed = completed
        self._facts = None

    def _building(self) -> GenerationFacts:
        if self._facts is None:
            raise GenerationError("no generation is being built")
        return self._facts


def _difference(expected: Tally, found: Tally) -> str:
    if (expected.pairs, expected.peids) != (found.pairs, found.peids):
        return (
            f"{found.pairs:,} pairs of {found.peids:,} entities in Redis "
            f"instead of {expected.pairs:,} of {expected.peids:,}"
        )
    return f"checksum {found.checksum()} in Redis instead of {expected.checksum()}"
