"""Reads membership sets in mode ``redis``: all that one chunk of input needs, in one round trip.

Each answer also has the pointer to the current generation. While another generation is being
adopted, the old sets may still be read. Their facts, read after the sets, say whether the sets were
whole: a sweep changes the facts before it removes the first set.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from redis.crc import key_slot

from broker.filter.memberships import Slots
from broker.filter.memberships_redis import RedisMemberships
from broker.ports import StoreAwayError
from redis_link.connection.failures import is_wrong_type
from redis_link.connection.redis_connection import RedisReplyError, first_answer, pack
from redis_link.connection.redis_router import RedisRouter
from schemas.errors import REPAIR_ADVICE, GenerationError, RedisLinkError
from schemas.generation import GenerationFacts, GenerationState
from schemas.redis_keys import (
    current_generation_key,
    generations_key,
    membership_key,
    shard_index_key,
    shard_of,
)

ATTEMPTS: Final = 3
# How long a look-up waits for the generation that is being adopted, when the old one is removed.
ADOPTION_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 0.05
LOADED_AGAIN: Final = "memberships are being loaded again"


class RedisReader:
    """A ``MembershipReader``. ``slots_by_sub_id`` belongs to the core; event loop only."""

    def __init__(
        self,
        router: RedisRouter,
        memberships: RedisMemberships,
        slots_by_sub_id: Callable[[], Mapping[int, int]],
        on_change: Callable[[], None],
        on_damage: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``on_change`` is called when another generation than ours is in force.

        ``on_damage`` is called with a description when Redis has lost sets.
        """
        self._router = router
        self._memberships = memberships
        self._slots_by_sub_id = slots_by_sub_id
        self._on_change = on_change
        self._on_damage = on_damage
        # Counted for metrics.
        self.round_trips = 0
        self.sets_read = 0
        self.read_seconds = 0.0

    async def look_up(self, peids: Sequence[int]) -> Mapping[int, Slots]:
        """Return the slots of each peid; StoreAwayError when they cannot be read."""
        for _ in range(ATTEMPTS):
            generation = self._memberships.generation
            if generation is None:
                return {peid: self._memberships.look_up(peid) or () for peid in peids}
            asked_at = time.monotonic()
            try:
                sets, current = await self._read(generation, peids)
                await self._check_empty(generation, peids, sets)
                is_whole = await self._is_whole(generation, current)
                self.read_seconds += time.monotonic() - asked_at
            except RedisReplyError as error:
                if is_wrong_type(error):
                    damage = f"generation {generation} has keys of the wrong kind{REPAIR_ADVICE}"
                    self._on_damage(damage)
                    raise StoreAwayError(damage) from error
                self._router.note(error)
                failure: RedisLinkError = error
                continue
            except (RedisLinkError, GenerationError) as error:
                raise StoreAwayError(f"memberships cannot be read: {error}") from error
            if not is_whole:
                await self._wait_for_another(generation)
            if generation != self._memberships.generation:
                failure = RedisLinkError("the generation changed")
                continue
            slots_of = self._slots_by_sub_id()
            found = {
                peid: sorted(slots_of[number] for number in map(int, members) if number in slots_of)
                for peid, members in zip(peids, sets, strict=True)
            }
            return self._memberships.keep(generation, found)
        raise StoreAwayError(f"memberships cannot be read: {failure}")

    async def _is_whole(self, generation: int, current: bytes | None) -> bool:
        """Return whether nothing of a generation was removed before its sets were read."""
        if current is not None and int(current) == generation:
            return True
        self._on_change()
        if current is None:
            raise StoreAwayError(LOADED_AGAIN)
        text = await self._router.ask(generations_key(), "HGET", generations_key(), str(generation))
        return (
            isinstance(text, bytes)
            and GenerationFacts.from_json(generation, text).state is GenerationState.COMPLETE
        )

    async def _wait_for_another(self, generation: int) -> None:
        """Wait until another generation is adopted; StoreAwayError when that takes too long."""
        end = time.monotonic() + ADOPTION_SECONDS
        while generation == self._memberships.generation:
            if time.monotonic() > end:
                raise StoreAwayError(LOADED_AGAIN)
            await asyncio.sleep(LOOK_SECONDS)

    async def _check_empty(
        self, generation: int, peids: Sequence[int], sets: list[list[bytes]]
    ) -> None:
        """Raise when a set is empty but the index names it: then Redis has lost it."""
        empty = [peid for peid, members in zip(peids, sets, strict=True) if not members]
        asked = [
            self._router.ask(key, "SISMEMBER", key, peid)
            for peid in empty
            for key in [shard_index_key(generation, shard_of(peid))]
        ]
        lost = [peid for peid, is_named in zip(empty, await asyncio.gather(*asked), strict=True)
                if is_named]  # fmt: skip
        # The sets of a generation that is being removed go before its index.
        if lost and await self._is_current(generation):
            damage = f"generation {generation} has lost the set of entity {lost[0]}{REPAIR_ADVICE}"
            self._on_damage(damage)
            raise StoreAwayError(damage)

    async def _is_current(self, generation: int) -> bool:
        key = current_generation_key()
        return bool(await self._router.ask(key, "GET", key) == str(generation).encode())

    async def _read(
        self, generation: int, peids: Sequence[int]
    ) -> tuple[list[list[bytes]], bytes | None]:
        """Return the sets in the order of the peids, and the generation that was current after."""
        self.round_trips += 1
        self.sets_read += len(peids)
        keys = [membership_key(generation, peid) for peid in peids]
        pointer = pack("GET", current_generation_key())
        if not self._router.is_cluster:
            connection = await self._router.of_hash_slot(0)
            packed = b"".join([*(pack("SMEMBERS", key) for key in keys), pointer])
            answers = await connection.send(packed, len(keys) + 1)
            first_answer(answers)
            return answers[:-1], answers[-1]
        by_slot: dict[int, list[int]] = {}
        for place, key in enumerate(keys):
            by_slot.setdefault(key_slot(key.encode()), []).append(place)
        parts = await asyncio.gather(
            *(self._read_slot(slot, [keys[place] for place in places])
              for slot, places in by_slot.items())
        )  # fmt: skip
        sets: list[Any] = [None] * len(keys)
        for places, part in zip(by_slot.values(), parts, strict=True):
            for place, members in zip(places, part, strict=True):
                sets[place] = members
        current = await self._router.ask(current_generation_key(), "GET", current_generation_key())
        return sets, current

    async def _read_slot(self, slot: int, keys: list[str]) -> list[list[bytes]]:
        connection = await self._router.of_hash_slot(slot)
        answers = await connection.send(b"".join(pack("SMEMBERS", key) for key in keys), len(keys))
        first_answer(answers)
        return answers
