"""Builds a generation and switches to it, in the same steps for Spark and for one process.

Take the lock, remove what killed pushes left, begin a generation, write it, read it back, compare,
switch. No reader sees the generation before the switch. A failure before the switch leaves the old
generation in force.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

from redis_link.connection.client import RedisClient
from redis_link.connection.server_settings import server_advice
from redis_link.generation.generation_store import begin_generation, server_time, switch_generation
from redis_link.generation.push_lock import LOCK_SECONDS, PushLock, PushToken, is_held
from redis_link.generation.sweep import (
    KEEP_ALL,
    BackgroundSweep,
    Retention,
    remove_generation,
    sweep_generations,
)
from redis_link.sets.pair_arrays import Tally
from redis_link.sets.set_reader import bytes_per_pair
from schemas.errors import GenerationError, RedisFullError, SpapsError
from schemas.generation import FROM_FILE, GenerationFacts, GenerationState, RegistryCoverage


@dataclass(frozen=True, slots=True)
class PushSource:
    """What a generation is made of; ``what`` says in words what pushes it.

    ``run`` is the run that resolved the members, ``commit`` the commit of the Delta table that
    holds them, ``world`` the id of the world of the version; each where it is known.
    """

    version: int
    what: str
    coverage: RegistryCoverage = FROM_FILE
    run: str = ""
    commit: int | None = None
    world: str = ""


class GenerationPush:
    """A generation that is being built, inside a ``with`` block."""

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
        """Take the lock, remove what killed pushes left, begin a generation."""
        with self._open:
            self._take_lock()
            # A builder holds this lock: a generation that is still "building" has none any more.
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
        """Give the lock back, then remove a generation that did not become current.

        In this order: a switch whose answer did not come may still run. Without the lock it
        changes nothing.
        """
        self._open.close()
        if self._facts is not None:
            # When Redis is away, the next push removes it.
            with contextlib.suppress(SpapsError):
                remove_generation(self._client, self._facts)

    def _take_lock(self) -> None:
        try:
            self._open.enter_context(self._lock)
        except RedisFullError:
            # Redis may be full of what a killed push left. Nobody holds the lock and builds. If
            # another push gets it at this moment, the comparison before its switch stops it.
            if is_held(self._client):
                raise
            sweep_generations(self._client, KEEP_ALL, building_is_dead=True)
            self._open.enter_context(self._lock)

    @property
    def token(self) -> PushToken:
        """Return the token for the writers of this generation."""
        return PushToken(self._building().generation, self._lock.value)

    def compare(self, expected: Tally, found: Tally) -> None:
        """Raise when Redis does not hold what was written."""
        if found != expected:
            raise GenerationError(
                f"generation {self._building().generation} is not what was written and was "
                f"dropped: {_difference(expected, found)}"
            )

    def switch(self, expected: Tally, found: Tally) -> None:
        """Make the generation current if Redis holds what it should."""
        facts = self._building()
        self._lock.check()
        self.compare(expected, found)
        completed = replace(
            facts,
            state=GenerationState.COMPLETE,
            pairs=found.pairs,
            peids=found.peids,
            checksum=found.checksum(),
            completed_at=server_time(self._client),
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


@dataclass(frozen=True, slots=True)
class PushReport:
    """What a push did that has switched; ``seconds`` by step and in "total"."""

    generation: int
    version: int
    pairs: int
    peids: int
    checksum: str
    seconds: dict[str, float]
    bytes_per_pair: float | None
    replaced: int | None
    # Generations that killed pushes left, removed by this one.
    swept: tuple[int, ...] = ()
    advice: tuple[str, ...] = ()
    # Removes the replaced generation after the grace time; the caller may wait for it.
    cleanup: BackgroundSweep | None = field(default=None, compare=False, repr=False)

    @property
    def pairs_per_second(self) -> float:
        """Return pairs a second over all steps."""
        return self.pairs / max(self.seconds["total"], 1e-9)

    def summary(self) -> str:
        """Return one line for people."""
        cost = f", {self.bytes_per_pair:.1f} bytes a pair" if self.bytes_per_pair else ""
        before = "" if self.replaced is None else f" in place of {self.replaced}"
        return (
            f"generation {self.generation} of world version {self.version} is current{before}: "
            f"{self.pairs:,} pairs of {self.peids:,} entities in {self.seconds['total']:.1f} s "
            f"({self.pairs_per_second:,.0f} pairs/s{cost})"
        )


def report_of(
    client: RedisClient,
    push: GenerationPush,
    seconds: dict[str, float],
    retention: Retention,
) -> PushReport:
    """Return the report of a push that has switched; start to remove what it replaced."""
    facts = push.completed
    if facts is None:
        raise GenerationError("a push that has not switched has nothing to report")
    return PushReport(
        generation=facts.generation,
        version=facts.version,
        pairs=facts.pairs,
        peids=facts.peids,
        checksum=facts.checksum,
        seconds=seconds,
        bytes_per_pair=bytes_per_pair(client, facts.generation, facts.peids),
        replaced=None if push.replaced is None else push.replaced.generation,
        swept=push.swept,
        advice=server_advice(client),
        cleanup=BackgroundSweep(client, retention),
    )


class StepClock:
    """Measures the seconds of each step, and of all together under "total"."""

    def __init__(self) -> None:
        self._started = self._lap = time.monotonic()
        self.seconds: dict[str, float] = {}

    def lap(self, step: str) -> None:
        """End a step and begin the next one."""
        now = time.monotonic()
        self.seconds[step] = now - self._lap
        self.seconds["total"] = now - self._started
        self._lap = now
