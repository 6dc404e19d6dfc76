"""The loader process: reads a generation for a broker and sends it in blocks.

It is a separate process, because reading and sorting millions of pairs in a thread would hold the
interpreter lock while messages wait. It runs with lower priority and ends after one generation, or
when the broker closes its end of the socket. It frees each block after sending it, so that
both processes together hold little more than one generation.

Input: a header and arrays of own subIds, their slots, and pairs to enter beside the rows. Output:
blocks of regions in the order of their residues, then one last frame with counts.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from broker.filter.generation_builder import cut_into_regions
from broker.filter.peid_table import RESIDUES, SlotArray
from broker.resolver.frames import frame_parts, read_frame
from redis_link.connection.client import RedisClient, connect
from redis_link.connection.failures import is_wrong_type
from redis_link.connection.url import RedisUrl, Topology
from redis_link.generation.generation_store import require_complete
from redis_link.sets.pair_arrays import Members
from redis_link.sets.set_reader import read_shards
from schemas.errors import DamagedRedisError, GenerationError, SpapsError
from schemas.redis_keys import SHARD_COUNT
from spatial_udfs.entity_table import Int64s

NICENESS: Final = 10
# Number of residue ranges, each one block: some ten thousand pairs of a large generation.
BUCKETS: Final = 1_024
# Pairs that are collected before they are distributed to the buckets.
SPREAD_AT: Final = 2_000_000
SHARDS_AT_ONCE: Final = 8


class Comparison:
    """Counts the members gained and lost for each of ``sub_ids`` (ascending)."""

    def __init__(self, sub_ids: Int64s) -> None:
        self._sub_ids = sub_ids
        self.gained = np.zeros(len(sub_ids), np.int64)
        self.lost = np.zeros(len(sub_ids), np.int64)

    def add(self, new: Sequence[Members], old: Sequence[Members]) -> None:
        """Compare the same shards of both generations."""
        every = [members.peids for members in (*new, *old)]
        peids = np.unique(np.concatenate([np.empty(0, np.int64), *every]))
        present = self._keys(peids, new)
        before = self._keys(peids, old)
        size = len(self._sub_ids)
        for total, keys in (
            (self.gained, np.setdiff1d(present, before, assume_unique=True)),
            (self.lost, np.setdiff1d(before, present, assume_unique=True)),
        ):
            np.add(total, np.bincount(keys % max(size, 1), minlength=size), out=total)

    def _keys(self, peids: Int64s, parts: Sequence[Members]) -> Int64s:
        """Return one integer for each pair of an entity and one of the subscriptions."""
        keys = [np.empty(0, np.int64)]
        for members in parts:
            of_pair = np.repeat(members.peids, np.diff(members.offsets))
            places = np.searchsorted(self._sub_ids, members.sub_ids)
            places[places == len(self._sub_ids)] = 0
            is_own = self._sub_ids[places] == members.sub_ids
            at = np.searchsorted(peids, of_pair[is_own])
            keys.append(at * len(self._sub_ids) + places[is_own])
        return np.concatenate(keys)


class OwnRows:
    """The subIds of this broker (ascending), and their slots."""

    def __init__(self, sub_ids: Int64s, slots: SlotArray) -> None:
        self._sub_ids = sub_ids
        self._slots = slots

    def of(self, members: Members) -> tuple[Int64s, SlotArray]:
        """Return the (peid, slot) pairs of this broker in some sets."""
        peids = np.repeat(members.peids, np.diff(members.offsets))
        places = np.searchsorted(self._sub_ids, members.sub_ids)
        places[places == len(self._sub_ids)] = 0
        is_own = self._sub_ids[places] == members.sub_ids
        return peids[is_own], self._slots[places[is_own]]


class Buckets:
    """Pairs by residue range."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Int64s, SlotArray]] = []
        self._waiting_pairs = 0
        self._parts: list[list[tuple[Int64s, SlotArray]]] = [[] for _ in range(BUCKETS)]

    def add(self, peids: Int64s, slots: SlotArray) -> None:
        """Add pairs."""
        if not len(peids):
            return
        self._waiting.append((peids, slots))
        self._waiting_pairs += len(peids)
        if self._waiting_pairs >= SPREAD_AT:
            self._spread()

    def _spread(self) -> None:
        peids = np.concatenate([peids for peids, _ in self._waiting])
        slots = np.concatenate([slots for _, slots in self._waiting])
        self._waiting, self._waiting_pairs = [], 0
        buckets = peids % RESIDUES * BUCKETS // RESIDUES
        order = np.argsort(buckets, kind="stable")
        bounds = np.searchsorted(buckets[order], np.arange(BUCKETS + 1))
        for bucket, part in enumerate(self._parts):
            chosen = order[bounds[bucket] : bounds[bucket + 1]]
            if len(chosen):
                part.append((peids[chosen], slots[chosen]))

    def hand_over(self, file: BinaryIO) -> None:
        """Write all blocks in order; each is freed after it is written."""
        if self._waiting:
            self._spread()
        for part in self._parts:
            if part:
                peids = np.concatenate([peids for peids, _ in part])
                slots = np.concatenate([slots for _, slots in part])
                part.clear()
                block = cut_into_regions(peids, slots)
                file.writelines(
                    frame_parts({}, block.starts, block.sizes, block.peids, block.slots)
                )


