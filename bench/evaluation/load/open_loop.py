"""The load generator at a fixed rate: real sockets, and a schedule that nothing delays.

Messages are due in a burst each millisecond, at times that are fixed before the run begins. Each
carries the time at which it was *due*, so a message that waits because the broker is slow counts
with all of its delay (no coordinated omission). Packets are encoded before, and all of a
run have one size: a burst is cut out of a matrix, and what arrives is read as one.
"""

from __future__ import annotations

import select
import time
from collections.abc import Sequence
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from bench.broker.connection import Connection, LoadError
from bench.evaluation.load.changes import Changes
from bench.evaluation.load.outbox import Outbox
from bench.evaluation.load.process_time import processor_seconds
from bench.evaluation.load.run import Run, Timed, growth_of
from bench.evaluation.load.ticks import Ticks
from bench.evaluation.workload import STAMP_BYTES, Messages

TICK: Final = 1_000_000  # nanoseconds between two bursts
READ_BYTES: Final = 1 << 16
# After what has arrived is read, more gathers for so long: reading then costs less.
GATHER_SECONDS: Final = 0.000_05
BACKLOG_SECONDS: Final = 0.75
LEAST_BACKLOG: Final = 2_000
QUIET_SECONDS: Final = 3.0
DRAIN_SECONDS: Final = 15.0
PROBE_SECONDS: Final = 20.0
MOST_BURSTS_AT_ONCE: Final = 5


