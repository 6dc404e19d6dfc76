"""Filter times come in every mode and at every QoS; pairs are counted while they are in force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from broker.core.counters import SAMPLE_SECONDS
from broker.filter.memberships import Memberships, NoMemberships
from broker.filter.memberships_memory import MemoryMemberships
from broker.filter.memberships_redis import RedisMemberships
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness


def redis_memberships() -> RedisMemberships:
    """Memberships of a generation whose sets must be read."""
    memberships = RedisMemberships()
    memberships.switch(memberships.begin_generation(), generation=1)
    return memberships


MODES: Any = pytest.mark.parametrize(
    "make", [NoMemberships, MemoryMemberships, redis_memberships], ids=["none", "memory", "redis"]
)


@MODES
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_that_comes_alone_is_timed(make: type[Memberships], qos: int) -> None:
    harness = Harness(memberships=make())
    client = harness.connect("c")
    times = harness.core.counters.filter_times
    near = encode.user("peid", "3")
    packet_id = 5 if qos else None
    client.send(encode.publish("a", b"x", qos=qos, packet_id=packet_id, properties=near))
    assert len(times) == 1
    client.send(encode.publish("a", b"x", properties=near))
    assert len(times) == 1, "not every message is timed"
    harness.clock.now += SAMPLE_SECONDS
    client.send(encode.publish("a", b"x"))
    assert len(times) == 1, "a message without an entity does not pass the filter"
    client.send(encode.publish("a", b"x", properties=near))
    assert len(times) == 2


def test_pairs_are_those_in_force(harness: Harness, client: Client) -> None:
    memberships = harness.memberships
    client.subscribe_near("a/#", "near", nsid=1)
    client.subscribe_near("b/#", "far", nsid=2)
    assert memberships.pairs == 5
    client.send(encode.unsubscribe("a/#"))
    assert memberships.pairs == 2, "before the table is swept"
    assert len(memberships) == 5
    client.send(encode.packet(0xE0, b""))
    assert memberships.pairs == 0


def test_pairs_of_a_subscription_that_is_half_entered_do_not_count() -> None:
    memberships = MemoryMemberships()
    memberships.begin(0, np.arange(10))
    memberships.add_some(0, 4)
    assert memberships.pairs == 0
    memberships.add_some(0, 6)
    assert memberships.pairs == 10


def test_pairs_stay_right_over_a_switch() -> None:
    memberships = MemoryMemberships()
    memberships.add(0, np.arange(10))
    memberships.add(1, np.arange(5))
    builder = memberships.begin_generation()
    builder.add(0, np.arange(7))
    builder.add(1, np.arange(5))
    memberships.remove(1)
    assert memberships.pairs == 10
    memberships.switch(builder)
    assert memberships.pairs == 7


def test_redis_counts_what_the_generation_lacks() -> None:
    memberships = redis_memberships()
    memberships.add(3, np.arange(6))
    memberships.keep(1, {8: [1, 2, 3]})
    assert memberships.pairs == 6
