"""Writes the pairs of a generation: packs the next sets while Redis takes the ones before."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from redis.exceptions import RedisError

from redis_link.connection.client import RedisClient
from redis_link.connection.failures import is_passing, redis_errors_from
from redis_link.generation.generation_push import PushToken
from redis_link.generation.push_lock import still_held
from redis_link.sets.pair_arrays import Int64s, Tally, members_of
from redis_link.sets.set_writer import PackedSets, packed_sets, submit_sets
from redis_link.sets.shard_pipe import PATIENCE_SECONDS, ShardPipe
from schemas.errors import GenerationError

FENCE_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 0.2


@contextmanager
def fenced_writer(
    client: RedisClient, token: PushToken, *, patience_seconds: float = PATIENCE_SECONDS
) -> Iterator[FencedWriter]:
    """Give a writer; leaving the block waits until Redis has answered everything."""
    with (
        ShardPipe(client, patience_seconds=patience_seconds) as pipe,
        ThreadPoolExecutor(1, "redis-writer") as thread,
    ):
        writer = FencedWriter(client, token, pipe, thread, patience_seconds)
        yield writer
        writer.flush()


class FencedWriter:
    """Writes pairs of a generation as long as its push holds the lock.

    A thread sends one block of sets while the caller packs the next. So memory does not grow with
    what is written.
    """

    def __init__(
        self,
        client: RedisClient,
        token: PushToken,
        pipe: ShardPipe,
        thread: ThreadPoolExecutor,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._client = client
        self._token = token
        self._pipe = pipe
        self._thread = thread
        self._patience = patience_seconds
        self._sending: Future[None] | None = None
        self._checked_at = float("-inf")

    def write(self, peids: Int64s, sub_ids: Int64s) -> Tally:
        """Write pairs and return their tally; all pairs of a peid must come in one call."""
        packed = packed_sets(self._token.generation, members_of(peids, sub_ids))
        self._wait()
        self._sending = self._thread.submit(self._send, packed)
        return packed.tally

    def flush(self) -> None:
        """Wait until Redis has answered everything that was written."""
        self._wait()
        self._pipe.flush()

    def _wait(self) -> None:
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.result()

    def _send(self, packed: PackedSets) -> None:
        self._check()
        submit_sets(self._pipe, packed)

    def _check(self) -> None:
        """Raise when the push has lost its lock: an executor can outlive its killed driver."""
        if time.monotonic() - self._checked_at < FENCE_SECONDS:
            return
        if not self._is_held():
            raise GenerationError(
                f"generation {self._token.generation} is given up: its push lost the lock"
            )
        self._checked_at = time.monotonic()

    def _is_held(self) -> bool:
        """Ask Redis for the lock, and wait for a failover as when sets are written."""
        deadline = time.monotonic() + self._patience
        while True:
            with redis_errors_from("(the push lock)"):
                try:
                    return still_held(self._client, self._token.lock_value)
                except RedisError as error:
                    if not is_passing(error) or time.monotonic() > deadline:
                        raise
            time.sleep(RETRY_SECONDS)
