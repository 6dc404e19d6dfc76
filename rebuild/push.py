"""Pushes the members of a rebuild into Redis: only the differences where they are few."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

from rebuild.base import PushedBase
from rebuild.set_changes import SetChanges
from redis_link.connection.client import RedisClient
from redis_link.generation.generation_push import PushReport, PushSource
from redis_link.generation.generation_store import keep_changes
from redis_link.generation.local_push import can_copy, push_changes, push_pairs
from redis_link.generation.quality_gate import QualityGate
from redis_link.generation.sweep import Retention
from redis_link.sets.pair_arrays import Pairs
from schemas.errors import GenerationError, PushBusyError
from world.memberships.resolved_sets import ResolvedSets

# A copied pair costs a fraction of one that is sent; above this share both cost the same.
MOST_DIFFERENT: Final = 0.5


def push_members(  # noqa: PLR0913 - what a push is made of
    client: RedisClient,
    base: PushedBase | None,
    source: PushSource,
    result: ResolvedSets,
    *,
    retention: Retention,
    say: Callable[[str], None],
    full: bool = False,
    gate: QualityGate | None = None,
) -> tuple[PushReport, str]:
    """Push and switch; return the report, and how it was done: ``changes`` or ``all``.

    The result is compared with ``base``, the generation in force, and what changed for each
    subscription is kept for brokers. ``full``: everything is sent even if little is different.
    ``gate`` may refuse the switch.
    """

    @cache
    def compared() -> SetChanges | None:
        return None if base is None else SetChanges(base.result, result)

    def keep(generation: int) -> None:
        if (changes := compared()) is not None:
            keep_changes(client, generation, changes.by_subscription())

    if base is not None and not full and can_copy(client):
        try:
            report = push_changes(
                client, source, base.facts, lambda: _few_changes(compared()),
                retention=retention, say=say, before_switch=keep, gate=gate,
            )  # fmt: skip
        except PushBusyError:
            raise
        except GenerationError as error:
            say(f"pushing everything instead: {error}")
        else:
            return report, "changes"
    pairs = _pairs(result)
    report = push_pairs(
        client, source, pairs, retention=retention, say=say, before_switch=keep, gate=gate
    )
    return report, "all"


def _few_changes(compared: SetChanges | None) -> tuple[Pairs, Pairs]:
    """Return the pairs to add and to remove; GenerationError when they are too many."""
    if compared is None or compared.changed_pairs() > MOST_DIFFERENT * compared.new_pairs():
        raise GenerationError("most pairs are different")
    return compared.pairs_to_add(), compared.pairs_to_remove()


def _pairs(result: ResolvedSets) -> Iterator[Pairs]:
    for sub_ids, peids, _ in result.memberships():
        yield peids, sub_ids