class OpenLoop:
    """Publishers and subscribers of one system."""

    def __init__(
        self,
        subscribers: Sequence[Connection],
        publishers: Sequence[Connection],
        processes: Sequence[int],
    ) -> None:
        self._processes = processes
        self._publishers = [Outbox(one.socket) for one in publishers]
        self._subscribers = {one.socket.fileno(): one.socket for one in subscribers}
        self._poll = select.epoll()
        self._timer = Ticks(TICK)
        self._poll.register(self._timer.file, select.EPOLLIN)
        for file, subscriber in self._subscribers.items():
            subscriber.settimeout(0)
            self._poll.register(file, select.EPOLLIN)
        self._rests: dict[int, bytes] = {}
        self._turn = 0
        # Bytes of a delivered packet.
        self._size = 0

    def __enter__(self) -> Self:
        """Return the loop, which is connected already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close all connections."""
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._poll.close()
        self._timer.close()
        for one in (*self._subscribers.values(), *(each.socket for each in self._publishers)):
            one.close()

    def probe(self, messages: Messages) -> None:
        """Send one message and learn how large a delivered packet is."""
        packet, copies = messages.example()
        self._publishers[0].send(packet)
        found: dict[int, bytes] = {}
        deadline = time.monotonic() + PROBE_SECONDS
        while len(found) < copies or len({len(one) for one in found.values()}) != 1:
            if time.monotonic() > deadline:
                raise LoadError(f"{len(found)} of {copies} copies of a message were delivered")
            for file in self._readable(0.1):
                found[file] = found.get(file, b"") + self._subscribers[file].recv(READ_BYTES)
        self._size = len(next(iter(found.values())))

    def run(  # noqa: C901 - one loop, for speed
        self, messages: Messages, rate: float, seconds: float, *,
        warm_up: float = 0.0, changes: Changes | None = None, backlog: float = BACKLOG_SECONDS,
    ) -> Timed:  # fmt: skip
        """Send at a rate; what is due in the first ``warm_up`` seconds does not count.

        The run is given up when more messages are under way than are sent in ``backlog`` seconds.
        """
        if changes is not None:
            changes.prepare(seconds)
        begun, own = processor_seconds(self._processes), time.process_time()
        start = time.monotonic_ns() + TICK
        end, bursts, sent, expected = start + int(seconds * 1e9), 0, 0, 0
        delivered, late, gave_up = 0, [], False
        arrived: list[NDArray[np.int64]] = []
        most = max(LEAST_BACKLOG, rate * backlog)
        if changes is not None:
            changes.begin(start, end)
            self._poll.register(changes.socket, select.EPOLLIN)
        self._timer.begin(start)
        ready: list[int] = []
        while True:
            now = time.monotonic_ns()
            due = start + bursts * TICK
            for _ in range(MOST_BURSTS_AT_ONCE):
                if due > now or due >= end:
                    break
                count = int((bursts + 1) * TICK * rate / 1e9) - sent
                if count:
                    late.append(time.monotonic_ns() - due)
                    rows, copies = messages.take(count, due)
                    self._send(rows)
                    sent += count
                    expected += copies
                bursts += 1
                due = start + bursts * TICK
            if changes is not None:
                changes.step(now)
            got = self._receive(ready, start, arrived)
            delivered += got
            if due >= end:
                break
            if expected - delivered > most * max(1.0, expected / max(sent, 1)):
                gave_up = True
                break
            if got:
                time.sleep(GATHER_SECONDS)
            ready = self._readable(1.0)
        passed = (time.monotonic_ns() - start) / 1e9
        shares = (
            (time.process_time() - own) / passed,
            (processor_seconds(self._processes) - begun) / passed,
        )
        delivered += self._drain(start, arrived, expected - delivered, changes)
        if changes is not None:
            self._poll.unregister(changes.socket)
        times = np.concatenate([np.empty((2, 0), np.int64), *arrived], axis=1)
        counted = times[:, times[0] >= start + int(warm_up * 1e9)]
        took = (counted[1] - counted[0]) / 1e6
        run = Run(
            rate=rate, seconds=passed, sent=sent, expected=expected, delivered=delivered,
            median_ms=float(np.median(took)) if len(took) else float("inf"),
            p99_ms=float(np.percentile(took, 99)) if len(took) else float("inf"),
            late_ms=float(np.median(late)) / 1e6 if late else 0.0,
            generator_share=shares[0], system_share=shares[1], gave_up=gave_up,
            growth=growth_of((counted[0] - start) / 1e9, took),
            add_ms=() if changes is None else tuple(changes.took_ms),
            adds_missing=0 if changes is None else changes.missing + changes.refused,
        )  # fmt: skip
        return Timed(run, (counted[0] - start) / 1e9, took)

    def _readable(self, seconds: float) -> list[int]:
        """Wait for the next burst or for something to read; return the subscribers' files."""
        files = [file for file, _ in self._poll.poll(seconds)]
        if self._timer.file in files:
            self._timer.read()
        return [file for file in files if file in self._subscribers]

    def _send(self, rows: NDArray[np.uint8]) -> None:
        """Spread a burst over the publishers, which take turns."""
        count, publishers = len(rows), self._publishers
        used = min(count, len(publishers))
        for number in range(used):
            part = rows[count * number // used : count * (number + 1) // used]
            publishers[(self._turn + number) % len(publishers)].send(part.tobytes())
        self._turn = (self._turn + used) % len(publishers)

    def _receive(self, files: list[int], start: int, arrived: list[NDArray[np.int64]]) -> int:
        """Read what is there; return the number of packets of this run."""
        for publisher in self._publishers:
            if publisher.rest:
                publisher.flush()
        pieces: list[bytes] = []
        counts: list[int] = []
        moments: list[int] = []
        size, rests = self._size, self._rests
        for file in files:
            data = self._subscribers[file].recv(READ_BYTES)
            if not data:
                raise LoadError("the broker closed a subscriber's connection")
            moments.append(time.monotonic_ns())
            if file in rests:
                data = rests.pop(file) + data
            whole = len(data) // size
            if whole * size < len(data):
                rests[file] = data[whole * size :]
                data = data[: whole * size]
            pieces.append(data)
            counts.append(whole)
        if not pieces:
            return 0
        packets = np.frombuffer(b"".join(pieces), np.uint8).reshape(-1, size)
        dues = np.ascontiguousarray(packets[:, -STAMP_BYTES:]).view("<i8").ravel()
        times = np.stack((dues.astype(np.int64), np.repeat(np.array(moments), counts)))
        times = times[:, times[0] >= start]
        arrived.append(times)
        return int(times.shape[1])

    def _drain(
        self, start: int, arrived: list[NDArray[np.int64]], missing: int, changes: Changes | None
    ) -> int:
        """Wait for what is under way; return the number of packets."""
        began = last = time.monotonic()
        got = 0
        while True:
            now = time.monotonic()
            is_waiting = missing > got or any(one.rest for one in self._publishers)
            is_changing = changes is not None and changes.missing > 0
            if not (is_waiting or is_changing) or now - began > DRAIN_SECONDS:
                return got
            if now - last > QUIET_SECONDS and not is_changing:
                return got
            if changes is not None:
                changes.step(time.monotonic_ns())
            if found := self._receive(self._readable(0.01), start, arrived):
                got += found
                last = now
