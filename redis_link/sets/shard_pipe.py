"""Sends packed commands to the nodes that hold the shards, many at a time.

A pipeline of redis-py keeps an object for each command and waits for all answers before it goes
on. Here a caller gives parts: commands for one shard, packed already. While a node works on one
batch, the caller packs the next. After a failure every part that was not answered in full is sent
again, to the node that holds the shard by then. So a command must do no harm when it runs twice;
SADD, SREM, UNLINK and all commands that only read are such.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from redis import RedisCluster
from redis.exceptions import RedisError, ResponseError

from redis_link.connection.client import RedisClient
from redis_link.connection.failures import is_passing, link_error
from schemas.redis_keys import shard_index_key

# Large enough that round trips cost little, small enough that a node answers others in between.
BATCH_BYTES: Final = 256 * 1024
BATCH_REPLIES: Final = 2_000
PATIENCE_SECONDS: Final = 20.0
FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0

# Gets the answers to a part.
OnReplies: TypeAlias = Callable[[list[Any]], None]


@dataclass(slots=True)
class _Part:
    """Packed commands for one shard, and the function that gets their answers."""

    shard: int
    payload: bytes
    replies: int
    on_replies: OnReplies | None
    failing_since: float | None = None


@dataclass(slots=True)
class _NodeConnection:
    """A connection to one node, with the parts that wait and the parts that were sent."""

    pool: Any  # a ConnectionPool, also the one of Sentinel
    connection: Any
    waiting: list[_Part] = field(default_factory=list)
    sent: list[_Part] = field(default_factory=list)
    waiting_bytes: int = 0
    waiting_replies: int = 0
    unread: int = 0

    def turn(self) -> None:
        """Send what waits, then take the answers to what was sent before it.

        So the node always has the next batch when it is through with one.
        """
        before = len(self.sent)
        payload = b"".join(part.payload for part in self.waiting)
        self.sent += self.waiting
        self.waiting = []
        self.unread += self.waiting_replies
        self.waiting_bytes = self.waiting_replies = 0
        self.connection.send_packed_command([payload], check_health=False)
        self.take_answers(before)

    def take_answers(self, count: int | None = None) -> None:
        """Take the answers to the first ``count`` parts that were sent, or to all."""
        for _ in range(len(self.sent) if count is None else count):
            part = self.sent[0]
            replies = self._replies(part.replies)
            if part.on_replies is not None:
                part.on_replies(replies)
            self.sent.pop(0)

    def _replies(self, count: int) -> list[Any]:
        replies: list[Any] = []
        try:
            # Lazily, so that what came before an error is counted.
            replies.extend(self.connection.read_response() for _ in range(count))
        except ResponseError:
            self.unread -= 1
            raise
        finally:
            self.unread -= len(replies)
        return replies

    def give_up(self) -> None:
        """Close the connection after the server has run what it received, as far as it answers.

        A server runs received commands even when the sender has gone. They must not run after the
        commands of a caller that cleans up after the error.
        """
        with contextlib.suppress(RedisError):
            while self.unread and self.connection.is_connected:
                self.unread -= 1
                with contextlib.suppress(ResponseError):
                    self.connection.read_response()
        self.connection.disconnect()
        self.pool.release(self.connection)


class ShardPipe:
    """Sends parts to the nodes of their shards; leaving the block waits for all answers."""

    def __init__(self, client: RedisClient, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._client = client
        self._patience = patience_seconds
        self._nodes: dict[str, _NodeConnection] = {}

    def __enter__(self) -> Self:
        """Return the pipe; it takes connections when it needs them."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for all answers; after an error close the connections."""
        failed = kind is not None
        try:
            if kind is None:
                failed = True
                self.flush()
                failed = False
        finally:
            for target in self._nodes.values():
                if target.sent or failed:
                    target.give_up()
                else:
                    target.pool.release(target.connection)
            self._nodes.clear()

    def submit(
        self, shard: int, payload: bytes, replies: int, on_replies: OnReplies | None = None
    ) -> None:
        """Take packed commands for one shard; ``on_replies`` gets all their answers, once."""
        self._submit(_Part(shard, payload, replies, on_replies))

    def flush(self) -> None:
        """Send all that waits and take all answers."""
        while any(target.waiting or target.sent for target in self._nodes.values()):
            for node, target in list(self._nodes.items()):
                if target.waiting:
                    self._attempt(node, target, target.turn)
            for node, target in list(self._nodes.items()):
                self._attempt(node, target, target.take_answers)

    def _submit(self, part: _Part) -> None:
        node, target = self._node_of(part)
        target.waiting.append(part)
        target.waiting_bytes += len(part.payload)
        target.waiting_replies += part.replies
        if target.waiting_bytes >= BATCH_BYTES or target.waiting_replies >= BATCH_REPLIES:
            self._attempt(node, target, target.turn)

    def _node_of(self, part: _Part) -> tuple[str, _NodeConnection]:
        while True:
            try:
                return self._find_node(part.shard)
            except RedisError as error:
                self._wait_or_give_up([part], error)

    def _find_node(self, shard: int) -> tuple[str, _NodeConnection]:
        """Return name and connection of the node with the shard; outside a cluster all have one."""
        server, node = self._client, ""
        if isinstance(server, RedisCluster):
            holder = server.get_node_from_key(shard_index_key(0, shard))
            server, node = server.get_redis_connection(holder), str(holder.name)
        if node not in self._nodes:
            pool: Any = server.connection_pool
            self._nodes[node] = _NodeConnection(pool, pool.get_connection())
        return node, self._nodes[node]

    def _attempt(self, node: str, target: _NodeConnection, step: Callable[[], None]) -> None:
        """Run a step; after a failure that may pass, send the parts again."""
        try:
            step()
        except RedisError as error:
            target.give_up()
            self._nodes.pop(node, None)
            parts = target.sent + target.waiting
            target.sent, target.waiting = [], []
            self._wait_or_give_up(parts, error)
            for part in parts:
                self._submit(part)

    def _wait_or_give_up(self, parts: list[_Part], error: RedisError) -> None:
        """Pause, longer each time; raise when a part has failed for too long."""
        now = time.monotonic()
        for part in parts:
            part.failing_since = part.failing_since or now
        failing_for = now - min(part.failing_since or now for part in parts)
        if not is_passing(error) or failing_for > self._patience:
            raise link_error("Redis", error) from error
        time.sleep(min(max(failing_for / 2, FIRST_PAUSE), LONGEST_PAUSE))
        if isinstance(self._client, RedisCluster):
            # Hash slots may have moved, or a replica may have become a master. When no node answers
            # yet, the next attempt fails.
            with contextlib.suppress(RedisError):
                self._client.nodes_manager.initialize()
