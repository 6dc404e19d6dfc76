"""The load generator: one lean thread with raw sockets and packets that were encoded before.

All packets that a run delivers have one size, so counting bytes counts packets, and what is needed
of a packet (its sender) stands at a fixed place. Nothing is parsed one by one. ``qos.load`` has
the runs at QoS 1 and 2.
"""

from __future__ import annotations

import itertools
import select
import time
from collections.abc import Sequence
from typing import Final

from bench.broker.connection import PATIENCE, Connection, LoadError, SendBuffer
from bench.broker.rate import Clock, Rate

BUFFER: Final = 1 << 20
# A moment in which deliveries gather, so that reading them costs the generator little.
GATHER_SECONDS: Final = 0.000_5


class Load:
    """The subscribers of a broker, and runs of publishers against it."""

    def __init__(self, subscribers: Sequence[Connection], copies: int, broker_pid: int) -> None:
        self.subscribers = {one.socket.fileno(): one.socket for one in subscribers}
        self.copies = copies
        self.pid = broker_pid
        self._buffer = bytearray(BUFFER)
        self.poll = select.epoll()
        for file, subscriber in self.subscribers.items():
            subscriber.settimeout(0)
            self.poll.register(file, select.EPOLLIN)

    def close(self) -> None:
        """Let all subscribers go."""
        self.poll.close()
        for subscriber in self.subscribers.values():
            subscriber.close()

    def delivered(self, publisher: Connection, packet: bytes) -> dict[int, bytes]:
        """Return the packets that a publish leads to, by receiver; all must have one size."""
        publisher.socket.sendall(packet)
        found: dict[int, bytes] = {}
        deadline = time.monotonic() + PATIENCE
        while len(found) < self.copies or len({*map(len, found.values())}) != 1:
            if time.monotonic() > deadline:
                raise LoadError(f"{len(found)} of {self.copies} copies were delivered")
            for file, _ in self.poll.poll(0.1):
                found[file] = found.get(file, b"") + self.subscribers[file].recv(BUFFER)
        return found

    # --- streams

    def stream(
        self, publishers: Sequence[Connection], chunks: Sequence[Sequence[bytes]], window: int,
        seconds: float,
    ) -> Rate:  # fmt: skip
        """Publish at full speed, with at most ``window`` publishes under way.

        ``chunks`` are lists of packets that are sent in one go.
        """
        found = self.delivered(publishers[0], chunks[0][0])
        size = sum(map(len, found.values()))
        ready = [(b"".join(chunk), len(chunk)) for chunk in chunks]
        buffers = [SendBuffer(one.socket) for one in publishers]
        sent = received = turn = 0
        clock = Clock(self.pid)
        end = clock.began + seconds
        last = clock.began
        while True:
            now = time.monotonic()
            is_over = now >= end
            if is_over and received >= sent * size:
                break
            if now - last > PATIENCE:
                raise LoadError(f"{sent - received // size} publishes were lost")
            if not is_over:
                for buffer in buffers:
                    if sent * size - received < window * size and buffer.flush():
                        data, count = ready[turn % len(ready)]
                        turn += 1
                        buffer.send(data)
                        sent += count
            else:
                for buffer in buffers:
                    buffer.flush()
            got = self._read_all()
            received += got
            if got:
                last = now
            time.sleep(GATHER_SECONDS)
        return clock.rate(sent)

    def _read_all(self) -> int:
        """Take what is there; the number of bytes."""
        received, buffer, subscribers = 0, self._buffer, self.subscribers
        for file, _ in self.poll.poll(0.01):
            received += subscribers[file].recv_into(buffer)
        return received

    # --- one message a packet

    def singles(
        self, publishers: Sequence[Connection], packets: Sequence[Sequence[bytes]], seconds: float
    ) -> Rate:
        """Let each publisher send one packet, and the next once that was delivered.

        ``packets`` are those of each publisher; the last byte of their payload is its number.
        """
        size = max(map(len, self.delivered(publishers[0], packets[0][0]).values()))
        sends = [one.socket.send for one in publishers]
        turns = [itertools.cycle(own) for own in packets]
        rests: dict[int, bytes] = {}
        copies = self.copies
        missing = [0] * len(publishers)
        clock = Clock(self.pid)
        end = clock.began + seconds
        sent = under_way = len(publishers)
        for number, send in enumerate(sends):
            missing[number] = copies
            send(next(turns[number]))
        is_over = False
        while under_way:
            events = self.poll.poll(PATIENCE)
            if not events:
                raise LoadError(f"{under_way} publishes were lost")
            is_over = is_over or time.monotonic() >= end
            for file, _ in events:
                data = self.subscribers[file].recv(BUFFER)
                if file in rests:
                    data = rests.pop(file) + data
                if len(data) % size:
                    rests[file] = data[len(data) // size * size :]
                for number in data[size - 1 :: size]:
                    missing[number] -= 1
                    if missing[number]:
                        continue
                    if is_over:
                        under_way -= 1
                        continue
                    missing[number] = copies
                    sends[number](next(turns[number]))
                    sent += 1
        return clock.rate(sent)
