"""Pushes by one process, without Spark: all pairs, or what differs from the generation in force."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
from redis.exceptions import RedisError

from redis_link.connection.client import RedisClient
from redis_link.generation.generation_losses import LossCounter, loss_base, read_back
from redis_link.generation.generation_push import (
    GenerationPush,
    PushReport,
    PushSource,
    StepClock,
    report_of,
)
from redis_link.generation.generation_store import current_generation
from redis_link.generation.push_lock import fenced_writer
from redis_link.generation.quality_gate import QualityGate, generation_in_force
from redis_link.generation.sweep import DEFAULT_RETENTION, Retention
from redis_link.sets.pair_arrays import (
    Int64s,
    Pairs,
    Tally,
    by_block,
    sorted_distinct,
)
from redis_link.sets.set_writer import SetCopies
from schemas.errors import GenerationError
from schemas.generation import GenerationFacts
from schemas.redis_keys import SHARD_COUNT, shard_index_key

PAIRS_IN_BLOCK: Final = 250_000


def push_pairs(
    client: RedisClient,
    source: PushSource,
    blocks: Iterable[Pairs],
    *,
    retention: Retention = DEFAULT_RETENTION,
    say: Callable[[str], None] = lambda _: None,
    before_switch: Callable[[int], None] = lambda _: None,
    gate: QualityGate | None = None,
) -> PushReport:
    """Push pairs as a new generation and switch to it; all pairs fit into memory.

    ``before_switch`` gets the number of the generation when everything is written and compared.
    ``gate`` may refuse the switch for what the generation would take away.
    """
    clock = StepClock()
    with GenerationPush(client, source) as push:
        generation = push.token.generation
        say(f"generation {generation}: writing")
        expected = Tally()
        with fenced_writer(client, push.token) as writer:
            for peids, sub_ids in whole_peids(blocks):
                expected += writer.write(peids, sub_ids)
        clock.lap("write")
        say(f"generation {generation}: {expected.pairs:,} pairs written, reading back")
        old = None if gate is None else generation_in_force(client)
        base = None if old is None else loss_base(old, source.coverage)
        found, losses = read_back(client, generation, range(SHARD_COUNT), base)
        push.compare(expected, found)
        if gate is not None:
            gate.check_losses(losses, say)
        clock.lap("verify")
        before_switch(generation)
        push.switch(expected, found)
        clock.lap("switch")
    return report_of(client, push, clock.seconds, retention)


def push_changes(  # noqa: PLR0913 - what a push is made of
    client: RedisClient,
    source: PushSource,
    base: GenerationFacts,
    find_changes: Callable[[], tuple[Pairs, Pairs]],
    *,
    retention: Retention = DEFAULT_RETENTION,
    say: Callable[[str], None] = lambda _: None,
    before_switch: Callable[[int], None] = lambda _: None,
    gate: QualityGate | None = None,
) -> PushReport:
    """Make a generation out of ``base``, which must be in force, and switch to it.

    Redis copies the sets of ``base``, and only the differences are sent (docs/decisions/0102).
    ``find_changes`` returns the pairs to add and to remove. It runs while Redis copies, and may
    raise a GenerationError to give the push up.
    """
    clock = StepClock()
    with GenerationPush(client, source) as push:
        if current_generation(client) != base:
            raise GenerationError(
                f"generation {base.generation} is no longer the one that was compared with"
            )
        generation = push.token.generation
        say(f"generation {generation}: copying generation {base.generation}")
        copies = SetCopies(client, base, generation)
        with ThreadPoolExecutor(1, "generation-copy") as thread:
            copying = thread.submit(copies.copy_sets)
            added, removed = (sorted_distinct(*pairs) for pairs in find_changes())
            copying.result()
        clock.lap("copy")
        say(f"generation {generation}: {len(added[0]):,} pairs more, {len(removed[0]):,} less")
        copies.apply(added, removed)
        clock.lap("write")
        expected, found = copies.compared(added, removed)
        push.compare(expected, found)
        if gate is not None:
            counter = LossCounter(client, loss_base(base, source.coverage))
            gate.check_losses(counter.count_changes(base, generation, added, removed), say)
        clock.lap("verify")
        before_switch(generation)
        push.switch(expected, found)
        clock.lap("switch")
    return report_of(client, push, clock.seconds, retention)


def can_copy(client: RedisClient) -> bool:
    """Return whether the server knows COPY (Redis 6.2) and lets us use it."""
    source, target = shard_index_key(0, 0), shard_index_key(0, 0) + ":copy"
    try:
        client.copy(source, target)
    except RedisError:
        return False
    return True


def whole_peids(blocks: Iterable[Pairs]) -> Iterator[Pairs]:
    """Yield the same pairs in other blocks, with all pairs of a peid in one block."""
    parts = list(blocks)
    if not parts:
        return
    peids: Int64s = np.concatenate([part for part, _ in parts])
    sub_ids: Int64s = np.concatenate([part for _, part in parts])
    if len(peids) and min(peids.min(), sub_ids.min()) < 0:
        raise GenerationError("peids and subIds are 0 or above")
    count = min(max(-(-len(peids) // PAIRS_IN_BLOCK), 1), SHARD_COUNT)
    for _, block_peids, block_sub_ids in by_block(peids, sub_ids, count):
        yield block_peids, block_sub_ids
