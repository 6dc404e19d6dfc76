"""A generation out of the one in force: Redis copies its sets, and only differences are sent.

At one per cent of change most of a push would send what Redis holds already. COPY stays inside
the server: an integer set is one block of memory. The copies are then changed, compared and
switched to as in any push; until then nobody sees them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass

from redis.exceptions import RedisError

from redis_link.connection.client import RedisClient
from redis_link.generation.generation_push import GenerationPush, PushSource
from redis_link.generation.generation_store import current_generation
from redis_link.generation.push_report import PushReport, StepClock, report_of
from redis_link.generation.sweep import DEFAULT_RETENTION, Retention
from redis_link.sets.pair_arrays import sorted_distinct
from redis_link.sets.set_copies import Pairs, SetCopies
from redis_link.sets.tally import Tally
from schemas.errors import GenerationError
from schemas.generation import GenerationFacts
from schemas.redis_keys import shard_index_key


@dataclass(frozen=True, slots=True, eq=False)
class PairChanges:
    """What a generation has different from the one it is made of: (peids, subIds)."""

    added: Pairs
    removed: Pairs


def can_copy(client: RedisClient) -> bool:
    """Whether the server knows COPY (Redis 6.2) and lets us use it."""
    source, target = shard_index_key(0, 0), shard_index_key(0, 0) + ":copy"
    try:
        client.copy(source, target)
    except RedisError:
        return False
    return True


def push_changes(
    client: RedisClient,
    source: PushSource,
    base: GenerationFacts,
    changes: PairChanges,
    *,
    retention: Retention = DEFAULT_RETENTION,
    say: Callable[[str], None] = lambda _: None,
    before_switch: Callable[[int], None] = lambda _: None,
) -> PushReport:
    """Make a generation out of ``base``, which must be in force, and switch to it."""
    with closing(GenerationCopy(client, source, base, say)) as copy:
        copy.start()
        copy.prepare(changes)
        return copy.finish(retention, before_switch)


class GenerationCopy:
    """A generation that is copied in a thread, while its differences may still be sought.

    Start, prepare, finish. From ``start`` to ``finish`` or ``close`` it holds the push lock, as
    every push does.
    """

    def __init__(
        self,
        client: RedisClient,
        source: PushSource,
        base: GenerationFacts,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._base = base
        self._say = say
        self._push = GenerationPush(client, source)
        self._open = ExitStack()
        self._copying: Future[SetCopies] | None = None
        self._given_up = threading.Event()
        self._clock = StepClock()
        self._compared: tuple[Tally, Tally] | None = None

    def start(self) -> None:
        """Take the lock and begin to copy; GenerationError when the base is not in force."""
        self._open.enter_context(self._push)
        current = current_generation(self._client)
        if current is None or current != self._base:
            raise GenerationError(
                f"generation {self._base.generation} is no longer the one that was compared with"
            )
        generation = self._push.ticket.generation
        self._say(f"generation {generation}: copying generation {self._base.generation}")
        thread = self._open.enter_context(ThreadPoolExecutor(1, "generation-copy"))
        self._copying = thread.submit(self._copied, generation)

    def prepare(self, changes: PairChanges) -> None:
        """Apply the differences and read back what came of it; nobody sees it yet."""
        if self._copying is None:
            raise GenerationError("nothing is being copied")
        clock = self._clock
        clock.skip()
        copy = self._copying.result()
        clock.lap("copy")
        added, removed = sorted_distinct(*changes.added), sorted_distinct(*changes.removed)
        self._say(
            f"generation {copy.generation}: {len(added[0]):,} pairs more, {len(removed[0]):,} less"
        )
        copy.apply(added, removed)
        clock.lap("write")
        self._compared = copy.compared(added, removed)
        clock.lap("verify")

    def finish(
        self,
        retention: Retention,
        before_switch: Callable[[int], None],
        commit: int | None = None,
    ) -> PushReport:
        """Switch, if Redis holds what it should; ``commit`` as in ``PushSource``."""
        if self._compared is None:
            raise GenerationError("nothing is prepared to be switched to")
        self._clock.skip()
        before_switch(self._push.ticket.generation)
        self._push.switch(*self._compared, commit)
        self._clock.lap("switch")
        self.close()
        return report_of(self._client, self._push, self._clock.seconds, retention)

    def close(self) -> None:
        """Give the lock back; what was not switched to is removed."""
        self._given_up.set()
        self._open.close()

    def _copied(self, generation: int) -> SetCopies:
        copy = SetCopies(self._client, self._base, generation)
        copy.copy_sets(self._given_up)
        return copy
