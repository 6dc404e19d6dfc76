"""The wires to whatever a URL names: one server, Sentinel's master, or the nodes of a cluster.

Wires are opened when they are first needed and again after they broke. Nothing is repeated
here: whoever sent commands on a broken wire knows whether they may run twice.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, Final

from redis.crc import key_slot

from redis_link.connection.connection_opening import Place, open_wire, sentinel_master
from redis_link.connection.redis_connection import RedisConnection, RedisReplyError, Word
from redis_link.connection.url import RedisUrl, Topology, parse_redis_url
from schemas.errors import RedisLinkError

ANSWER_SECONDS: Final = 5.0
# Redis says so when another node has the key: then the layout of the cluster has changed.
ELSEWHERE: Final = frozenset({"MOVED", "ASK", "CLUSTERDOWN", "TRYAGAIN", "READONLY"})


class RedisRouter:
    """All calls come from the event loop."""

    def __init__(self, url: str | RedisUrl, *, answer_seconds: float = ANSWER_SECONDS) -> None:
        self.address = parse_redis_url(url) if isinstance(url, str) else url
        self._answer_seconds = answer_seconds
        self._wires: dict[Place | None, RedisConnection] = {}
        self._opening = asyncio.Lock()
        # Of a cluster: where each range of slots begins, and which node has it.
        self._starts: list[int] = []
        self._holders: list[Place] = []

    @property
    def is_cluster(self) -> bool:
        """Whether keys lie on several nodes."""
        return self.address.topology is Topology.CLUSTER

    async def of_key(self, key: str) -> RedisConnection:
        """The wire to the server that has the key."""
        return await self.of_slot(key_slot(key.encode()) if self.is_cluster else 0)

    async def of_slot(self, slot: int) -> RedisConnection:
        """The wire to the server that has the keys of a cluster's slot."""
        wire = self._wires.get(self._place(slot))
        if wire is not None and wire.is_open:
            return wire
        async with self._opening:
            return await self._open(slot)

    async def ask(self, key: str, *command: Word) -> Any:
        """Send one command to where the key lies; an error of Redis is raised."""
        wire = await self.of_key(key)
        try:
            return await wire.ask(*command)
        except RedisReplyError as error:
            self.note(error)
            raise

    async def listen(self, channel: str, on_notice: Callable[[], None]) -> RedisConnection:
        """A wire of its own that calls ``on_notice`` for each message of a channel."""
        place = await self._any_place()
        wire = await open_wire(self.address, place, self._answer_seconds)
        # Before: a message may follow the answer in the same piece.
        wire.on_push = lambda _message: on_notice()
        await wire.ask("SUBSCRIBE", channel)
        return wire

    def note(self, error: RedisReplyError) -> None:
        """Look for the keys anew when Redis said that they lie elsewhere."""
        if error.code in ELSEWHERE:
            self._starts.clear()
            self._holders.clear()
            if not self.is_cluster:
                self.close()

    def close(self) -> None:
        """Give up all connections; they are opened again when something is asked."""
        for wire in self._wires.values():
            wire.close()
        self._wires.clear()

    def _place(self, slot: int) -> Place | None:
        if not self._starts:
            return None
        return self._holders[bisect_right(self._starts, slot) - 1]

    async def _any_place(self) -> Place | None:
        """A server that hears all channels: in a cluster every node does."""
        if self.address.topology is Topology.SENTINEL:
            return await sentinel_master(self.address, self._answer_seconds)
        if self.is_cluster:
            await self.of_slot(0)
            return self._place(0)
        return None

    async def _open(self, slot: int) -> RedisConnection:
        """Open the wire that is lacking, unless somebody else did while we waited."""
        address = self.address
        if self.is_cluster and not self._starts:
            await self._learn_layout()
        place = self._place(slot)
        wire = self._wires.get(place)
        if wire is not None and wire.is_open:
            return wire
        try:
            target = place
            if address.topology is Topology.SENTINEL:
                target = await sentinel_master(address, self._answer_seconds)
            wire = await open_wire(address, target, self._answer_seconds)
        except RedisLinkError:
            # A node that is gone may have left its slots to another.
            self._starts.clear()
            self._holders.clear()
            raise
        self._wires[place] = wire
        return wire

    async def _learn_layout(self) -> None:
        """Ask the first node that answers who has which slots."""
        known = [place for place in self._wires if place is not None]
        failures = []
        for place in dict.fromkeys([*known, *self.address.hosts]):
            try:
                wire = self._wires.get(place)
                if wire is None or not wire.is_open:
                    wire = self._wires[place] = await open_wire(
                        self.address, place, self._answer_seconds
                    )
                ranges = await wire.ask("CLUSTER", "SLOTS")
            except RedisLinkError as error:
                failures.append(str(error))
                continue
            if ranges:
                self._use_layout(ranges, place)
                return
            failures.append(f"{place[0]}:{place[1]} has no slots")
        raise RedisLinkError(f"Redis {self.address}: {'; '.join(failures)}")

    def _use_layout(self, ranges: list[Any], asked: Place) -> None:
        parts = sorted((first, holder) for first, _, holder, *_ in ranges)
        self._starts = [first for first, _ in parts]
        # A node that does not know its own address leaves it empty: it is the one we asked.
        self._holders = [(host.decode() or asked[0], port) for _, (host, port, *_) in parts]
        for place in [place for place in self._wires if place not in self._holders]:
            self._wires.pop(place).close()
