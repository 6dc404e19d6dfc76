"""The lock that lets one push at a time build and switch.

It expires unless its holder renews it, so a killed push blocks the next one only for some seconds.
Every script that changes what readers see checks the lock again: a holder that lost it while it
was suspended changes nothing.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self

from redis.exceptions import RedisError

from redis_link.connection.client import RedisClient
from redis_link.connection.failures import damage_in, redis_errors_from
from schemas.errors import GenerationError, PushBusyError
from schemas.generation import PushHolder
from schemas.redis_keys import push_lock_key

LOCK_SECONDS: Final = 20.0

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
