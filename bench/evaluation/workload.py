"""Subscriptions and messages of the evaluation, the same for every system.

``DisjointWorkload`` is the artificial one: neighborhoods of one size without common members, so
that every message goes to one client. ``bench.evaluation.berlin`` has one from a map.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.broker import scene
from spatial_udfs.entity_table import Int64s

SEED: Final = 17
CLIENTS: Final = 100
# The largest prime number below 9 * 10**9: multiples of STEP modulo SPAN are all different.
SPAN: Final = 8_999_999_993
STEP: Final = 5_562_306_329
STAMP_BYTES: Final = 8
# Members of this many changing subscriptions are distinct; then they come again.
CHANGES: Final = 1_000


class Published(NamedTuple):
    """What messages are about: entities, one subscription of each, how many clients get it."""

    peids: Int64s
    numbers: Int64s
    copies: Int64s


class Workload(Protocol):
    """Numbered subscriptions. Numbers from ``subscriptions`` on are those that come and go."""

    @property
    def topic(self) -> str:
        """The topic of all messages and subscriptions."""

    @property
    def subscriptions(self) -> int:
        """The number of subscriptions that stay."""

    @property
    def clients(self) -> int:
        """The number of clients; each holds equally many subscriptions, in ascending order."""

    def descriptor(self, number: int) -> str:
        """Return the neighborhood of a subscription."""

    def members(self, number: int) -> Int64s:
        """Return the members of a subscription's neighborhood, ascending."""

    def members_of_reference(self, reference: int) -> Int64s:
        """Return the members of the neighborhood that has this reference."""

    def published(self, most: int, seed: int) -> Published:
        """Return up to ``most`` messages in a random order."""


def numbers_of(workload: Workload, client: int) -> range:
    """Return the numbers of the subscriptions that a client holds."""
    each = workload.subscriptions // workload.clients
    return range(client * each, (client + 1) * each)


def nsid_of(workload: Workload, number: int) -> str:
    """Return the nsid of a subscription; all have equally many digits."""
    each = workload.subscriptions // workload.clients
    return str(10 ** len(str(each)) + number % each)


def peids_at(places: Int64s) -> Int64s:
    """Return the entities at these places of the random order: different, of ten digits."""
    return scene.LOWEST_PEID + places * STEP % SPAN


@dataclass(frozen=True)
class DisjointWorkload:
    """Neighborhoods of one size that have no members in common."""

    subscriptions: int
    size: int
    topic: str = "sensor/temperature"

    @property
    def clients(self) -> int:
        """One hundred, or one for each subscription when there are fewer."""
        return min(CLIENTS, self.subscriptions)

    @property
    def pairs(self) -> int:
        """The number of members of all subscriptions."""
        return self.subscriptions * self.size

    def descriptor(self, number: int) -> str:
        """Return a neighborhood with the number as its only reference."""
        return scene.descriptor_of(number)

    def members(self, number: int) -> Int64s:
        """Return the members; those that come and go have entities that no message is about."""
        if number >= self.subscriptions:
            number = self.subscriptions + (number - self.subscriptions) % CHANGES
        start = number * self.size
        return np.sort(peids_at(np.arange(start, start + self.size, dtype=np.int64)))

    def members_of_reference(self, reference: int) -> Int64s:
        """Return the same as ``members``: a reference is a number."""
        return self.members(reference)

    def published(self, most: int, seed: int) -> Published:
        """Return members of all neighborhoods, each at most once."""
        count = min(most, self.pairs)
        rng = np.random.default_rng((SEED, seed))
        places = rng.choice(self.pairs, count, replace=False).astype(np.int64)
        return Published(peids_at(places), places // self.size, np.ones(count, np.int64))


def reference_of(descriptor: str) -> int:
    """Return the only reference of a descriptor that a workload made."""
    return int(json.loads(descriptor)["refs"][0])


def is_of_workload(descriptor: str) -> bool:
    """Return whether the disjoint workload made a descriptor: all its neighborhoods look alike."""
    start, end = scene.descriptor_of(0).split("0", 1)
    return descriptor.startswith(start) and descriptor.endswith(end)


class Messages:
    """Encoded PUBLISH packets of one size, sent in turn; each ends with the time it was due."""

    def __init__(self, packets: Sequence[bytes], copies: Int64s) -> None:
        size = len(packets[0])
        if any(len(one) != size for one in packets):
            raise ValueError("all packets must have one size")
        joined = np.frombuffer(b"".join(packets), np.uint8)
        self._matrix: NDArray[np.uint8] = joined.reshape(len(packets), size).copy()
        self._copies = copies
        self._next = 0

    def __len__(self) -> int:
        """Return the number of different messages."""
        return len(self._matrix)

    def take(self, count: int, due: int) -> tuple[NDArray[np.uint8], int]:
        """Return the next messages, stamped, and the number of copies to be delivered."""
        start = self._next
        end = start + count
        if end <= len(self._matrix):
            rows, copies = self._matrix[start:end], self._copies[start:end]
            self._next = end % len(self._matrix)
        else:
            places = np.arange(start, end) % len(self._matrix)
            rows, copies = self._matrix[places], self._copies[places]
            self._next = end % len(self._matrix)
        rows[:, -STAMP_BYTES:] = np.frombuffer(due.to_bytes(STAMP_BYTES, "little"), np.uint8)
        return rows, int(copies.sum())

    def example(self) -> tuple[bytes, int]:
        """Return a message that somebody gets, and the number of copies."""
        place = int(np.argmax(self._copies > 0))
        return self._matrix[place].tobytes(), int(self._copies[place])


def padding(peid: int, digits: int) -> bytes:
    """Return a payload that makes packets about entities with up to so many digits equally long."""
    return bytes(scene.PAYLOAD_BYTES + digits - len(str(peid)))
