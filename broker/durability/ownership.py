"""Ownership of the durable state of a broker: one process writes it at a time.

The lease expires unless it is renewed, and names its holder, so that a second broker of the same
name is refused with a readable message. The owner's token is a fencing token: Redis rejects
whatever a process sends after another one has claimed the state.

A thread with its own connection renews the lease, so that a busy event loop does not lose it.
The thread ends with the process: a broker that was killed or stopped (SIGSTOP) renews nothing. It
also watches the event loop. A loop that has been blocked for minutes serves no client, and a
standby may replace it (docs/decisions/0122).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from redis.exceptions import RedisError

from broker.durability.scripts import CLAIM, EXTEND, RELEASE, RENEW
from broker.ports import LEASE_SECONDS, STUCK_SECONDS
from redis_link.connection.client import RedisClient, connect
from redis_link.connection.redis_connection import Word
from redis_link.connection.redis_router import ANSWER_SECONDS, RedisRouter, run_script
from redis_link.connection.url import RedisUrl
from schemas.errors import JournalError, SpapsError
from schemas.redis_keys import broker_lease_key, journal_key

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Lease:
    """The holder of a lease: a process. ``place`` is the machine and PID namespace of its pid."""

    token: str
    host: str
    place: str
    pid: int
    started: str

    def to_json(self) -> str:
        """Return the value to store in Redis."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: bytes) -> Lease:
        """Return the lease stored in Redis."""
        try:
            content: dict[str, Any] = json.loads(text)
            return cls(**content)
        except (ValueError, TypeError) as error:
            raise JournalError(f"the lease of the broker is not understood: {error}") from error

    @property
    def is_dead(self) -> bool:
        """Return whether its process is known to have ended; only its own machine knows.

        Without /proc this is never known, and the lease has to expire.
        """
        return self.place == _this_place() and _started(self.pid) != self.started


class Ownership:
    """The claim of this process to the durable state of one broker."""

    def __init__(
        self,
        router: RedisRouter,
        broker: str,
        *,
        lease_seconds: float = LEASE_SECONDS,
        stuck_seconds: float = STUCK_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._router = router
        self._broker = broker
        self._lease_seconds = lease_seconds
        self._keys = [journal_key(broker), broker_lease_key(broker)]
        self.owner_token = uuid.uuid4().hex
        pid = os.getpid()
        self._lease = Lease(
            self.owner_token, socket.gethostname(), _this_place(), pid, _started(pid)
        ).to_json()
        self._thread = LeaseThread(
            router.address, self._keys, self.owner_token, self._lease,
            lease_seconds=lease_seconds, stuck_seconds=stuck_seconds,
            answer_seconds=answer_seconds,
        )  # fmt: skip

    async def claim(self) -> None:
        """Become the owner; JournalError when another process renews its lease."""
        loop = asyncio.get_running_loop()
        # A lease that was not renewed since our first attempt has expired by then.
        deadline = loop.time() + 1.5 * self._lease_seconds
        dead = ""
        while (held := await self._try_to_claim(dead)) is not None:
            lease = Lease.from_json(held)
            if lease.is_dead and not dead:
                dead = held.decode()
                continue
            if loop.time() > deadline:
                raise JournalError(
                    f"another broker named {self._broker!r} runs: process {lease.pid} on "
                    f"{lease.host}; stop it, or give this one another name"
                )
            await asyncio.sleep(POLL_SECONDS)
        self._thread.start()

    def beat(self) -> None:
        """Record that the event loop runs: the lease is renewed only while it does."""
        self._thread.beat()

    async def stop_renewing(self) -> None:
        """Stop the renewals, so that the lease expires unless it is released."""
        await asyncio.to_thread(self._thread.stop)

    async def renew(self, confirmed: int) -> bytes:
        """Renew the lease; return the script's answer about our ownership.

        Steps may be stored at the same time, so the step number has no upper bound here.
        """
        words: list[Word] = [self.owner_token, confirmed, "inf", self._milliseconds, self._lease]
        answer: bytes = await run_script(self._router, RENEW, self._keys, words)
        return answer

    async def release(self) -> None:
        """Release the lease; the thread must have stopped renewing it."""
        await self.stop_renewing()
        await run_script(self._router, RELEASE, self._keys, [self.owner_token, self._lease])

    async def _try_to_claim(self, dead: str) -> bytes | None:
        words: list[Word] = [self.owner_token, self._milliseconds, self._lease, dead]
        held: bytes | None = await run_script(self._router, CLAIM, self._keys, words)
        return held

    @property
    def _milliseconds(self) -> int:
        return int(self._lease_seconds * 1000)


def _this_place() -> str:
    """Return an identifier of this boot of this machine and of the PID namespace."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(parts)


def _started(pid: int) -> str:
    """Return the start time of a running process, because its pid may be reused later."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The name in parentheses may hold spaces; state and start time are words 1 and 20 after it.
    words = stat.rpartition(")")[2].split()
    return "" if words[0] in "ZX" else words[19]


# Renewals for each lease time, so that some may fail.
RENEWALS_IN_LEASE: Final = 6


class LeaseThread:
    """Renews the lease: ``start`` after the claim, ``beat`` on the loop, ``stop`` at the end."""

    def __init__(
        self,
        address: RedisUrl,
        keys: Sequence[str],
        token: str,
        lease: str,
        *,
        lease_seconds: float,
        stuck_seconds: float,
        answer_seconds: float,
    ) -> None:
        self._address = replace(address, timeout=min(address.timeout, answer_seconds))
        self._keys = keys
        self._words = (token, str(int(lease_seconds * 1000)), lease)
        self._answer_seconds = answer_seconds
        self._pause = lease_seconds / RENEWALS_IN_LEASE
        self._stuck_seconds = stuck_seconds
        self._beat_at = time.monotonic()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start to renew, unless the thread runs already."""
        self.beat()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
            self._thread.start()

    def beat(self) -> None:
        """Record that the event loop runs."""
        self._beat_at = time.monotonic()

    def stop(self) -> None:
        """Stop renewing; return when no renewal is in progress, or Redis does not answer."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join(self._answer_seconds)

    def _run(self) -> None:
        client: RedisClient | None = None
        is_stuck = False
        while not self._ending.wait(self._pause):
            silence = time.monotonic() - self._beat_at
            if silence > self._stuck_seconds:
                if not is_stuck:
                    log.critical("event loop blocked for %.0f s: the lease is given up", silence)
                is_stuck = True
                continue
            is_stuck = False
            try:
                if client is None:
                    client = connect(self._address)
                client.eval(EXTEND.text, len(self._keys), *self._keys, *self._words)
            except (RedisError, SpapsError, OSError) as error:
                log.debug("the thread could not renew the lease: %s", error)
                _close(client)
                client = None
        _close(client)


def _close(client: RedisClient | None) -> None:
    with suppress(RedisError, OSError):
        if client is not None:
            client.close()
