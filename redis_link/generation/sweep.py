"""Removes generations that nobody may read any more, in small steps, with UNLINK.

These are the generations that no push completed, and those that were replaced longer ago than the
grace time in which readers change over. Facts of a removed generation stay for some minutes: an
executor of a killed job may still write a little. The indexes name those sets, and a later sweep
removes them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from redis_link.connection.client import RedisClient
from redis_link.generation.generation_store import (
    GRACE_SECONDS,
    all_generations,
    change_facts,
    current_number,
    facts_are,
    server_time,
)
from redis_link.sets.packing import membership_keys, packed_onto, packed_words
from redis_link.sets.set_reader import read_index, shard_runs
from redis_link.sets.set_writer import KEYS_IN_COMMAND
from redis_link.sets.shard_pipe import ShardPipe
from schemas.errors import RedisFullError, SpapsError
from schemas.generation import GenerationFacts, GenerationState
from schemas.redis_keys import SHARD_COUNT, shard_index_key

REMEMBER_SECONDS: Final = 600.0
FREEING_SECONDS: Final = 5.0
SHARDS_AT_ONCE: Final = 64
# Added to a waiting time, so that the grace time is over in spite of rounding.
MARGIN_SECONDS: Final = 0.05
# The thread looks again at the latest after this time. A grace time may be infinite, and no lock
# waits for that long.
LONGEST_WAIT_SECONDS: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Retention:
    """How long readers may use a replaced generation, and how many are kept for a rollback."""

    grace_seconds: float = GRACE_SECONDS
    keep: int = 0


DEFAULT_RETENTION: Final = Retention()
# Removes only generations that were never completed.
KEEP_ALL: Final = Retention(grace_seconds=float("inf"))


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What a sweep removed, and in how many seconds the next one can remove more."""

    removed: tuple[int, ...]
    wait_seconds: float | None


def sweep_generations(
    client: RedisClient, retention: Retention, *, building_is_dead: bool = False
) -> SweepReport:
    """Remove all generations that may be removed.

    ``building_is_dead``: also those that are being built. Only the holder of the push lock knows
    that nobody builds them.
    """
    now = server_time(client)
    current = current_number(client)
    others = [facts for facts in all_generations(client) if facts.generation != current]
    replaced = _in_state(others, GenerationState.COMPLETE)
    replaced.sort(key=lambda facts: facts.retired_at or 0.0)
    left = {
        facts.generation: (facts.retired_at or now) + retention.grace_seconds - now
        for facts in replaced[: max(len(replaced) - retention.keep, 0)]
    }
    due = [facts for facts in replaced if left.get(facts.generation, 1.0) <= 0]
    due += _in_state(others, GenerationState.REMOVING)
    if building_is_dead:
        due += _in_state(others, GenerationState.BUILDING)
    removed = tuple(facts.generation for facts in due if remove_generation(client, facts))
    for facts in _in_state(others, GenerationState.REMOVED):
        if now - (facts.retired_at or 0.0) > REMEMBER_SECONDS:
            _unlink(client, facts.generation)
            change_facts(client, facts, None)
    waits = [seconds for seconds in left.values() if seconds > 0]
    return SweepReport(removed, min(waits, default=None))


def remove_generation(client: RedisClient, facts: GenerationFacts) -> bool:
    """Remove a generation; False when it is current or another process removes it.

    The state changes first: then nobody can switch to the generation, and after a kill the next
    sweep goes on with it.
    """
    removing = replace(facts, state=GenerationState.REMOVING)
    try:
        if not change_facts(client, facts, removing):
            return False
    except RedisFullError:
        # Redis takes no write before something is removed. So nobody can switch either.
        if not facts_are(client, facts):
            return False
        removing = facts
    _unlink(client, facts.generation)
    removed = replace(removing, state=GenerationState.REMOVED, retired_at=server_time(client))
    return _change_when_freed(client, removing, removed)


def _change_when_freed(
    client: RedisClient, facts: GenerationFacts, changed: GenerationFacts
) -> bool:
    """Change facts as soon as Redis has memory: it frees unlinked sets in a thread."""
    deadline = time.monotonic() + FREEING_SECONDS
    while True:
        try:
            return change_facts(client, facts, changed)
        except RedisFullError:
            if time.monotonic() > deadline:
                raise
            time.sleep(FREEING_SECONDS / 100)


def _in_state(
    generations: Iterable[GenerationFacts], state: GenerationState
) -> list[GenerationFacts]:
    return [facts for facts in generations if facts.state is state]


def _unlink(client: RedisClient, generation: int) -> None:
    """Unlink the sets that the indexes name, then remove their names from the indexes."""
    # One pipe for all shards: Redis unlinks while the next names are read.
    with ShardPipe(client) as pipe:
        for start in range(0, SHARD_COUNT, SHARDS_AT_ONCE):
            shards = range(start, min(start + SHARDS_AT_ONCE, SHARD_COUNT))
            of_shard, peids = read_index(client, generation, shards)
            keys = packed_words(membership_keys(generation, of_shard, peids))
            numbers = packed_words(peids)
            for shard, first, last in shard_runs(of_shard):
                index = shard_index_key(generation, shard)
                for at in range(first, last, KEYS_IN_COMMAND):
                    after = min(at + KEYS_IN_COMMAND, last)
                    unlink = packed_onto(("UNLINK",), keys.part(at, after), after - at)
                    drop = packed_onto(("SREM", index), numbers.part(at, after), after - at)
                    pipe.submit(shard, unlink + drop, 2)


class BackgroundSweep:
    """Removes replaced generations in a thread, when the grace time is over.

    The thread ends with the process. Without a caller that waits for it, the next push or a broker
    removes them.
    """

    def __init__(self, client: RedisClient, retention: Retention) -> None:
        self._client = client
        self._retention = retention
        self._removed: list[int] = []
        self._error: SpapsError | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweep", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Return whether the thread still has something to remove."""
        return self._thread.is_alive()

    def wait(self) -> tuple[int, ...]:
        """Wait for the end; return the generations that were removed."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return tuple(self._removed)

    def cancel(self) -> None:
        """Stop, and leave the rest to the next sweep."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                report = sweep_generations(self._client, self._retention)
                self._removed += report.removed
                if report.wait_seconds is None:
                    return
                wait_seconds = report.wait_seconds + MARGIN_SECONDS
                self._ending.wait(min(wait_seconds, LONGEST_WAIT_SECONDS))
        except SpapsError as error:
            self._error = error
