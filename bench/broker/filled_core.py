"""A broker core with subscriptions, whose filter the benchmarks time."""

from __future__ import annotations

import time
from typing import Final

import numpy as np

from bench.broker import scene
from broker.codec.reason_codes import ReasonCode
from broker.core.broker_core import Core
from broker.core.limits import BrokerLimits
from broker.core.requests import Authenticate, Resolution, Resolve
from broker.core.sessions.connection import Connection
from broker.filter.memberships_memory import MemoryMemberships
from broker.filter.memberships_redis import RedisMemberships
from spatial_udfs.entity_table import Int64s

SUBSCRIPTIONS_OF_CLIENT: Final = 1_000
GENERATION: Final = 1
# Room for more subscriptions than any point has, 1,900 bytes each.
MOST_BYTES: Final = 1 << 30


class FilledCore:
    """Subscriptions whose members were loaded at once, as those of a generation are."""

    def __init__(self, subscriptions: int, members: int, *, in_redis: bool) -> None:
        self.memberships = RedisMemberships() if in_redis else MemoryMemberships()
        # All clients count as one user, who may have half of the total.
        limits = BrokerLimits(total_subscription_bytes=MOST_BYTES)
        self.core = Core(
            clock=time.monotonic, memberships=self.memberships, sys_interval=0, limits=limits
        )
        self._members = members
        self._sub_ids = 0
        self._next: Int64s = np.empty(0, np.int64)
        self.peids = _distinct(subscriptions * members)
        # All peids are in any order; so these are of all neighborhoods.
        places = np.random.default_rng(scene.SEED).permutation(len(self.peids))[: scene.PUBLISHED]
        self._places, self.published = places, self.peids[places]
        self.clients: list[Connection] = []
        for number in range(subscriptions):
            if number % SUBSCRIPTIONS_OF_CLIENT == 0:
                self.clients.append(self.connect(f"c{number}"))
            self.subscribe(self.clients[-1], number % SUBSCRIPTIONS_OF_CLIENT + 1)
        self._load(subscriptions)

    def _load(self, subscriptions: int) -> None:
        builder = self.memberships.begin_generation()
        if isinstance(self.memberships, RedisMemberships):
            self.memberships.switch(builder, GENERATION)
            slots_of = (self._places // self._members).tolist()
            found = {
                peid: (slot,) for peid, slot in zip(self.published.tolist(), slots_of, strict=True)
            }
            self.memberships.keep(GENERATION, found)
            return
        slots = np.repeat(np.arange(subscriptions, dtype=np.uint32), self._members)
        builder.add_pairs(self.peids, slots)
        self.memberships.switch(builder)

    def connect(self, client_id: str) -> Connection:
        """Return a connected client."""
        connection = self.core.open()
        self.core.receive(connection, scene.connect(client_id, scene.MQTT_5))
        self.settle()
        return connection

    def subscribe(self, client: Connection, nsid: int, peids: Int64s | None = None) -> None:
        """Subscribe to one more neighborhood, whose members are known already."""
        self._next = np.empty(0, np.int64) if peids is None else peids
        properties = (
            scene.user_property("neighborhood", "{}"),
            scene.user_property("nsid", str(nsid)),
        )
        self.core.receive(client, scene.subscribe(["sensor/#"], scene.MQTT_5, 0, *properties))
        while not self.settle():
            self.core.tick()

    def settle(self) -> bool:
        """Do what a shell does; return whether something was written."""
        outbox, has_written = self.core.outbox, False
        while outbox.requests or outbox.writes:
            requests, outbox.requests = outbox.requests, []
            for request in requests:
                if isinstance(request, Authenticate):
                    request.answer(ReasonCode.SUCCESS, None, None)
                elif isinstance(request, Resolve):
                    self._sub_ids += 1
                    request.answer(Resolution((self._sub_ids,), self._next))
            writes, outbox.writes = outbox.writes, []
            for connection in writes:
                has_written = bool(self.core.output_of(connection)) or has_written
        return has_written


def _distinct(count: int) -> Int64s:
    rng = np.random.default_rng(scene.SEED)
    lowest, highest = scene.LOWEST_PEID, scene.HIGHEST_PEID
    found = np.unique(rng.integers(lowest, highest, count + count // 50 + 100))
    return rng.permutation(found)[:count]
