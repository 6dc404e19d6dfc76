"""Many commands in flight to the nodes that hold the shards.

A pipeline of redis-py keeps an object for each command and waits for all answers before it
goes on. Here commands come as bytes already packed, a part for one shard at a time; while a
node works on one batch the caller packs the next. Whatever was not answered in full is sent
again after a failure, to wherever the shard lies by then: so every command that is given must
be harmless when it runs twice (SADD, SREM, UNLINK and everything that only reads is).
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
from redis_link.sets.number_replies import NumberReplies
from schemas.redis_keys import shard_index_key

# Big enough to make the cost of a round trip vanish, small enough to keep a node answering
# others in between.
BATCH_BYTES: Final = 256 * 1024
BATCH_REPLIES: Final = 2_000
PATIENCE_SECONDS: Final = 20.0
FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0

# Gets the answers to a part: a list, or what NumberReplies makes of them.
OnReplies: TypeAlias = Callable[[Any], None]


@dataclass(slots=True)
class _Part:
    """Commands for one shard, packed, and what to do with their answers."""

    shard: int
    payload: bytes
    replies: int
    on_replies: OnReplies | None
    failing_since: float | None = None


@dataclass(slots=True)
class _Lane:
    """One connection to one node: parts that wait, and parts that were sent."""

    pool: Any  # a ConnectionPool, also the one of Sentinel
    connection: Any
    numbers: NumberReplies | None
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

    def _replies(self, count: int) -> Any:
        if self.numbers is not None:
            return self.numbers.read(count)
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
        """Let go of the connection, when all that was sent has run or cannot be known to.

        A server runs what it has received also when the sender is gone by then. Who cleans up
        after an error must not be overtaken by that.
        """
        with contextlib.suppress(RedisError):
            # Those that only read do not change anything when they run late.
            while self.numbers is None and self.unread and self.connection.is_connected:
                self.unread -= 1
                with contextlib.suppress(ResponseError):
                    self.connection.read_response()
        self.connection.disconnect()
        self.pool.release(self.connection)


class ShardPipe:
    """Sends parts to the nodes of their shards; leaving the block waits for all answers."""

    def __init__(
        self,
        client: RedisClient,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        numbers: bool = False,
    ) -> None:
        """``numbers``: everything that is sent is SMEMBERS, answered as by NumberReplies."""
        self._client = client
        self._patience = patience_seconds
        self._numbers = numbers
        self._lanes: dict[str, _Lane] = {}

    def __enter__(self) -> Self:
        """Nothing to do: connections are taken when they are needed."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for all answers; after an error drop the connections with what is in them."""
        failed = kind is not None
        try:
            if kind is None:
                failed = True
                self.flush()
                failed = False
        finally:
            for lane in self._lanes.values():
                if lane.sent or failed:
                    lane.give_up()
                else:
                    lane.pool.release(lane.connection)
            self._lanes.clear()

    def submit(
        self, shard: int, payload: bytes, replies: int, on_replies: OnReplies | None = None
    ) -> None:
        """Give packed commands for one shard; ``on_replies`` gets all their answers, once."""
        self._submit(_Part(shard, payload, replies, on_replies))

    def flush(self) -> None:
        """Send all that waits and take all answers."""
        while any(lane.waiting or lane.sent for lane in self._lanes.values()):
            for node, lane in list(self._lanes.items()):
                if lane.waiting:
                    self._attempt(node, lane, lane.turn)
            for node, lane in list(self._lanes.items()):
                self._attempt(node, lane, lane.take_answers)

    def _submit(self, part: _Part) -> None:
        node, lane = self._lane_of(part)
        lane.waiting.append(part)
        lane.waiting_bytes += len(part.payload)
        lane.waiting_replies += part.replies
        if lane.waiting_bytes >= BATCH_BYTES or lane.waiting_replies >= BATCH_REPLIES:
            self._attempt(node, lane, lane.turn)

    def _lane_of(self, part: _Part) -> tuple[str, _Lane]:
        while True:
            try:
                return self._find_lane(part.shard)
            except RedisError as error:
                self._wait_or_give_up([part], error)

    def _find_lane(self, shard: int) -> tuple[str, _Lane]:
        """The lane to the node that holds the shard; outside a cluster there is one for all."""
        server, node = self._client, ""
        if isinstance(server, RedisCluster):
            holder = server.get_node_from_key(shard_index_key(0, shard))
            server, node = server.get_redis_connection(holder), str(holder.name)
        if node not in self._lanes:
            pool: Any = server.connection_pool
            connection = pool.get_connection()
            numbers = NumberReplies(connection) if self._numbers else None
            self._lanes[node] = _Lane(pool, connection, numbers)
        return node, self._lanes[node]

    def _attempt(self, node: str, lane: _Lane, step: Callable[[], None]) -> None:
        """Run a step of a lane; when it fails in passing, send its parts anew."""
        try:
            step()
        except RedisError as error:
            lane.give_up()
            self._lanes.pop(node, None)
            parts = lane.sent + lane.waiting
            lane.sent, lane.waiting = [], []
            self._wait_or_give_up(parts, error)
            for part in parts:
                self._submit(part)

    def _wait_or_give_up(self, parts: list[_Part], error: RedisError) -> None:
        """Pause, longer each time; raise when some part has failed for too long."""
        now = time.monotonic()
        for part in parts:
            part.failing_since = part.failing_since or now
        failing_for = now - min(part.failing_since or now for part in parts)
        if not is_passing(error) or failing_for > self._patience:
            raise link_error("Redis", error) from error
        time.sleep(min(max(failing_for / 2, FIRST_PAUSE), LONGEST_PAUSE))
        if isinstance(self._client, RedisCluster):
            # Slots may have moved, or a replica have become a master. When nobody answers yet,
            # the next attempt says so.
            with contextlib.suppress(RedisError):
                self._client.nodes_manager.initialize()
