"""Routes commands of the event loop: to one server, Sentinel's master, or the nodes of a cluster.

A connection is opened when it is first needed, and again after it broke. No command is repeated
here: only the caller knows whether it may run twice.
"""

from __future__ import annotations

import asyncio
import hashlib
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from redis.crc import key_slot

from redis_link.connection.redis_connection import (
    Place,
    RedisConnection,
    RedisReplyError,
    Word,
    open_connection,
    sentinel_master,
)
from redis_link.connection.url import RedisUrl, Topology, parse_redis_url
from schemas.errors import RedisLinkError

ANSWER_SECONDS: Final = 5.0
# Redis says so when another node has the key: then the layout of the cluster has changed.
ELSEWHERE: Final = frozenset({"MOVED", "ASK", "CLUSTERDOWN", "TRYAGAIN", "READONLY"})


@dataclass(frozen=True, slots=True)
class Script:
    """A script and the name that Redis has for it."""

    text: str
    digest: str


def make_script(text: str) -> Script:
    """Return a script with the name that Redis will have for it."""
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


class RedisRouter:
    """Holds the connections of a URL; all calls come from the event loop."""

    def __init__(self, url: str | RedisUrl, *, answer_seconds: float = ANSWER_SECONDS) -> None:
        self.address = parse_redis_url(url) if isinstance(url, str) else url
        self._answer_seconds = answer_seconds
        self._connections: dict[Place | None, RedisConnection] = {}
        self._opening = asyncio.Lock()
        # Of a cluster: where each range of hash slots begins, and which node has it.
        self._starts: list[int] = []
        self._holders: list[Place] = []

    @property
    def is_cluster(self) -> bool:
        """Return whether keys lie on several nodes."""
        return self.address.topology is Topology.CLUSTER

    async def of_key(self, key: str) -> RedisConnection:
        """Return the connection to the server that has the key."""
        return await self.of_hash_slot(key_slot(key.encode()) if self.is_cluster else 0)

    async def of_hash_slot(self, hash_slot: int) -> RedisConnection:
        """Return the connection to the server that has the keys of a cluster's hash slot."""
        connection = self._connections.get(self._place(hash_slot))
        if connection is not None and connection.is_open:
            return connection
        async with self._opening:
            return await self._open(hash_slot)

    async def ask(self, key: str, *command: Word) -> Any:
        """Send one command to the server of the key; an error of Redis is raised."""
        connection = await self.of_key(key)
        try:
            return await connection.ask(*command)
        except RedisReplyError as error:
            self.note(error)
            raise

    async def listen(self, channel: str, on_notice: Callable[[], None]) -> RedisConnection:
        """Open a connection of its own that calls ``on_notice`` for each message of a channel."""
        place = await self._any_place()
        connection = await open_connection(self.address, place, self._answer_seconds)
        # Before SUBSCRIBE: a message may follow its answer in the same piece.
        connection.on_push = lambda _message: on_notice()
        await connection.ask("SUBSCRIBE", channel)
        return connection

    def note(self, error: RedisReplyError) -> None:
        """Forget where keys lie when Redis said that they lie elsewhere."""
        if error.code in ELSEWHERE:
            self._starts.clear()
            self._holders.clear()
            if not self.is_cluster:
                self.close()

    def close(self) -> None:
        """Close all connections; they are opened again when something is asked."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _place(self, hash_slot: int) -> Place | None:
        if not self._starts:
            return None
        return self._holders[bisect_right(self._starts, hash_slot) - 1]

    async def _any_place(self) -> Place | None:
        """Return a server that hears all channels: in a cluster every node does."""
        if self.address.topology is Topology.SENTINEL:
            return await sentinel_master(self.address, self._answer_seconds)
        if self.is_cluster:
            await self.of_hash_slot(0)
            return self._place(0)
        return None

    async def _open(self, hash_slot: int) -> RedisConnection:
        """Open the missing connection, unless another task did while we waited."""
        address = self.address
        if self.is_cluster and not self._starts:
            await self._learn_layout()
        place = self._place(hash_slot)
        connection = self._connections.get(place)
        if connection is not None and connection.is_open:
            return connection
        try:
            target = place
            if address.topology is Topology.SENTINEL:
                target = await sentinel_master(address, self._answer_seconds)
            connection = await open_connection(address, target, self._answer_seconds)
        except RedisLinkError:
            # A node that is gone may have left its hash slots to another.
            self._starts.clear()
            self._holders.clear()
            raise
        self._connections[place] = connection
        return connection

    async def _learn_layout(self) -> None:
        """Ask the first node that answers which node has which hash slots."""
        known = [place for place in self._connections if place is not None]
        failures = []
        for place in dict.fromkeys([*known, *self.address.hosts]):
            try:
                connection = self._connections.get(place)
                if connection is None or not connection.is_open:
                    connection = self._connections[place] = await open_connection(
                        self.address, place, self._answer_seconds
                    )
                ranges = await connection.ask("CLUSTER", "SLOTS")
            except RedisLinkError as error:
                failures.append(str(error))
                continue
            if ranges:
                self._use_layout(ranges, place)
                return
            failures.append(f"{place[0]}:{place[1]} has no hash slots")
        raise RedisLinkError(f"Redis {self.address}: {'; '.join(failures)}")

    def _use_layout(self, ranges: list[Any], asked: Place) -> None:
        parts = sorted((first, holder) for first, _, holder, *_ in ranges)
        self._starts = [first for first, _ in parts]
        # A node that does not know its own address leaves it empty: it is the one we asked.
        self._holders = [(host.decode() or asked[0], port) for _, (host, port, *_) in parts]
        for place in [place for place in self._connections if place not in self._holders]:
            self._connections.pop(place).close()


async def run_script(
    router: RedisRouter, script: Script, keys: list[str], words: list[Word]
) -> Any:
    """Return the answer of a script, all keys of which lie on one server."""
    connection = await router.of_key(keys[0])
    try:
        return await connection.ask("EVALSHA", script.digest, len(keys), *keys, *words)
    except RedisReplyError as error:
        if error.code != "NOSCRIPT":
            router.note(error)
            raise
    return await router.ask(keys[0], "EVAL", script.text, len(keys), *keys, *words)
