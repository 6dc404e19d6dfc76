"""Starts a loader process, sends it a request, and receives the table that it builds.

The loader reads the rows of a generation for the subscriptions that this broker had when the
adoption began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker.core.subscribe.subscription import Subscription, SubscriptionTerms
from broker.filter.generation_builder import RegionBlock, TableAssembly
from broker.filter.peid_table import PeidTable, SlotArray
from broker.resolver.frames import FrameError
from broker.resolver.helper_process import HelperProcess
from redis_link.connection.url import RedisUrl
from schemas.errors import DamagedRedisError, GenerationError
from spatial_udfs.entity_table import Int64s

# Subscriptions handled per turn of the event loop: about a millisecond.
LOOKED_AT_ONCE: Final = 4_000

# Regions copied per turn of the event loop: some hundred microseconds.
REGIONS_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True, eq=False)
class SubscriptionSnapshot:
    """The subscriptions of this broker: ``sub_ids`` (ascending) with ``slots`` are covered."""

    sub_ids: Int64s
    slots: SlotArray
    # Slot and terms of each subscription that the generation does not hold.
    late: list[tuple[int, SubscriptionTerms]]
    _every: Iterable[Subscription] = field(repr=False)

    def covers(self, number: int) -> bool:
        """Return whether the generation holds a subId."""
        at = int(np.searchsorted(self.sub_ids, number))
        return at < len(self.sub_ids) and int(self.sub_ids[at]) == number

    def without_rows(self, counts: NDArray[np.uint32], after: int) -> set[int]:
        """Return the subIds above ``after`` whose slots have no members."""
        absent = (counts[self.slots] == 0) & (self.sub_ids > after)
        return set(self.sub_ids[absent].tolist())

    def descriptors(self, numbers: Collection[int], most: int) -> dict[int, str]:
        """Return the descriptors of given covered subIds, at most ``most``."""
        asked = np.sort(np.fromiter(numbers, np.int64, len(numbers)))
        places = np.searchsorted(self.sub_ids, asked)
        known = places < len(self.sub_ids)
        known[known] = self.sub_ids[places[known]] == asked[known]
        wanted = set(asked[known][:most].tolist())
        if not wanted:
            return {}
        return {
            sub_id: descriptor
            for one in self._every
            if (sub_id := one.terms.sub_id) is not None
            and sub_id in wanted
            and (descriptor := one.terms.descriptor) is not None
        }


async def subscription_snapshot(
    every: Iterable[Subscription], up_to: int, arrived: Collection[int]
) -> SubscriptionSnapshot:
    """Split the subscriptions in force by whether the generation holds them, some per turn.

    A subscription that ends meanwhile does no harm: its slot is dead at the switch. ``arrived``
    are slots that were given since the adoption began: the builder has those already, also when
    such a subscription replaced an older one.
    """
    found: list[tuple[Int64s, SlotArray]] = []
    late: list[tuple[int, SubscriptionTerms]] = []
    in_force = iter(every)
    while some := list(islice(in_force, LOOKED_AT_ONCE)):
        numbers: list[int] = []
        slots: list[int] = []
        for one in some:
            slot, terms = one.slot, one.terms
            if terms.sub_id is None or slot < 0 or slot in arrived:
                continue
            if terms.sub_id > up_to:
                late.append((slot, terms))
            else:
                numbers.append(terms.sub_id)
                slots.append(slot)
        found.append((np.array(numbers, np.int64), np.array(slots, np.uint32)))
        await asyncio.sleep(0)
    sub_ids = np.concatenate([np.empty(0, np.int64), *(numbers for numbers, _ in found)])
    of_slots = np.concatenate([np.empty(0, np.uint32), *(slots for _, slots in found)])
    order = np.argsort(sub_ids)
    return SubscriptionSnapshot(sub_ids[order], of_slots[order], late, every)


@dataclass(frozen=True, slots=True, eq=False)
class LoadRequest:
    """A request to a loader.

    ``generation``: read its rows of the ``own`` subIds, if ``wants_rows``, and compare them with
    the rows of ``before``, if given. ``late`` pairs are entered beside them.
    """

    address: RedisUrl
    generation: int | None
    wants_rows: bool
    before: int | None
    own: SubscriptionSnapshot
    late: tuple[Int64s, SlotArray]


@dataclass(frozen=True, slots=True, eq=False)
class LoadResult:
    """The table of a loader, and the number of members by slot.

    Also the members gained and lost by subId, if both generations could be read.
    """

    table: PeidTable
    counts: NDArray[np.uint32]
    # Whether the table holds the rows of the generation.
    has_rows: bool
    compared: tuple[Int64s, Int64s] | None


async def load_generation(wanted: LoadRequest) -> LoadResult:
    """Load in a separate process; GenerationError when that fails."""
    process = await HelperProcess.start("broker.generations.loader_worker")
    header = {
        "address": asdict(wanted.address), "generation": wanted.generation,
        "wants_rows": wanted.wants_rows, "before": wanted.before,
    }  # fmt: skip
    try:
        await process.send_arrays(header, wanted.own.sub_ids, wanted.own.slots, *wanted.late)
        return await _receive(process, has_rows=wanted.wants_rows)
    except (EOFError, OSError, FrameError) as error:
        raise GenerationError("the loader process ended before it was done") from error
    finally:
        await process.stop()


async def _receive(process: HelperProcess, *, has_rows: bool) -> LoadResult:
    assembly = TableAssembly()
    while True:
        header, arrays = await process.receive()
        if "failed" in header:
            kind = DamagedRedisError if header.get("damaged") else GenerationError
            raise kind(header["failed"])
        if "ended" in header:
            counts, gained, lost = arrays
            compared = (gained, lost) if header["compared"] else None
            return LoadResult(assembly.finish(counts), counts, has_rows, compared)
        for piece in _pieces(RegionBlock(*arrays)):
            assembly.add(piece)
            # Messages of clients are handled in between.
            await asyncio.sleep(0)


def _pieces(block: RegionBlock) -> list[RegionBlock]:
    """Return the block split into parts of a fixed number of regions."""
    bounds = [0, *np.cumsum(block.sizes).tolist()]
    pieces = []
    for start in range(0, len(block.starts), REGIONS_AT_ONCE):
        stop = min(start + REGIONS_AT_ONCE, len(block.starts))
        pairs = slice(bounds[start], bounds[stop])
        pieces.append(
            RegionBlock(
                block.starts[start:stop],
                block.sizes[start:stop],
                block.peids[pairs],
                block.slots[pairs],
            )
        )
    return pieces
