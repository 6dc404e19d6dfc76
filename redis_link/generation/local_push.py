"""A push by one process, without Spark: for small worlds, tests and tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import numpy as np

from redis_link.connection.client import RedisClient
from redis_link.generation.fenced_writer import fenced_writer
from redis_link.generation.generation_push import GenerationPush, PushSource
from redis_link.generation.push_report import PushReport, StepClock, report_of
from redis_link.generation.sweep import DEFAULT_RETENTION, Retention
from redis_link.sets.pair_arrays import by_block
from redis_link.sets.set_reader import read_shards
from redis_link.sets.tally import Int64s, Tally
from schemas.errors import GenerationError
from schemas.redis_keys import SHARD_COUNT

PAIRS_IN_BLOCK: Final = 250_000


def push_pairs(
    client: RedisClient,
    source: PushSource,
    blocks: Iterable[tuple[Int64s, Int64s]],
    *,
    retention: Retention = DEFAULT_RETENTION,
    say: Callable[[str], None] = lambda _: None,
    before_switch: Callable[[int], None] = lambda _: None,
) -> PushReport:
    """Push (peids, subIds) as a new generation and switch to it; all pairs fit into memory.

    ``before_switch`` gets the number of the generation when everything is written and compared.
    """
    clock = StepClock()
    with GenerationPush(client, source) as push:
        generation = push.ticket.generation
        say(f"generation {generation}: writing")
        expected = Tally()
        with fenced_writer(client, push.ticket) as writer:
            for peids, sub_ids in whole_peids(blocks):
                expected += writer.write(peids, sub_ids)
        clock.lap("write")
        say(f"generation {generation}: {expected.pairs:,} pairs written, reading back")
        parts = read_shards(client, generation, range(SHARD_COUNT))
        found = sum((members.tally() for members in parts), Tally())
        clock.lap("verify")
        before_switch(generation)
        push.switch(expected, found)
        clock.lap("switch")
    return report_of(client, push, clock.seconds, retention)


def whole_peids(blocks: Iterable[tuple[Int64s, Int64s]]) -> Iterator[tuple[Int64s, Int64s]]:
    """The same pairs in other blocks, in which all pairs of a peid stand together."""
    parts = list(blocks)
    if not parts:
        return
    peids = np.concatenate([part for part, _ in parts])
    sub_ids = np.concatenate([part for _, part in parts])
    if len(peids) and min(peids.min(), sub_ids.min()) < 0:
        raise GenerationError("peids and subIds are 0 or above")
    count = min(max(-(-len(peids) // PAIRS_IN_BLOCK), 1), SHARD_COUNT)
    for _, block_peids, block_sub_ids in by_block(peids, sub_ids, count):
        yield block_peids, block_sub_ids