def load(given: dict[str, Any], arrays: list[NDArray[Any]], file: BinaryIO) -> None:
    """Load and compare as requested, and write the result to ``file``."""
    sub_ids, own_slots, late_peids, late_slots = arrays
    rows = OwnRows(sub_ids, own_slots)
    buckets = Buckets()
    counts = np.zeros(int(max(own_slots.max(initial=0), late_slots.max(initial=0))) + 1, np.int64)

    def enter(peids: Int64s, slots: SlotArray) -> None:
        np.add(counts, np.bincount(slots, minlength=len(counts)), out=counts)
        buckets.add(peids, slots)

    enter(late_peids, late_slots)
    compared = Comparison(sub_ids)
    generation, before = given["generation"], given["before"]
    if generation is not None and len(sub_ids):
        with closing(connect(_address(given["address"]))) as client:
            expected = require_complete(client, generation)
            if not _is_complete(client, before):
                before = None
            pairs = 0
            wanted = [generation] if before is None else [generation, before]
            for start in range(0, SHARD_COUNT, SHARDS_AT_ONCE):
                shards = range(start, min(start + SHARDS_AT_ONCE, SHARD_COUNT))
                found = [list(read_shards(client, one, shards)) for one in wanted]
                for members in found[0]:
                    pairs += len(members.sub_ids)
                    if given["wants_rows"]:
                        enter(*rows.of(members))
                if before is not None:
                    compared.add(found[0], found[1])
            # A generation that is removed meanwhile would look smaller than it was.
            require_complete(client, generation)
            if pairs != expected.pairs:
                raise DamagedRedisError(
                    f"generation {generation} has {pairs:,} pairs in Redis instead of the "
                    f"{expected.pairs:,} that were pushed"
                )
            if not _is_complete(client, before):
                before = None
    buckets.hand_over(file)
    ended = {"ended": True, "compared": before is not None}
    file.writelines(frame_parts(ended, counts.astype(np.uint32), compared.gained, compared.lost))


def _is_complete(client: RedisClient, generation: int | None) -> bool:
    """Return whether the generation to compare with is still complete."""
    if generation is None:
        return False
    try:
        require_complete(client, generation)
    except GenerationError:
        return False
    return True


def _address(content: dict[str, Any]) -> RedisUrl:
    """Return the address of Redis that the broker sent."""
    hosts = tuple((host, port) for host, port in content["hosts"])
    return RedisUrl(**{**content, "hosts": hosts, "topology": Topology(content["topology"])})


def main() -> None:
    """Load one generation for the process at the other end of the socket."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", type=int, required=True)
    handle = parser.parse_args().socket
    # The broker decides when this process ends; a Ctrl-C in the terminal reaches both.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    with socket.socket(fileno=handle) as link, suppress(EOFError, BrokenPipeError):
        # Suppressed: the broker has ended, or no longer needs the result.
        with link.makefile("rb") as requests:
            given, arrays = read_frame(requests)
        with link.makefile("wb") as answers:
            try:
                load(given, arrays, answers)
            except SpapsError as error:
                is_damaged = isinstance(error, DamagedRedisError) or is_wrong_type(error)
                answers.writelines(frame_parts({"failed": str(error), "damaged": is_damaged}))


if __name__ == "__main__":
    main()
