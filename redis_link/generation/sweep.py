"""Removing generations that nobody may read any more: in small steps, with UNLINK.

What is removed: those that no push completed, and those that another one replaced, when the
grace time is over that readers have to change over. Facts of a removed one stay for some minutes:
a writer that was cut off from its killed job may have written a little more meanwhile, and
what the index of a shard names is found and removed by a later sweep.
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


@dataclass(frozen=True, slots=True)
class Retention:
    """How long readers may stay on a replaced generation, and how many stay for a rollback."""

    grace_seconds: float = GRACE_SECONDS
    keep: int = 0


DEFAULT_RETENTION: Final = Retention()
# For who may remove only what was never completed.
KEEP_ALL: Final = Retention(grace_seconds=float("inf"))


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What a sweep did, and when the next one has something to do."""

    removed: tuple[int, ...]
    wait_seconds: float | None


def sweep_generations(
    client: RedisClient, retention: Retention, *, building_is_dead: bool = False
) -> SweepReport:
    """Remove what may be removed.

    Only the holder of the push lock may say that what is being built is dead.
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
    """Remove a generation that is not current; False when it became so, or somebody was faster.

    The state changes first: from then on nobody can switch to it, and whoever finds it so goes
    on where we were killed.
    """
    removing = replace(facts, state=GenerationState.REMOVING)
    try:
        if not change_facts(client, facts, removing):
            return False
    except RedisFullError:
        # Even a state cannot be written before something is removed. Nor can anybody switch.
        if not facts_are(client, facts):
            return False
        removing = facts
    _unlink(client, facts.generation)
    removed = replace(removing, state=GenerationState.REMOVED, retired_at=server_time(client))
    return _change_when_freed(client, removing, removed)


def _change_when_freed(
    client: RedisClient, facts: GenerationFacts, changed: GenerationFacts
) -> bool:
    """Redis gives memory back in a thread of its own: at its limit it may take a moment."""
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
    """Unlink the sets that the indexes name; an index loses only what was unlinked."""
    # One pipe for all: Redis unlinks while the next names are read and written down.
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


# Late enough to be past the grace time in spite of rounding.
MARGIN_SECONDS: Final = 0.05


class BackgroundSweep:
    """Removes what was replaced, when the grace time is over.

    The thread ends with the process: who does not wait for it leaves the work to the next push
    or to a broker.
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
        """Whether something is still to be removed."""
        return self._thread.is_alive()

    def wait(self) -> tuple[int, ...]:
        """Wait for the end; the generations that were removed."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return tuple(self._removed)

    def cancel(self) -> None:
        """Leave the rest to somebody else."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                report = sweep_generations(self._client, self._retention)
                self._removed += report.removed
                if report.wait_seconds is None:
                    return
                self._ending.wait(report.wait_seconds + MARGIN_SECONDS)
        except SpapsError as error:
            self._error = error
