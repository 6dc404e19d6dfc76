"""The lock that lets one push at a time build and switch, and the writer that checks it.

It expires unless its holder renews it, so a killed push blocks the next one only for some seconds.
Every script that changes what readers see checks the lock again: a holder that lost it while it
was suspended changes nothing. The writer asks for the lock while it writes.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self

from redis.exceptions import RedisError

from redis_link.connection.client import RedisClient
from redis_link.connection.failures import damage_in, is_passing, redis_errors_from
from redis_link.sets.pair_arrays import Int64s, Tally, members_of
from redis_link.sets.set_writer import PackedSets, packed_sets, submit_sets
from redis_link.sets.shard_pipe import PATIENCE_SECONDS, ShardPipe
from schemas.errors import GenerationError, PushBusyError
from schemas.generation import PushHolder
from schemas.redis_keys import push_lock_key

LOCK_SECONDS: Final = 20.0
# How often a writer asks for the lock, and how soon again when Redis does not answer.
FENCE_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 0.2

# KEYS: lock. ARGV: our value, milliseconds.
RENEW: Final = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""
RELEASE: Final = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
"""


class PushLock:
    """The lock, held inside a ``with`` block and renewed by a thread."""

    def __init__(
        self, client: RedisClient, what: str, *, lock_seconds: float = LOCK_SECONDS
    ) -> None:
        """``what`` says what runs, for a push that is refused meanwhile."""
        self._client = client
        self._milliseconds = int(lock_seconds * 1000)
        self.holder = PushHolder(what, socket.gethostname(), os.getpid(), time.time(),
                                 uuid.uuid4().hex)  # fmt: skip
        self.value = self.holder.to_json()
        self._ending = threading.Event()
        self._lost = threading.Event()
        self._renewer = threading.Thread(target=self._renew, name="push-lock", daemon=True)

    def __enter__(self) -> Self:
        """Take the lock; PushBusyError says who has it."""
        with redis_errors_from("(the push lock)"), damage_in("the push lock"):
            taken = self._client.set(push_lock_key(), self.value, nx=True, px=self._milliseconds)
            found = None if taken else self._client.get(push_lock_key())
        # When the answer was lost, redis-py asked again, and we hold the lock already.
        if not taken and found != self.value.encode():
            raise PushBusyError(_who(found))
        self._renewer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the lock back; when Redis is away, it expires."""
        self._ending.set()
        self._renewer.join()
        try:
            self._client.eval(RELEASE, 1, push_lock_key(), self.value)
        except RedisError:
            self._lost.set()

    def check(self) -> None:
        """Raise when the lock is no longer ours."""
        if self._lost.is_set():
            raise GenerationError(
                "the push lock expired before it was renewed: Redis was away for too long"
            )

    def _renew(self) -> None:
        """Renew the lock three times in its life; one failure does not lose it."""
        good_until = time.monotonic() + self._milliseconds / 1000
        while not self._ending.wait(self._milliseconds / 3000):
            asked_at = time.monotonic()
            try:
                held = self._client.eval(
                    RENEW, 1, push_lock_key(), self.value, str(self._milliseconds)
                )
            except RedisError:
                held = asked_at < good_until
            else:
                good_until = asked_at + self._milliseconds / 1000
            if not held:
                self._lost.set()
                return


def is_held(client: RedisClient) -> bool:
    """Return whether any push has the lock."""
    return bool(client.exists(push_lock_key()))


def still_held(client: RedisClient, value: str) -> bool:
    """Return whether the lock still has the value; executors ask before they go on."""
    return client.get(push_lock_key()) == value.encode()


def _who(found: bytes | str | None) -> str:
    if found is None:
        return "another push ended at this very moment; start again"
    holder = PushHolder.from_json(found)
    since = datetime.fromtimestamp(holder.since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"another push runs: {holder.what}, process {holder.pid} on {holder.host}, since {since}"


@dataclass(frozen=True, slots=True)
class PushToken:
    """What a writer of a generation needs besides the URL; Spark sends it to executors."""

    generation: int
    lock_value: str


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
