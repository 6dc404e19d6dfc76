"""Subscriptions that come and go at a fixed rate, and how long each takes to be in force.

The times are fixed before, as those of messages are: a change that has to wait for the ones before
it counts with all of its delay. A new subscription takes the place of one of the last
``KEPT``, which ends with it.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable
from typing import Final, Self

from bench.broker.connection import SUBACK, Connection, LoadError
from bench.evaluation.load.outbox import Outbox

KEPT: Final = 8
READ_BYTES: Final = 1 << 18
IDENTIFIERS: Final = 60_000
FAILURE: Final = 0x80

# Bytes of the request for a change, by its number and the packet identifier of its last SUBSCRIBE.
Request = Callable[[int, int], bytes]


class Changes:
    """One client that subscribes anew so many times a second."""

    def __init__(self, client: Connection, rate: float, request: Request, first: int = 0) -> None:
        self._outbox = Outbox(client.socket)
        self._rate = rate
        self._request = request
        self._number = self._first = first
        self._start = self._end = 0
        self._due: dict[int, int] = {}
        self._rest = b""
        self._prepared: list[bytes] = []
        self.took_ms: list[float] = []
        self.refused = 0

    def __enter__(self) -> Self:
        """Return the client, which is connected already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection: all of its subscriptions end."""
        self.socket.close()

    @property
    def socket(self) -> socket.socket:
        """The client's socket, to wait for."""
        return self._outbox.socket

    @property
    def missing(self) -> int:
        """The number of subscriptions that are asked for and not yet in force."""
        return len(self._due)

    @property
    def next_number(self) -> int:
        """The number of the next change."""
        return self._number

    def prepare(self, seconds: float) -> None:
        """Encode the requests of a run, so that the generator does nothing else meanwhile."""
        self._first = self._number
        last = self._first + math.ceil(seconds * self._rate) + 1
        self._prepared = [
            self._request(number, _identifier(number)) for number in range(self._first, last)
        ]

    def begin(self, start: int, end: int) -> None:
        """Fix the times of all changes, in nanoseconds."""
        self._start, self._end = start, end
        self.took_ms, self._due, self.refused = [], {}, 0

    def step(self, now: int) -> None:
        """Send what is due and read what has come."""
        place = self._number - self._first
        due = self._start + int((place + 0.5) * 1e9 / self._rate)
        if due <= now and due < self._end:
            self._due[_identifier(self._number)] = due
            self._outbox.send(self._prepared[place])
            self._number += 1
        if self._outbox.rest:
            self._outbox.flush()
        try:
            data = self._outbox.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            raise LoadError("the broker closed the connection of the changing client")
        self._read(data, time.monotonic_ns())

    def _read(self, data: bytes, now: int) -> None:
        data = self._rest + data if self._rest else data
        position = 0
        while (found := _whole_packet(data, position)) is not None:
            body, end = found
            if data[position] == SUBACK:
                due = self._due.pop(int.from_bytes(data[body : body + 2], "big"), None)
                if data[end - 1] >= FAILURE:
                    self.refused += 1
                elif due is not None:
                    self.took_ms.append((now - due) / 1e6)
            position = end
        self._rest = data[position:]


def _identifier(number: int) -> int:
    return number % IDENTIFIERS + 1


def _whole_packet(data: bytes, position: int) -> tuple[int, int] | None:
    """Return where the body of the packet at this place begins and ends; None: not all is there."""
    length, shift = 0, 0
    for at in range(position + 1, min(position + 5, len(data))):
        length |= (data[at] & 0x7F) << shift
        if data[at] < 0x80:
            end = at + 1 + length
            return (at + 1, end) if end <= len(data) else None
        shift += 7
    return None
