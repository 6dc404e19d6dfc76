"""Renews the broker's lease from a thread, so that a busy event loop does not lose it.

The thread has a connection of its own. It lives and ends with the process: a broker that was
killed or stopped (SIGSTOP) renews nothing, and its lease expires. It also watches the loop. A
loop that has not turned for minutes serves nobody, and a standby may replace it
(docs/decisions/0122).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from redis.exceptions import RedisError

from broker.durability.scripts import EXTEND
from redis_link.connection.client import RedisClient, connect
from redis_link.connection.url import RedisUrl
from schemas.errors import SpapsError

log = logging.getLogger(__name__)

# The lease is renewed so often that it outlives some failures.
RENEWALS_IN_LEASE: Final = 6


class LeaseThread:
    """``start`` after the claim, ``beat`` from the event loop, ``stop`` before the release."""

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
        """Begin to renew, unless the thread runs already."""
        self.beat()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
            self._thread.start()

    def beat(self) -> None:
        """Note that the event loop turns."""
        self._beat_at = time.monotonic()

    def stop(self) -> None:
        """Renew no more; returns when no renewal is on its way, or Redis does not answer."""
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
                    log.critical(
                        "the event loop has not turned for %.0f s: the lease is given up", silence
                    )
                is_stuck = True
                continue
            is_stuck = False
            try:
                if client is None:
                    client = connect(self._address)
                client.eval(EXTEND.text, len(self._keys), *self._keys, *self._words)
            except (RedisError, SpapsError, OSError) as error:
                log.debug("the lease was not renewed by its thread: %s", error)
                _close(client)
                client = None
        _close(client)


def _close(client: RedisClient | None) -> None:
    if client is not None:
        with suppress(RedisError, OSError):
            client.close()
