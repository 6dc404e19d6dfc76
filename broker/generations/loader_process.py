"""The broker's end of a loader process: what it hands over becomes a table, block by block."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker.filter.generation_builder import RegionBlock, TableAssembly
from broker.filter.peid_table import PeidTable, SlotArray
from broker.resolver.frames import FrameError
from broker.resolver.helper_process import HelperProcess
from redis_link.connection.url import RedisUrl
from schemas.errors import DamagedRedisError, GenerationError
from spatial_udfs.entity_table import Int64s

# Regions that are copied before others get their turn: some hundred microseconds.
REGIONS_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """What a loader is asked for; ``sub_ids`` ascend and have the same order as ``slots``.

    ``generation``: read its rows of these subIds, if ``wants_rows``, and compare them with those
    of the generation ``before``, if one is given. ``late`` pairs are entered beside them.
    """

    address: RedisUrl
    generation: int | None
    wants_rows: bool
    before: int | None
    sub_ids: Int64s
    slots: SlotArray
    late: tuple[Int64s, SlotArray]


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """The table, and how many members it has by slot.

    And for each wanted subId the members gained and lost, if both generations were there.
    """

    table: PeidTable
    counts: NDArray[np.uint32]
    # Whether it holds the rows of the generation.
    has_rows: bool
    compared: tuple[Int64s, Int64s] | None


async def load_generation(wanted: Wanted) -> Loaded:
    """Read in a process of its own; GenerationError when that cannot be done."""
    process = await HelperProcess.start("broker.generations.loader_worker")
    header = {
        "address": asdict(wanted.address), "generation": wanted.generation,
        "wants_rows": wanted.wants_rows, "before": wanted.before,
    }  # fmt: skip
    try:
        await process.send_arrays(header, wanted.sub_ids, wanted.slots, *wanted.late)
        return await _receive(process, has_rows=wanted.wants_rows)
    except (EOFError, OSError, FrameError) as error:
        raise GenerationError("the loader process ended before it was done") from error
    finally:
        await process.stop()


async def _receive(process: HelperProcess, *, has_rows: bool) -> Loaded:
    assembly = TableAssembly()
    while True:
        header, arrays = await process.receive()
        if "failed" in header:
            kind = DamagedRedisError if header.get("damaged") else GenerationError
            raise kind(header["failed"])
        if "ended" in header:
            counts, gained, lost = arrays
            compared = (gained, lost) if header["compared"] else None
            return Loaded(assembly.finish(counts), counts, has_rows, compared)
        for piece in _pieces(RegionBlock(*arrays)):
            assembly.add(piece)
            # Messages of clients come in between.
            await asyncio.sleep(0)


def _pieces(block: RegionBlock) -> list[RegionBlock]:
    """The block in parts of so many regions."""
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
