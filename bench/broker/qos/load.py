"""Runs at QoS 1 and 2: what is delivered is acknowledged, and so is what is published.

The subscribers' packets have one size at QoS 1, so their identifiers stand at fixed places. At QoS
2 they are mixed with PUBREL, and are read one by one.
"""

from __future__ import annotations

import select
import time
from collections.abc import Sequence
from typing import Final, TypeAlias

from bench.broker.connection import PATIENCE, Connection, LoadError
from bench.broker.load import BUFFER, Load
from bench.broker.rate import Clock, Rate

PUBACK, PUBREC, PUBREL, PUBCOMP = b"\x40\x02", b"\x50\x02", b"\x62\x02", b"\x70\x02"
# What a client answers to an acknowledgement, by its first byte.
ANSWERS: Final = {0x50: PUBREL, 0x62: PUBCOMP}
LAST: Final = {1: 0x40, 2: 0x70}

Batches: TypeAlias = Sequence[Sequence[bytes]]


class QosLoad(Load):
    """Publishers with some batches under way each, and subscribers that acknowledge."""

    # Messages of QoS 2 that subscribers have, and that were not released.
    _unreleased = 0

    def acknowledged(
        self, publishers: Sequence[Connection], batches: Batches, qos: int, ahead: int,
        seconds: float,
    ) -> Rate:  # fmt: skip
        """Publish with ``ahead`` batches of each publisher under way.

        As many batches as that, in a row, share no identifier.
        """
        runs = [Publisher(one, batches, qos, ahead) for one in publishers]
        self._try_out(runs[0], batches[0][0], qos)
        files = {one.socket.fileno(): run for one, run in zip(publishers, runs, strict=True)}
        for file in files:
            self.poll.register(file, select.EPOLLIN)
        rests: dict[int, bytes] = {}
        clock = Clock(self.pid)
        end = clock.began + seconds
        received, is_over = 0, False
        for run in runs:
            run.go_on()
        while (
            not is_over
            or any(run.under_way for run in runs)
            or received < self._wanted(runs)
            or self._unreleased
        ):
            events = self.poll.poll(PATIENCE)
            if not events:
                raise LoadError("acknowledged publishes were lost")
            is_over = is_over or time.monotonic() >= end
            for file, _ in events:
                publisher = files.get(file)
                if publisher is not None:
                    publisher.read()
                    if not is_over:
                        publisher.go_on()
                else:
                    received += self._deliver(file, rests, qos)
        for file in files:
            self.poll.unregister(file)
        return clock.rate(sum(run.sent for run in runs))

    def _wanted(self, runs: Sequence[Publisher]) -> int:
        return self.copies * sum(run.sent for run in runs)

    def _try_out(self, run: Publisher, packet: bytes, qos: int) -> None:
        """Have one message delivered, to know how large such a packet is."""
        if qos == 2:
            # Mosquitto delivers it once it is released.
            run.connection.socket.sendall(packet)
            run.wait_for_one()
            packet = b""
        found = self.delivered(run.connection, packet)
        example = next(iter(found.values()))
        body = 2 if example[1] < 0x80 else 3
        self._size = len(example)
        self._identifier_at = body + 2 + int.from_bytes(example[body : body + 2], "big")
        for file, data in found.items():
            identifier = data[self._identifier_at :][:2]
            self.subscribers[file].send((PUBACK if qos == 1 else PUBREC) + identifier)
        if qos == 1:
            run.wait_for_one()
        else:
            self._unreleased = len(found)
            while self._unreleased:
                for file, _ in self.poll.poll(PATIENCE):
                    self._deliver(file, {}, qos)

    def _deliver(self, file: int, rests: dict[int, bytes], qos: int) -> int:
        """Read what a subscriber got, and acknowledge it; return the number of messages."""
        subscriber = self.subscribers[file]
        data = rests.pop(file, b"") + subscriber.recv(BUFFER)
        if qos == 2:
            return self._deliver_twice(file, data, rests)
        size = self._size
        whole = len(data) // size
        if whole * size < len(data):
            rests[file] = data[whole * size :]
        places = range(self._identifier_at, whole * size, size)
        subscriber.sendall(b"".join([PUBACK + data[at : at + 2] for at in places]))
        return whole

    def _deliver_twice(self, file: int, data: bytes, rests: dict[int, bytes]) -> int:
        answers: list[bytes] = []
        at = messages = 0
        while at < len(data):
            is_release = data[at] == 0x62
            end = at + (4 if is_release else self._size)
            if end > len(data):
                rests[file] = data[at:]
                break
            place = at + (2 if is_release else self._identifier_at)
            answers += (PUBCOMP if is_release else PUBREC, data[place : place + 2])
            messages += not is_release
            self._unreleased += -1 if is_release else 1
            at = end
        self.subscribers[file].sendall(b"".join(answers))
        return messages


class Publisher:
    """One publisher: what it has sent, and what was acknowledged."""

    def __init__(self, connection: Connection, batches: Batches, qos: int, ahead: int) -> None:
        self.connection = connection
        connection.socket.settimeout(PATIENCE)
        self._ready = [b"".join(batch) for batch in batches]
        self._count = len(batches[0])
        self._most = ahead * self._count
        self._last = LAST[qos]
        self._turn = 0
        self.sent = 0
        self.under_way = 0

    def go_on(self) -> None:
        """Send as many batches as may be under way."""
        while self.under_way + self._count <= self._most:
            self.connection.socket.sendall(self._ready[self._turn % len(self._ready)])
            self._turn += 1
            self.sent += self._count
            self.under_way += self._count

    def wait_for_one(self) -> None:
        """Wait until the first message is acknowledged."""
        self.under_way = 1
        while self.under_way:
            self.read()

    def read(self) -> None:
        """Read acknowledgements, four bytes each, and answer those that want it."""
        data = self.connection.socket.recv(BUFFER)
        while len(data) % 4:
            data += self.connection.socket.recv(4 - len(data) % 4)
        if self._last == 0x40:
            self.under_way -= len(data) // 4
            return
        answers: list[bytes] = []
        for at in range(0, len(data), 4):
            if data[at] == self._last:
                self.under_way -= 1
            else:
                answers += (ANSWERS[data[at]], data[at + 2 : at + 4])
        self.connection.socket.sendall(b"".join(answers))
